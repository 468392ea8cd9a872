"""A real kubelet that believes in another machine.

It runs in a mount namespace of its own, in which the made machine lies over /sys and /proc, and plain files over the
sysctls: a starting kubelet sets six of them for the whole machine, so it is not started unless every one is covered.
Containers are run by a fake runtime, devices come from fake plugins. Without an API server it takes pods from a folder
(static pods), which is the fastest way in.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import made_sysfs
from e2e.fake_cri import FakeCri
from e2e.fake_plugin import FakePlugin
from e2e.program import Program, eventually
from numaware.machine import sysfs
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree

ROOT = Path(__file__).parents[2]
# What a kubelet writes at its start, for the whole machine.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_COVER = "/dev/shm/numaware-sysctl"
Devices = Mapping[str, Mapping[str, tuple[int, ...]]]


def assets() -> Path:
    """The folder of the Kubernetes programs, built if need be."""
    found = subprocess.run([ROOT / "scripts/kube-assets/build"], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


class RealKubelet:
    """One kubelet in a folder; `config` is laid over settings that every such kubelet needs."""

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        config: Mapping[str, Any],
        devices: Devices | None = None,
        *,
        name: str = "node-1",
        kubeconfig: Path | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.made = made_sysfs.write(folder / "machine", machine)
        self.root = folder / "kubelet"
        self.manifests = folder / "manifests"
        self.plugins_folder = folder / "device-plugins"
        for place in (self.root, self.manifests, self.plugins_folder, folder / "sysctl"):
            place.mkdir(parents=True)
        self.podresources = self.root / "pod-resources/kubelet.sock"
        self.cri = FakeCri(folder / "cri.sock")
        self.plugins = [FakePlugin(self.plugins_folder, *item) for item in sorted((devices or {}).items())]
        self.read_only_port, self.port, healthz = _free_ports(3)
        self._healthz = f"http://127.0.0.1:{healthz}/healthz"
        self.config_file = folder / "config.yaml"
        self.configure(config, healthz)
        self.program = Program(
            "kubelet", ["unshare", "--mount", "bash", self._script(kubeconfig)], folder / "kubelet.log"
        )

    def __enter__(self) -> Self:
        self.cri.__enter__()
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.stop(5)
        for plugin in self.plugins:
            plugin.__exit__(kind, error, trace)
        self.cri.__exit__(kind, error, trace)

    def machine(self) -> Machine:
        """The machine, as discovery reads it where the kubelet does."""
        return sysfs.read(open_tree(self.made))

    def start(self) -> None:
        """Start and wait until it is healthy and has all devices."""
        self.program.start()
        eventually(
            lambda: urllib.request.urlopen(self._healthz, timeout=1).status == 200,
            "the kubelet is healthy",
            alive=self.program,
        )
        eventually((self.plugins_folder / "kubelet.sock").exists, "it takes plugins", alive=self.program)
        for plugin in self.plugins:
            plugin.register()

    def stop(self) -> None:
        self.program.stop(10)

    def configure(self, config: Mapping[str, Any], healthz: int) -> None:
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.cri.socket}",
            "address": "127.0.0.1",
            "port": self.port,
            "readOnlyPort": self.read_only_port,
            "healthzPort": healthz,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "staticPodPath": str(self.manifests),
            "fileCheckFrequency": "1s",
            "syncFrequency": "2s",
            "podLogsDir": str(self.folder / "logs"),
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "failCgroupV1": False,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "registerNode": True,
            "maxPods": 250,
            "cpuManagerReconcilePeriod": "1s",
            **config,
        }
        # JSON is YAML, and Python has a writer of it.
        self.config_file.write_text(json.dumps(settings, indent=1), encoding="utf-8")

    def pods(self) -> dict[str, Any]:
        """Pod name -> the pod as the kubelet has it, its status included."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.read_only_port}/pods", timeout=10) as answer:
            found = json.load(answer)
        return {pod["metadata"]["name"]: pod for pod in found["items"] or []}

    def state(self, name: str) -> dict[str, Any]:
        """One of the kubelet's state files."""
        folder = self.plugins_folder if name == "kubelet_internal_checkpoint" else self.root
        found: dict[str, Any] = json.loads((folder / name).read_bytes())
        return found

    def _script(self, kubeconfig: Path | None) -> Path:
        """Covers what must be covered, each step or none, and becomes the kubelet."""
        lines = ["set -euo pipefail", "mount --make-rprivate /", "mount -t tmpfs none /var/log"]
        for target in ("sys/devices/system/node", "sys/devices/system/cpu", "proc/meminfo", "proc/cpuinfo"):
            lines.append(f"mount --bind {shlex.quote(str(self.made / target))} /{target}")
        for number, sysctl in enumerate(SYSCTLS):
            cover = self.folder / "sysctl" / str(number)
            shutil.copyfile(f"/proc/sys/{sysctl}", cover)
            lines += [
                f"mount --bind {shlex.quote(str(cover))} /proc/sys/{sysctl}",
                # The namespace's own file system has to be on top now, not the kernel's.
                f'[ "$(stat -f -c %T /proc/sys/{sysctl})" != proc ]',
            ]
        lines += [
            "mount -t tmpfs none /var/lib",
            "mkdir -p /var/lib/kubelet/device-plugins",
            f"mount --bind {shlex.quote(str(self.plugins_folder))} /var/lib/kubelet/device-plugins",
            shlex.join(
                [
                    "exec",
                    str(assets() / "kubelet"),
                    f"--config={self.config_file}",
                    f"--root-dir={self.root}",
                    f"--cert-dir={self.folder / 'pki'}",
                    f"--hostname-override={self.name}",
                    "--node-ip=127.0.0.1",
                    "--v=2",
                    *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
                ]
            ),
        ]
        script = self.folder / "start.sh"
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return script


def _free_ports(count: int) -> list[int]:
    listeners = [socket.socket() for _ in range(count)]
    try:
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


def may_run() -> bool:
    """Whether this user may make mount namespaces."""
    return os.geteuid() == 0
