"""A cluster whose nodes run kubelets of three releases: each is judged as what it is (`make e2e-versions`).

A kubelet may be older than its API server but not newer, so the API server is the newest one's.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.control_plane import ControlPlane, assets, free_port, kubelet
from e2e.kubelet_beside_twin import container, pod
from e2e.ours import Daemon
from e2e.program import Program, eventually
from e2e.real_kubelet import RealKubelet
from numaware.kube.topology import nrt
from numaware.machine import synthetic
from numaware.machine.cpuset import iter_bits
from numaware.twin.files import state_files
from numaware.twin.node import Node
from numaware.twin.readmission import lost_at_restart

pytestmark = pytest.mark.long

# The oldest is as old as a kubelet may be beside that API server.
RELEASES = {"n34": "v1.34", "n36": "v1.36", "n37": "v1.37"}
PODS = "/api/v1/namespaces/default/pods"
NRT = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
CONFIG = {
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "reservedSystemCPUs": "0,8",
    "systemReserved": {"memory": "1Gi"},
}


class Mixed:
    """The control plane, the three kubelets, an agent beside each, and our scheduler."""

    def __init__(self, folder: Path, plane: ControlPlane, kubelets: dict[str, RealKubelet]) -> None:
        self.plane = plane
        self.kubelets = kubelets
        self.agents = {name: self._agent(folder, name) for name in kubelets}
        self.scheduler = Daemon(plane, "scheduler", "--no-leader-election")

    def _agent(self, folder: Path, name: str) -> Program:
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
            "--log=json",
        ]
        return Program(f"agent-{name}", command, folder / f"agent-{name}.log")

    def told(self, name: str) -> Node:
        """The twin of a node, as a scheduler reads it."""
        report = nrt.decode(json.dumps(self.plane.api().get(f"{NRT}/{name}")).encode())
        assert report.complete is not None, report.problem
        return report.complete.node

    def pods(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.plane.api().list_all(PODS)}

    def agrees(self, name: str) -> bool:
        """Whether the twin of the node would write the file that its kubelet has written, to the byte."""
        node = self.told(name)
        ours = state_files(node.kubelet, node.state)["cpu_manager_state"]
        assert json.loads(ours) == self.kubelets[name].state("cpu_manager_state")
        return True


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("mixed")
    users = {f"kubelet-{name}": kubelet(name) for name in RELEASES}
    machine = synthetic.read("2s x 1n x 4c x 2t mem=16Gi")
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(folder / "plane", users=users, release="v1.37"))
        kubelets = {}
        for name, release in RELEASES.items():
            config = plane.kubeconfig(f"kubelet-{name}")
            made = RealKubelet(folder / name, machine, CONFIG, name=name, kubeconfig=config, release=release)
            kubelets[name] = stack.enter_context(made)
        for name in RELEASES:
            eventually(lambda name=name: plane.api().get(f"/api/v1/nodes/{name}"), f"{name} is there", 120)  # type: ignore[misc]
        cluster = Mixed(folder, plane, kubelets)
        for agent in cluster.agents.values():
            stack.enter_context(agent)
        for name in RELEASES:
            eventually(lambda name=name: cluster.agrees(name), f"{name} is published", 120)  # type: ignore[misc]
        stack.enter_context(cluster.scheduler)
        cluster.scheduler.wait_ready(120)
        yield cluster


def test_every_node_is_known_by_its_own_release(mixed: Mixed) -> None:
    told = mixed.plane.api().get("/version")["gitVersion"]
    assert told.startswith("v1.37."), "kubelets may be older than the API server, not newer"
    for name, release in RELEASES.items():
        version = f"v{assets(release).name.rpartition('-v')[2]}"
        node = mixed.plane.api().get(f"/api/v1/nodes/{name}")
        assert node["status"]["nodeInfo"]["kubeletVersion"] == version
        assert mixed.told(name).kubelet.config.version == version


def test_pods_run_where_the_scheduler_has_placed_them_and_every_twin_is_its_kubelet(mixed: Mixed) -> None:
    """Each takes a whole NUMA node's worth of three; more than fits waits and is refused by nobody."""
    for number, cpus in enumerate((6, 6, 6, 6, 6, 6, 2, 4, 8)):
        body = pod(f"p{number}", container("app", {"cpu": str(cpus), "memory": "1Gi"}))
        body["spec"]["schedulerName"] = "numaware"
        mixed.plane.api().create(PODS, body)

    def settled() -> bool:
        found = mixed.pods()
        bound = [one for one in found.values() if one["spec"].get("nodeName")]
        assert [one for one in bound if one["status"].get("phase") == "Failed"] == []
        return len(bound) >= 6 and all(one["status"].get("startTime") for one in bound)

    eventually(settled, "all that fits runs", 240)
    placed = {one["spec"]["nodeName"] for one in mixed.pods().values() if one["spec"].get("nodeName")}
    assert placed == set(RELEASES), "each release has some of them"
    for name in RELEASES:
        eventually(lambda name=name: mixed.agrees(name), f"{name} agrees", 120)  # type: ignore[misc]
        for containers in mixed.told(name).state.cpu.owned.values():
            assert len({cpu // 4 % 2 for mask in containers.values() for cpu in iter_bits(mask)}) == 1


def test_a_restart_costs_each_release_what_its_twin_foretells(mixed: Mixed) -> None:
    """full-pcpus-only looks at what is free before it looks at what a pod has, until v1.36; v1.37 loses nobody."""
    for name, one in mixed.kubelets.items():
        before = one.state("cpu_manager_state").get("entries", {})
        lost = [found.uid for found in lost_at_restart(mixed.told(name))]
        one.stop()
        one.start()

        def settled(one: RealKubelet = one, lost: list[str] = lost) -> bool:
            failed = {
                found["metadata"]["uid"]
                for found in one.pods().values()
                if found["status"].get("phase") == "Failed"
            }
            return failed == set(lost) and len(one.pods()) >= len(lost)

        eventually(settled, f"{name} has taken its pods back but for {lost}", 120, one.program)
        after = one.state("cpu_manager_state").get("entries", {})
        kept = {uid: held for uid, held in before.items() if uid not in lost}
        assert {uid: held for uid, held in after.items() if uid in kept} == kept
