"""A node of a cluster: a real kubelet on a made machine, in namespaces of its own, whose runtime runs our image's programs.

To who lives in it, it is a machine: /sys and /proc are the made machine's, /var/lib/kubelet and /etc/kubernetes are its kubelet's,
it has its own processes, its own address, and a systemd (a fake one) that runs the kubelet. So what the chart mounts, and what an
agent with leave to change the kubelet looks for, is where it is on any node.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e import fake_systemd, own_network
from e2e.control_plane import ROOT, ControlPlane, assets, kubelet
from e2e.node_runtime import BRIDGE
from e2e.program import Program
from e2e.real_kubelet import SETTINGS, SYSCTLS
from numaware.machine.topology import Machine
from support import made_sysfs

_RUNTIME = "/run/containerd.sock"
# Of the machine that is there, what a kubelet looks at besides what is made.
_OWN_SYS = ("block", "class", "devices/virtual", "fs")
_MADE_PROC = ("cpuinfo", "meminfo", "stat")


class NodeProgram(Program):
    """Everything that runs on the node."""

    def tail(self, lines: int = 30) -> str:
        """The end of every log: the node's own, its kubelet's, and of each container."""
        folder = self.log.parent
        logs = (self.log, folder / "systemd.sock.log", *sorted((folder / "log/pods").rglob("*.log")))
        return "\n".join(Program(path.parent.parent.name, [], path).tail(lines) for path in logs)


class RealNode:
    """`number` is its place in the network; `config` is laid over settings that every such kubelet needs."""

    def __init__(
        self, folder: Path, plane: ControlPlane, number: int, machine: Machine, config: Mapping[str, Any]
    ) -> None:
        self.name = f"n{number}"
        self.folder = folder
        prefix = f"10.244.{number}"
        self.address = f"{prefix}.1"
        self.root = folder / "kubelet"
        self.made = made_sysfs.write(folder / "machine", machine)
        self.config_file = self.root / "config.yaml"
        self.podresources = self.root / "pod-resources/kubelet.sock"
        for path in ("kubelet/pki", "kubernetes", "log/pods", "sysctl"):
            (folder / path).mkdir(parents=True)
        self.config_file.write_text(
            yaml.safe_dump({**SETTINGS, "containerRuntimeEndpoint": f"unix://{_RUNTIME}", **config}),
            encoding="utf-8",
        )
        login = plane.kubeconfig(kubelet_user(self.name))
        # As kubeadm leaves it: everything in one file, and the address that everybody has.
        text = plane.kubectl("config", "view", "--raw", "--flatten", "--kubeconfig", login)
        whole = yaml.safe_load(text)
        whole["clusters"][0]["cluster"]["server"] = f"https://{own_network.API_SERVER}"
        (folder / "kubernetes/kubelet.conf").write_text(yaml.safe_dump(whole), encoding="utf-8")
        fake_systemd.make_tools(folder / "tools", folder / "systemd.sock")
        script = folder / "start.sh"
        script.write_text("\n".join(self._script(prefix)) + "\n", encoding="utf-8")
        spaces = "exec 9</proc/self/ns/net; exec unshare --mount --net --pid --fork --kill-child bash"
        self.program = NodeProgram(
            self.name, ["bash", "-c", f"{spaces} {shlex.quote(str(script))}"], folder / "node.log"
        )

    def __enter__(self) -> Self:
        self.program.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.kill()

    def state(self, name: str) -> dict[str, Any]:
        """One of the kubelet's state files."""
        found: dict[str, Any] = json.loads((self.root / name).read_bytes())
        return found

    def config(self) -> dict[str, Any]:
        """What its kubelet is configured with."""
        found: dict[str, Any] = yaml.safe_load(self.config_file.read_text(encoding="utf-8"))
        return found

    def _script(self, prefix: str) -> list[str]:
        lines = ["set -euo pipefail", "mount --make-rprivate /"]
        lines += self._wires()
        lines += self._files()
        python, tests = shlex.quote(sys.executable), shlex.quote(str(ROOT / "tests"))
        runtime = shlex.quote(str(Path(__file__).with_name("node_runtime.py")))
        lines += [
            f"PYTHONPATH={tests} {python} {runtime} {_RUNTIME} {prefix} &",
            f"until [ -S {_RUNTIME} ]; do sleep 0.1; done",
            shlex.join(
                [
                    *("exec", sys.executable, fake_systemd.__file__, str(self.folder / "systemd.sock"), "--"),
                    str(assets() / "kubelet"),
                    "--config=/var/lib/kubelet/config.yaml",
                    "--kubeconfig=/etc/kubernetes/kubelet.conf",
                    "--cert-dir=/var/lib/kubelet/pki",
                    f"--hostname-override={self.name}",
                    f"--node-ip={self.address}",
                    "--v=2",
                ]
            ),
        ]
        return lines

    def _wires(self) -> list[str]:
        """A bridge that has the node's address, joined to the cluster's, which is where this was called from."""
        cluster = "nsenter --net=/proc/self/fd/9"
        return [
            f"ip link add eth0 type veth peer name {self.name}",
            f"ip link set {self.name} netns /proc/self/fd/9",
            f"{cluster} ip link set {self.name} master {own_network.BRIDGE} up",
            "exec 9<&-",
            "ip link set lo up",
            f"ip link add {BRIDGE} type bridge",
            f"ip link set eth0 master {BRIDGE} up",
            f"ip address add {self.address}/{own_network.NETWORK_BITS} dev {BRIDGE}",
            f"ip link set {BRIDGE} up",
            f"ip route add {own_network.SERVICES} via {own_network.GATEWAY}",
        ]

    def _files(self) -> list[str]:
        """The made machine over the real one, folders of the node's own, and covers over what a kubelet sets for all."""
        made, folder = shlex.quote(str(self.made)), shlex.quote(str(self.folder))
        lines = ["mount -t proc none /proc"]
        lines += [f"mount --bind {made}/proc/{name} /proc/{name}" for name in _MADE_PROC]
        for number, sysctl in enumerate(SYSCTLS):
            cover = self.folder / "sysctl" / str(number)
            cover.write_bytes(Path(f"/proc/sys/{sysctl}").read_bytes())
            lines += [
                f"mount --bind {folder}/sysctl/{number} /proc/sys/{sysctl}",
                # The node's own file has to be on top now, not the kernel's.
                f'[ "$(stat -f -c %T /proc/sys/{sysctl})" != proc ]',
            ]
        lines += ["mount -t tmpfs none /run", "mkdir /run/sys", "mount --rbind /sys /run/sys"]
        lines += [f"mkdir -p {made}/sys/{name}" for name in _OWN_SYS]
        lines.append(f"mount --bind {made}/sys /sys")
        lines += [f"mount --rbind /run/sys/{name} /sys/{name}" for name in _OWN_SYS]
        lines += [
            "mkdir /run/etc /run/work",
            "mount -t overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work none /etc",
            "mkdir -p /etc/kubernetes",
            f"mount --bind {folder}/kubernetes /etc/kubernetes",
            "mount -t tmpfs none /var/lib",
            "mkdir /var/lib/kubelet",
            f"mount --bind {folder}/kubelet /var/lib/kubelet",
            f"mount --bind {folder}/log /var/log",
            f"mount --bind {folder}/tools /usr/local/bin",
        ]
        return lines


def kubelet_user(name: str) -> str:
    """The user of a node's kubelet, as the control plane is told of it."""
    return f"kubelet-{name}"


def users(count: int) -> dict[str, Any]:
    """The users of so many nodes' kubelets."""
    return {kubelet_user(f"n{number}"): kubelet(f"n{number}") for number in range(1, count + 1)}
