"""A StatefulSet whose pods kubelets refuse: an endless loop under kube-scheduler, found in seconds and not made by us."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.api import ApiError, Object
from e2e.audit import audit
from e2e.control_plane import ControlPlane
from e2e.program import eventually
from e2e.trouble import PODS, Scene, notes, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
_SECONDS = 120.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With the real controllers, which make the pods, and the real kube-scheduler."""
    with ControlPlane(tmp_path_factory.mktemp("plane"), controllers=True, scheduler={}) as started:
        yield started


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    """15 CPUs on each node, of which no NUMA node has more than 8."""
    specs = [NodeSpec(f"n{number}", machine(2, 8), config("single-numa-node")) for number in range(2)]
    with scene_on(plane, specs) as started:
        yield started
        # Else the controller goes on making pods.
        started.api.delete(SETS, {"propagationPolicy": "Background"})
        eventually(lambda: not started.api.list_all(SETS), "the StatefulSets are gone")


def stateful_set(name: str, scheduler: str) -> Object:
    template = pod(name, "10", scheduler)
    return {
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def test_a_loop_of_create_and_refuse_is_found_and_its_owner_told_what_would_end_it(
    scene: Scene,
) -> None:
    daemon = scene.start()
    daemon.wait_ready()
    scene.api.create(SETS, stateful_set("trainer", "default-scheduler"))
    told = eventually(
        lambda: notes(scene.plane, "StatefulSet", "trainer", "NumaAdmissionStorm"),
        "the owner has been told",
        _SECONDS,
        daemon,
    )
    assert len(scene.fakes.refusals()) >= 3, "there was no loop"
    assert {refusal.reason for refusal in scene.fakes.refusals()} == {"TopologyAffinityError"}
    assert "StatefulSet default/trainer refused by" in told[0]
    assert "TopologyAffinityError. Any of these would help: " in told[0]
    assert daemon.metrics()["numaware_admission_storms_total"] >= 1
    assert "pods are refused again and again" in daemon.log.read_text()


def test_the_same_statefulset_waits_under_numaware_and_says_why(scene: Scene) -> None:
    scene.start()
    scene.api.create(SETS, stateful_set("trainer", "numaware"))
    waiting = eventually(lambda: held(scene, "trainer-0"), "the pod says why it waits", _SECONDS)
    assert "0/2 nodes are available" in said_of(waiting)
    assert "NUMA" in said_of(waiting)
    # The next pod of the controller proves that it had all the time it needs to make another one of the first.
    scene.api.create(SETS, stateful_set("second", "numaware"))
    eventually(lambda: held(scene, "second-0"), "the second waits too", _SECONDS)
    assert scene.api.get(f"{PODS}/trainer-0")["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert scene.fakes.admissions() == []
    assert notes(scene.plane, "Pod", "trainer-0", "FailedScheduling")
    assert audit(scene.plane, scene.fakes) == []


def held(scene: Scene, name: str) -> Object | None:
    try:
        found = scene.api.get(f"{PODS}/{name}")
    except ApiError:
        return None
    return found if said_of(found) else None
