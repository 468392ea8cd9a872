"""What people ask of a live cluster, answered from a real API server to somebody who may only read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.control_plane import ControlPlane
from e2e.ours import numaware
from e2e.program import eventually
from e2e.trouble import PODS, Scene, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

VIEWER = "numaware-viewer"


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Iterator[Scene]:
    """Two nodes; one pod that runs, and one for which no NUMA node is large enough."""
    specs = [NodeSpec(f"n{number}", machine(2, 8), config("single-numa-node")) for number in range(2)]
    with scene_on(plane, specs) as started:
        started.start()
        started.api.create_all(PODS, [pod("fits", "5"), pod("waits", "10")])
        eventually(lambda: said_of(started.api.get(f"{PODS}/waits")), "one waits", 60)
        eventually(started.fakes.running, "the other runs", 60)
        started.fakes.wait_idle()
        yield started


def ask(scene: Scene, *arguments: str, status: int = 0) -> str:
    return numaware(scene.plane, *arguments, user=VIEWER, status=status)


def test_nodes_are_shown_with_what_is_free_on_each_numa_node(scene: Scene) -> None:
    where = next(iter(scene.fakes.running().values())).node

    def counted() -> bool:
        rows = {row["name"]: row for row in json.loads(ask(scene, "nodes", "--json"))["nodes"]}
        assert rows.keys() == {"n0", "n1"}
        assert {row["topologyPolicy"] for row in rows.values()} == {"single-numa-node"}
        assert {row["known"] for row in rows.values()} == {"complete"}
        free = sum(one["freeToPin"]["cpu"] for one in rows[where]["zones"])
        return bool(free == 15 - 5 and rows[where]["pods"] == 1)

    eventually(counted, "the node is shown with the pod on it")
    assert "single-numa-node" in ask(scene, "nodes")


def test_pods_are_shown_where_they_are_and_as_foreseen(scene: Scene) -> None:
    admission = next(iter(scene.fakes.running().values()))
    rows = {row["name"]: row for row in json.loads(ask(scene, "pods", "--json"))["pods"]}
    assert (rows["fits"]["node"], rows["fits"]["cpus"]) == (admission.node, admission.cpus["app"])
    assert (rows["fits"]["aligned"], rows["fits"]["outcome"]) == (True, "match")
    assert rows["waits"]["node"] == ""
    assert "waits" in ask(scene, "pods", "-n", "default")


def test_a_pod_that_waits_learns_why_from_every_node(scene: Scene) -> None:
    text = ask(scene, "why-pending", "default/waits", status=1)
    assert "n0" in text or "2 nodes" in text
    assert json.loads(ask(scene, "why-pending", "default/waits", "--json", status=1))
    assert ask(scene, "why-pending", "fits")


def test_kubelets_are_asked_about_a_pod_of_the_cluster(scene: Scene) -> None:
    assert json.loads(ask(scene, "explain", "pod", "default/waits", "--json", status=1))
    assert "TopologyAffinityError" in ask(scene, "explain", "pod", "default/waits", "--on", "n1", status=1)
    assert ask(scene, "explain", "pod", "default/fits")


def test_whoever_may_not_read_is_told_in_one_line(scene: Scene) -> None:
    assert numaware(scene.plane, "nodes", user="stranger", status=2) == ""
