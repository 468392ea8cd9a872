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
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.control_plane import assets, free_port
from e2e.fake_plugin import FakePlugin
from e2e.program import Program, eventually
from numaware.machine import sysfs
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree
from support import made_sysfs

# What a kubelet writes at its start, for the whole machine.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# Where it looks for the machine.
COVERED = (
    "sys/devices/system/node",
    "sys/devices/system/cpu",
    "sys/kernel/mm/hugepages",
    "proc/meminfo",
    "proc/cpuinfo",
)
# What every kubelet needs where there is no control of what containers use, and what makes it quick to answer.
SETTINGS: Mapping[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "syncFrequency": "2s",
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
}
# Another release than that of `make e2e`, such as v1.36 (`make e2e-versions`).
RELEASE = os.environ.get("NUMAWARE_KUBELET", "")
Devices = Mapping[str, Mapping[str, tuple[int, ...]]]


class RealKubelet:
    """One kubelet in a folder; `config` is laid over settings that every such kubelet needs.

    `release` is that of the program. With an `address` the API server reaches it: through loopback it would not, which is its rule for all nodes.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        config: Mapping[str, Any],
        devices: Devices | None = None,
        *,
        name: str = "node-1",
        kubeconfig: Path | None = None,
        address: str = "",
        release: str = RELEASE,
    ) -> None:
        assert os.geteuid() == 0, "a kubelet with mounts of its own needs root"
        self.folder = folder
        self.name = name
        self.address = address
        self._binary = assets(release) / "kubelet"
        self.made = made_sysfs.write(folder / "machine", machine)
        self.root = folder / "kubelet"
        self.sysctls = {name: Path(f"/proc/sys/{name}").read_text(encoding="utf-8") for name in SYSCTLS}
        self.manifests = folder / "manifests"
        self.plugins_folder = folder / "device-plugins"
        for place in (self.root, self.manifests, self.plugins_folder, folder / "sysctl"):
            place.mkdir(parents=True)
        self.podresources = self.root / "pod-resources/kubelet.sock"
        self._cri_socket = folder / "cri.sock"
        self.cri = Program(
            "runtime",
            [sys.executable, Path(__file__).with_name("fake_cri.py"), self._cri_socket],
            folder / "runtime.log",
            {"PYTHONPATH": str(Path(__file__).parents[1])},
        )
        self.plugins = [FakePlugin(self.plugins_folder, *item) for item in sorted((devices or {}).items())]
        self.read_only_port, self.port, healthz = (free_port() for _ in range(3))
        self._healthz_port = healthz
        self._healthz = f"http://127.0.0.1:{healthz}/healthz"
        self.config_file = folder / "config.yaml"
        self.configure(config, healthz)
        self.program = Program(
            "kubelet", ["unshare", "--mount", "bash", self._script(kubeconfig)], folder / "kubelet.log"
        )

    def __enter__(self) -> Self:
        try:
            self.cri.start()
            eventually(self._cri_socket.exists, "the runtime listens", alive=self.cri)
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
        self.cri.kill()

    def machine(self) -> Machine:
        """The machine, as discovery reads it where the kubelet does."""
        return sysfs.read(open_tree(self.made))

    def start(self) -> None:
        """Start, wait until it is healthy, and register the plugins."""
        # One left behind would be taken for the new one's.
        (self.plugins_folder / "kubelet.sock").unlink(missing_ok=True)
        self.program.start()
        eventually(
            lambda: self._fetch(self._healthz) == b"ok",
            "the kubelet is healthy",
            alive=self.program,
        )
        eventually((self.plugins_folder / "kubelet.sock").exists, "it takes plugins", alive=self.program)
        for plugin in self.plugins:
            plugin.register()

    def stop(self) -> None:
        self.program.stop(10)

    def reconfigure(self, config: Mapping[str, Any]) -> None:
        """Other settings, from the next start on."""
        self.configure(config, self._healthz_port)

    def configure(self, config: Mapping[str, Any], healthz: int) -> None:
        settings = {
            **SETTINGS,
            "containerRuntimeEndpoint": f"unix://{self._cri_socket}",
            "address": "0.0.0.0" if self.address else "127.0.0.1",  # noqa: S104 - the tests themselves ask on loopback
            "port": self.port,
            "readOnlyPort": self.read_only_port,
            "healthzPort": healthz,
            "staticPodPath": str(self.manifests),
            "fileCheckFrequency": "1s",
            "podLogsDir": str(self.folder / "logs"),
            **config,
        }
        # JSON is YAML, and Python has a writer of it.
        self.config_file.write_text(json.dumps(settings, indent=1), encoding="utf-8")

    def pods(self) -> dict[str, Any]:
        """Pod name -> the pod as the kubelet has it, its status included."""
        found = json.loads(self._fetch(f"http://127.0.0.1:{self.read_only_port}/pods"))
        return {pod["metadata"]["name"]: pod for pod in found["items"] or []}

    @staticmethod
    def _fetch(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own addresses
            data: bytes = answer.read()
        return data

    def state(self, name: str) -> dict[str, Any]:
        """One of the kubelet's state files."""
        folder = self.plugins_folder if name == "kubelet_internal_checkpoint" else self.root
        found: dict[str, Any] = json.loads((folder / name).read_bytes())
        return found

    def _script(self, kubeconfig: Path | None) -> Path:
        """Covers what must be covered, each step or none, and becomes the kubelet."""
        lines = [
            "set -euo pipefail",
            # Where a kubelet looks for files that have no full path.
            f"cd {shlex.quote(str(self.folder))}",
            "mount --make-rprivate /",
            "mount -t tmpfs none /var/log",
        ]
        lines += [f"mount --bind {shlex.quote(str(self.made / target))} /{target}" for target in COVERED]
        for number, sysctl in enumerate(SYSCTLS):
            cover = self.folder / "sysctl" / str(number)
            cover.write_text(self.sysctls[sysctl], encoding="utf-8")
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
                    str(self._binary),
                    f"--config={self.config_file}",
                    f"--root-dir={self.root}",
                    f"--cert-dir={self.folder / 'pki'}",
                    f"--hostname-override={self.name}",
                    f"--node-ip={self.address or '127.0.0.1'}",
                    "--v=2",
                    *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
                ]
            ),
        ]
        script = self.folder / "start.sh"
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return script
