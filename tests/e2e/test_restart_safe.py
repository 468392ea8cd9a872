"""What `numaware doctor --restart-safe` says before a restart, and what a real kubelet does after it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.kubelet_beside_twin import VERSION, SideBySide, container, pod
from e2e.real_kubelet import RealKubelet
from numaware.cli import main
from numaware.machine import synthetic
from numaware.twin.rules import rules_for

pytestmark = pytest.mark.e2e

MEMORY = {
    "memoryManagerPolicy": "Static",
    "systemReserved": {"memory": "1Gi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
}


def named(kubelet: RealKubelet, to: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The pods that would be lost, from what a person would collect of the node."""
    shutil.copytree(kubelet.made, to)
    shutil.copy(kubelet.config_file, to / "kubelet-config.yaml")
    for name in ("cpu_manager_state", "memory_manager_state"):
        shutil.copy(kubelet.root / name, to / name)
    pods = {"apiVersion": "v1", "kind": "List", "items": list(kubelet.pods().values())}
    for one in pods["items"]:
        one.setdefault("apiVersion", "v1")
        one.setdefault("kind", "Pod")
    (to / "pods.json").write_text(json.dumps(pods), encoding="utf-8")
    code = main(["doctor", "--restart-safe", "--root", str(to), "--kubelet-version", VERSION, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [check["status"] for check in document["checks"]] == ["error" if code else "ok"]
    return {one["subject"]["name"] for one in document["findings"]}


def lost(side: SideBySide) -> set[str]:
    """The pods that the kubelet refuses after a real restart; it forgets what they held when the next one comes."""
    side.kubelet.stop()
    side.kubelet.start()
    gone = {name for name in side.running if side._verdict(name)["status"].get("phase") == "Failed"}
    for name in gone:
        del side.running[name]
        side._drop_file(name)
    side.node = side.node.restart().node
    return gone


def test_pods_that_are_named_are_refused_and_all_others_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole cores are wanted once more for who has most of them; of two pods only the larger is lost."""
    config = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "reservedSystemCPUs": "0",
    }
    with RealKubelet(tmp_path, synthetic.read("1s x 1n x 8c x 2t mem=64Gi"), config) as kubelet:
        side = SideBySide(kubelet)
        assert side.add(pod("small", container("app", {"cpu": "2", "memory": "1Gi"}))).admitted
        assert side.add(pod("large", container("app", {"cpu": "8", "memory": "1Gi"}))).admitted
        assert side.add(pod("shared", container("app", {"cpu": "500m", "memory": "1Gi"}))).admitted
        foretold = named(kubelet, tmp_path / "n1", capsys)
        # From v1.37 on who has its CPUs is asked no more.
        assert foretold == (set() if rules_for(VERSION).held_first else {f"large-{kubelet.name}"})
        assert lost(side) == foretold
        # Room again: nobody is named, and nobody is lost.
        assert side.add(pod("next", container("app", {"cpu": "2", "memory": "1Gi"}))).admitted
        assert named(kubelet, tmp_path / "n2", capsys) == set()
        assert lost(side) == set()


def test_memory_of_init_containers_that_are_over_is_wanted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was freed when they ended, and another pod has it now; their CPUs still tell the NUMA node."""
    config = {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        **MEMORY,
    }
    with RealKubelet(tmp_path, synthetic.read("2s x 1n x 8c mem=16Gi"), config) as kubelet:
        side = SideBySide(kubelet)
        first = container("init", {"cpu": "1", "memory": "12Gi"}, command=["exit"])
        assert side.add(pod("early", container("app", {"cpu": "1", "memory": "2Gi"}), init=(first,))).admitted
        assert side.add(pod("late", container("app", {"cpu": "1", "memory": "12Gi"}))).admitted
        foretold = named(kubelet, tmp_path / "n1", capsys)
        assert foretold == {f"early-{kubelet.name}"}
        assert lost(side) == foretold
