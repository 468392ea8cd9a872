"""What a real kubelet writes, diagnosed: its log, its files and its pods, as somebody would collect them after a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.kubelet_beside_twin import SideBySide, container, pod
from e2e.program import eventually
from e2e.real_kubelet import RealKubelet
from numaware.diagnose.finding import Finding
from numaware.machine import codec, synthetic
from support.diagnosed import diagnosed

pytestmark = pytest.mark.e2e
MACHINE = "2s x 1n x 8c x 1t mem=16Gi"
CONFIG: dict[str, Any] = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "memoryManagerPolicy": "Static",
    "evictionHard": {"memory.available": "100Mi"},
    "systemReserved": {"memory": "412Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "512Mi"}}],
    "topologyManagerPolicy": "single-numa-node",
}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[RealKubelet]:
    with RealKubelet(tmp_path, synthetic.read(MACHINE), CONFIG) as started:
        yield started


def collected(kubelet: RealKubelet, **more: str) -> list[Finding]:
    """All that there is of the node, diagnosed; trouble only."""
    found = diagnosed(
        kubelet__log=(kubelet.folder / "kubelet.log").read_bytes(),
        config__yaml=kubelet.config_file.read_bytes(),
        cpu_manager_state=(kubelet.root / "cpu_manager_state").read_bytes(),
        memory_manager_state=(kubelet.root / "memory_manager_state").read_bytes(),
        topology__json=codec.encode(kubelet.machine()),
        **more,
    )
    return [one for one in found if one.severity != "info"]


def test_cpus_and_memory_on_different_nodes_are_told_and_confirmed(kubelet: RealKubelet) -> None:
    side = SideBySide(kubelet)
    # CPUs of one NUMA node and memory of the other are taken, whichever they go to.
    assert side.add(pod("cpus", container("a", {"cpu": "7", "memory": "1Gi"}))).admitted
    assert side.add(pod("memory", container("a", {"cpu": "1", "memory": "14Gi"}))).admitted
    refused = pod("between", container("a", {"cpu": "4", "memory": "6Gi"}))
    assert side.add(refused).reason == "TopologyAffinityError"
    name = f"between-{kubelet.name}"
    body = {**refused, "metadata": {**refused["metadata"], "name": name}}
    (one,) = collected(kubelet, pod__json=json.dumps(body))
    assert one.code == "topology-affinity-error-disjoint-hints"
    assert (one.subject.name, one.facts["reason"]) == (name, "TopologyAffinityError")
    assert one.facts["twin"] == "confirmed"
    assert one.facts["bestChange"]


def test_a_kubelet_that_will_not_start_again_is_told_before_and_after(kubelet: RealKubelet) -> None:
    kubelet.stop()
    kubelet.reconfigure({**CONFIG, "cpuManagerPolicy": "none"})
    (before,) = collected(kubelet)
    assert before.code == "cpu-manager-state-policy-mismatch"
    kubelet.program.start()
    eventually(lambda: b"differs from state checkpoint" in _log(kubelet), "the kubelet has given up")
    assert "cpu-manager-state-policy-mismatch" in {one.code for one in diagnosed(log=_log(kubelet))}


def test_pods_that_are_admitted_and_aligned_are_no_trouble(kubelet: RealKubelet) -> None:
    side = SideBySide(kubelet)
    for number in range(3):
        assert side.add(pod(f"p{number}", container("a", {"cpu": "2", "memory": "1Gi"}))).admitted
    assert collected(kubelet) == []
    aligned = [one for one in diagnosed(log=_log(kubelet)) if one.code == "aligned"]
    assert len(aligned) == 3


def _log(kubelet: RealKubelet) -> bytes:
    return (kubelet.folder / "kubelet.log").read_bytes()
