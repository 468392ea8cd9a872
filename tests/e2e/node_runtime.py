"""The container runtime of a `RealNode`: containers of our image are processes, all others are as in `FakeCri`.

A process sees what its pod says and nothing else: a root file system with our image's Python and libraries (taken from this
machine, as building the image takes minutes), read only where the pod wants it so, with its volumes at their places; its user, its
capabilities, its environment; the pod's own network, or the node's. It sees the node's processes, which a real container does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from e2e.fake_cri import FakeCri
from e2e.own_network import GATEWAY, NETWORK_BITS, SERVICES

IMAGE = "registry.example.org/numaware"
# The node's own; its pods are plugged into it.
BRIDGE = "pods"

_OF_THE_NODE = 2
_SECONDS = 10.0


class NodeRuntime(FakeCri):
    """`prefix` is what the addresses of this node and its pods begin with; the node's own ends with 1."""

    def __init__(self, socket: Path, prefix: str) -> None:
        super().__init__(socket)
        self._prefix = prefix
        self._last = 1
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def _address(self, sandbox: str) -> str:
        return self._addresses[sandbox]

    def _sandbox_status(self, asked: Any) -> Any:
        found = super()._sandbox_status(asked)
        if self._addresses[asked.id] == f"{self._prefix}.1":
            # Else the kubelet makes another one, and another one.
            found.status.linux.namespaces.options.network = _OF_THE_NODE
        return found

    def _run_sandbox(self, asked: Any) -> Any:
        found = super()._run_sandbox(asked)
        options = asked.config.linux.security_context.namespace_options
        if options.network == _OF_THE_NODE:
            self._addresses[found.id] = f"{self._prefix}.1"
        else:
            self._last += 1
            self._addresses[found.id] = f"{self._prefix}.{self._last}"
            self._wire(found.id, f"pod{self._last}")
        return found

    def _wire(self, sandbox: str, port: str) -> None:
        """A network of the pod's own, with a way to the others and to services."""
        _ip(
            f"netns add {sandbox}",
            f"link add {port} type veth peer name eth0 netns {sandbox}",
            f"link set {port} master {BRIDGE} up",
        )
        _ip(
            "link set lo up",
            f"address add {self._addresses[sandbox]}/{NETWORK_BITS} dev eth0",
            "link set eth0 up",
            f"route add {SERVICES} via {GATEWAY}",
            within=sandbox,
        )

    def _stop_sandbox(self, asked: Any) -> Any:
        answer = super()._stop_sandbox(asked)
        if Path("/run/netns", asked.id).exists():
            _ip(f"netns delete {asked.id}")
        return answer

    def _create(self, asked: Any) -> Any:
        found = super()._create(asked)
        # Where the kubelet looks for it.
        log = f"{asked.sandbox_config.log_directory}/{asked.config.log_path}"
        self.containers[found.id].log_path = log
        self._names[found.id] = asked.sandbox_config.hostname
        return found

    def _start(self, asked: Any) -> Any:
        config = self.configs[asked.id]
        if config.image.image.partition(":")[0] == IMAGE:
            self._run(asked.id, config)
        return super()._start(asked)

    def _run(self, name: str, config: Any) -> None:
        security = config.linux.security_context
        sandbox = Path("/run/netns", self._owner[name])
        told = {
            "root": f"/run/containers/{name}",
            "command": [*config.command, *config.args],
            "environment": {one.key: one.value for one in config.envs},
            "mounts": [[one.host_path, one.container_path, one.readonly] for one in config.mounts],
            "network": str(sandbox) if sandbox.exists() else "",
            "name": self._names[name],
            "user": security.run_as_user.value,
            "group": security.run_as_group.value,
            "privileged": security.privileged,
            "read_only": security.readonly_rootfs,
        }
        path = Path(self.containers[name].log_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("node_container.py"), json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.terminate()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        super()._end(name)

    def _list_containers(self, asked: Any) -> Any:
        self._look()
        return super()._list_containers(asked)

    def _container_status(self, asked: Any) -> Any:
        self._look()
        return super()._container_status(asked)

    def _look(self) -> None:
        """Tell of what has ended by itself; the kubelet starts it again."""
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                self._end(name)
                self.containers[name].exit_code = process.returncode & 0xFF
                self.containers[name].reason = "Error" if process.returncode else "Completed"


def _ip(*lines: str, within: str = "") -> None:
    command = ["ip", *(["-netns", within] if within else []), "-batch", "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


def main() -> None:
    """Serve until killed."""
    socket, prefix = sys.argv[1:]
    with NodeRuntime(Path(socket), prefix):
        threading.Event().wait()


if __name__ == "__main__":
    main()
