"""Topology objects that make no sense, on a real API server: that node is marked and reported, the rest goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.api import Object
from e2e.control_plane import CRD, ControlPlane
from e2e.ours import numaware
from e2e.program import eventually
from e2e.trouble import NODES, PODS, TOPOLOGIES, Scene, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

POLICY = {"name": "topologyManagerPolicy", "value": "single-numa-node"}


def zone(name: str, cpus: str = "8", available: str = "8") -> Object:
    amounts = {"name": "cpu", "capacity": cpus, "allocatable": cpus, "available": available}
    return {"name": name, "type": "Node", "resources": [amounts]}


# Everything here passes the schema of the CRD.
MALFORMED: dict[str, Object] = {
    "sparse": {"attributes": [POLICY], "zones": [zone("node-0"), zone("node-7")]},
    "negative": {"attributes": [POLICY], "zones": [zone("node-0", "8", "-3"), zone("node-1")]},
    "policy": {"attributes": [{**POLICY, "value": "do-your-best"}], "zones": [zone("node-0")]},
    "empty": {"attributes": [POLICY], "zones": []},
    "names": {"attributes": [POLICY], "zones": [zone("node-0'; DROP TABLE nodes")]},
    "twice": {"attributes": [POLICY], "zones": [zone("node-0"), zone("node-0")]},
    "contrary": {"attributes": [POLICY, {**POLICY, "value": "none"}], "zones": [zone("node-0")]},
    "huge": {"attributes": [POLICY], "zones": [zone("node-0", "1E"), zone("node-1")]},
}
GOOD = ("good-0", "good-1")


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    specs = [NodeSpec(name, machine(2, 8), config("single-numa-node")) for name in (*GOOD, *MALFORMED)]
    with scene_on(plane, specs) as started:
        started.fakes.unpublish(*MALFORMED)
        for name, body in MALFORMED.items():
            write(started, name, body)
        yield started


def write(scene: Scene, name: str, body: Object) -> None:
    head = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    scene.api.apply(f"{TOPOLOGIES}/{name}", {**head, "metadata": {"name": name}, **body})


def test_nodes_with_nonsense_are_marked_and_the_others_go_on(scene: Scene) -> None:
    daemon = scene.start()
    daemon.wait_ready()
    # Room for exactly these on the good nodes: one NUMA node has a CPU less, for the system.
    scene.api.create_all(PODS, [pod(f"p{number}", "7") for number in range(4)])
    scene.sent = 4
    scene.assert_all_well()
    assert {admission.node for admission in scene.fakes.admissions()} == set(GOOD)
    metrics = daemon.metrics()
    assert metrics['numaware_unreadable_objects{kind="node topology"}'] == len(MALFORMED)
    assert metrics['numaware_nodes{knowledge="complete"}'] == len(GOOD)
    assert metrics['numaware_nodes{knowledge="none"}'] == len(MALFORMED)
    log = daemon.log.read_text()
    for name in MALFORMED:
        assert f"node={name} " in log, f"nothing is said of {name}"


def test_a_node_whose_object_is_put_right_is_used_again(scene: Scene) -> None:
    daemon = scene.start()
    daemon.wait_ready()
    scene.api.create_all(PODS, [pod(f"p{number}", "7") for number in range(6)])
    scene.wait_for(4)
    assert {admission.node for admission in scene.fakes.admissions()} == set(GOOD)
    scene.fakes.speak("sparse")
    scene.sent = 6
    scene.assert_all_well()
    assert {admission.node for admission in scene.fakes.admissions()} == {*GOOD, "sparse"}
    eventually(
        lambda: daemon.metrics()['numaware_unreadable_objects{kind="node topology"}'] == len(MALFORMED) - 1,
        "the node is not marked any more",
    )


def test_people_see_which_nodes_have_nonsense_and_what_it_is(scene: Scene) -> None:
    found = json.loads(numaware(scene.plane, "nodes", "--json", user="numaware-viewer", status=1))
    told = {node["name"]: node["problem"] for node in found["nodes"]}
    assert [name for name, problem in told.items() if problem] == sorted(MALFORMED)
    assert "do-your-best" in told["policy"]
    assert {node["known"] for node in found["nodes"] if node["name"] in MALFORMED} == {"none"}


def test_a_cluster_without_the_kind_is_told_of_and_noticed_as_soon_as_it_is_there(
    scene: Scene, record_property: Callable[[str, object], None]
) -> None:
    scene.fakes.silence(*GOOD)
    scene.plane.kubectl("delete", "-f", CRD)
    daemon = scene.start()
    daemon.wait_ready()
    assert "kubectl apply -f deploy/crd/noderesourcetopology.yaml" in daemon.log.read_text()
    told = json.loads(numaware(scene.plane, "nodes", "--json", user="numaware-viewer", status=1))
    assert [problem for problem in told["problems"] if "deploy/crd" in problem]
    scene.api.create(PODS, pod("waits", "7"))
    eventually(lambda: said_of(scene.api.get(f"{PODS}/waits")), "the pod says why it waits", 30, daemon)
    scene.plane.kubectl("apply", "--server-side", "-f", CRD)
    eventually(lambda: scene.api.get(TOPOLOGIES), "the kind is served", 30)
    began = time.monotonic()
    scene.fakes.speak(*GOOD)
    scene.sent = 1
    scene.wait_for_all()
    took = time.monotonic() - began
    record_property("measured", f"the pod ran {took:.1f} s after the kind was defined and published")
    assert took < 15


def test_what_a_pod_gives_back_is_not_given_away_before_its_kubelet_has_it(scene: Scene) -> None:
    """A pod is made smaller in place; until the kubelet has done so it holds what it had."""
    daemon = scene.start()
    daemon.wait_ready()
    # All other nodes have room for pods that own nothing, too.
    cordoned = {"spec": {"unschedulable": True}}
    for name in (GOOD[1], *MALFORMED):
        scene.api.patch(f"{NODES}/{name}", cordoned)

    def sharing(name: str, cpus: str) -> Object:
        body = pod(name, cpus)
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpus, "memory": "1Gi"}}
        return body

    scene.api.create(PODS, sharing("big", "10"))
    scene.sent = 1
    scene.wait_for_all()
    held = {"cpu": "10", "memory": "1Gi"}
    told = {
        "name": "app",
        "image": "example.com/none",
        "imageID": "none",
        "ready": True,
        "restartCount": 0,
        "allocatedResources": held,
        "resources": {"requests": held},
    }
    scene.api.patch(f"{PODS}/big/status", {"status": {"containerStatuses": [told]}})
    smaller = {"name": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    strategic = "application/strategic-merge-patch+json"
    scene.api.patch(f"{PODS}/big/resize", {"spec": {"containers": [smaller]}}, strategic)
    scene.api.create(PODS, sharing("next", "10"))
    said = eventually(lambda: said_of(scene.api.get(f"{PODS}/next")), "it says why it waits", 30, daemon)
    assert "Insufficient cpu" in said
    scene.api.delete(f"{PODS}/big", {"gracePeriodSeconds": 0})
    eventually(lambda: scene.api.get(f"{PODS}/next")["spec"].get("nodeName"), "it has a node", 30, daemon)
    assert scene.fakes.refusals() == []
