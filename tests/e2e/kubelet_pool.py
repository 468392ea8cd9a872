"""Two real kubelets that have joined an API server, and the agents that may change them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.control_plane import RBAC, ROOT, ControlPlane, free_port, kubelet
from e2e.ours import numaware
from e2e.program import Program, eventually
from e2e.switched_kubelet import Files, SwitchedKubelet
from numaware.machine import synthetic

NODES = ("n1", "n2")
POLICIES = "/apis/numaware.io/v1alpha1/kubeletpolicies"
CONFIG = {"systemReserved": {"cpu": "1", "memory": "1Gi"}, "evictionHard": {"memory.available": "100Mi"}}
USERS = {f"kubelet-{name}": kubelet(name) for name in NODES}


class KubeletPool:
    """A control plane with the kind installed, two kubelets and their agents."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self.plane = plane
        self._folder = folder
        for path in ("crd/kubeletpolicies.yaml", "rbac/optional/kubelet-policies.yaml"):
            plane.kubectl("apply", "--server-side", "-f", ROOT / "deploy" / path)
        plane.kubectl(
            "wait", "--for=condition=Established", "--timeout=30s", "crd/kubeletpolicies.numaware.io"
        )
        self.kubelets = {
            name: SwitchedKubelet(
                folder / name,
                synthetic.read("2s x 4c x 2t mem=32Gi"),
                CONFIG,
                name=name,
                kubeconfig=plane.kubeconfig(f"kubelet-{name}"),
            )
            for name in NODES
        }
        self.agents: dict[str, Program] = {}
        self._found: dict[str, dict[str, Files]] = {}

    def __enter__(self) -> Self:
        try:
            for one in self.kubelets.values():
                one.__enter__()
            for name in NODES:
                eventually(lambda name=name: self._ready(name), f"{name} is ready")  # type: ignore[misc]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self.agents.values():
            agent.stop(30)
        for one in self.kubelets.values():
            one.__exit__(kind, error, trace)

    def begin(self, test: str) -> None:
        """Nothing that another test has left; where this one is tried again, the kubelets are as it found them at first."""
        for agent in self.agents.values():
            agent.stop(30)
        self.agents.clear()
        self.plane.kubectl(
            "delete", "kubeletpolicies,poddisruptionbudgets,pods", "--all", "--namespace=default"
        )
        self.plane.kubectl(
            "delete", "--ignore-not-found", "-f", RBAC / "optional/console-switch-distance.yaml"
        )
        again = test in self._found
        found = self._found.setdefault(test, {name: one.bytes() for name, one in self.kubelets.items()})
        for name, one in self.kubelets.items():
            one.mend()
            if again:
                one.restore(found[name])
                self.plane.kubectl("uncordon", name)
                eventually(lambda name=name: self._ready(name), f"{name} is ready")  # type: ignore[misc]

    def start_agent(self, name: str, *flags: str) -> Program:
        """The agent of a node, anew."""
        if name in self.agents:
            self.agents[name].stop(30)
        one = self.kubelets[name]
        command: list[str | Path] = [
            Path(sys.executable).with_name("numaware"),
            "agent",
            f"--node={name}",
            f"--root={one.made}",
            f"--kubelet-root={one.root}",
            f"--kubelet-config={one.config_file}",
            f"--device-plugins={one.plugins_folder}",
            f"--kubeconfig={self.plane.kubeconfig(self.plane.agent_on(name))}",
            f"--listen=127.0.0.1:{free_port()}",
            f"--kubelet-kubeconfig={self.plane.kubeconfig(f'kubelet-{name}')}",
            "--node-root=/",
            f"--machine-root={one.made}",
            f"--journal={one.folder / 'journal'}",
            "--log=json",
            *flags,
        ]
        agent = Program(f"agent-{name}", command, self._folder / f"agent-{name}.log", one.environment)
        agent.start()
        self.agents[name] = agent
        return agent

    def start_agents(self) -> None:
        for name in NODES:
            self.start_agent(name, "--allow-kubelet-changes")

    def policy(self, *words: str, status: int = 0) -> str:
        return numaware(self.plane, "policy", *words, user="admin", status=status)

    def nodes(self, name: str) -> dict[str, dict[str, Any]]:
        """Where the nodes stand with an order."""
        shown = self.plane.api().get(f"{POLICIES}/{name}")
        found: dict[str, dict[str, Any]] = shown.get("status", {}).get("nodes", {})
        return found

    def phases(self, name: str) -> dict[str, str]:
        return {node: one["phase"] for node, one in sorted(self.nodes(name).items())}

    def wait(self, name: str, wanted: Mapping[str, str]) -> None:
        """Until the nodes stand so; never are two of them away at once."""

        def so() -> bool:
            phases = self.phases(name)
            assert list(phases.values()).count("Switching") < 2
            return phases == dict(wanted)

        eventually(so, f"{name} is {wanted}", 90)

    def _ready(self, name: str) -> bool:
        node = self.plane.api().get(f"/api/v1/nodes/{name}")
        return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
