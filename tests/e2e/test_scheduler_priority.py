"""Room that is not for everybody: a large pod of high priority gets what small ones leave, and another scheduler's what it made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest

from e2e import load
from e2e.api import Object
from e2e.audit import audit
from e2e.control_plane import ControlPlane
from e2e.program import eventually
from e2e.trouble import NODES, PODS, Scene, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec

pytestmark = pytest.mark.e2e

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
# Of the 14 and 16 CPUs that pods can have of the two NUMA nodes, small ones leave 4 and 1 free, and a large one needs 14.
_SMALL, _ON_ONE_NODE = "5", 5
_NODES = ("n0", "n1")


def nodes() -> Iterator[NodeSpec]:
    kind = next(kind for kind in load.KINDS if kind.name == "plain")
    return (NodeSpec(name, kind.hardware(), kind.config) for name in _NODES)


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    api = plane.api()
    api.create(_CLASSES, {"metadata": {"name": "important"}, "value": 1000})
    try:
        with scene_on(plane, nodes()) as started:
            yield started
    finally:
        api.delete(f"{_CLASSES}/important")


def test_a_large_pod_of_high_priority_gets_the_room_that_small_ones_leave_though_more_of_them_wait(
    scene: Scene,
) -> None:
    scene.start()
    running = _ON_ONE_NODE * len(_NODES)
    small = scene.api.create_all(PODS, [pod(f"small-{number}", _SMALL) for number in range(2 * running)])
    uids = {f"default/{one['metadata']['name']}": one["metadata"]["uid"] for one in small}
    eventually(lambda: len(scene.fakes.running()) == running, "both nodes are full")
    large = pod("large", "14")
    large["spec"]["priorityClassName"] = "important"
    large_uid = scene.api.create(PODS, large)["metadata"]["uid"]

    told = re.compile(r"would fit on node (\S+) if (.+) made room; numaware .*keeps what they leave")
    found = eventually(
        lambda: told.search(said_of(scene.api.get(f"{PODS}/large"))),
        "the large pod says who is in its way",
        60,
    )
    node, in_the_way = found[1], found[2].split(", ")
    (other,) = {*_NODES} - {node}

    # Whoever waits takes what is left elsewhere, at once, and not what is left here.
    leaves_elsewhere = next(uid for uid, one in scene.fakes.running().items() if one.node == other)
    for uid in (uids[in_the_way[0]], leaves_elsewhere):
        scene.fakes.finish(uid)
    eventually(lambda: len(scene.fakes.admissions()) == running + 1, "one that waits has its place")
    assert scene.fakes.admissions()[-1].node == other
    for name in in_the_way[1:]:
        scene.fakes.finish(uids[name])
    eventually(lambda: large_uid in scene.fakes.running(), "the large pod runs", 60)
    assert scene.fakes.running()[large_uid].node == node

    assert scene.fakes.refusals() == []
    assert audit(scene.plane, scene.fakes) == []


def sharing(name: str, cpus: int, finalizers: tuple[str, ...] = (), **spec: object) -> Object:
    """A pod that owns nothing of a node; kube-scheduler's unless it says otherwise."""
    made = pod(name, "1", "default-scheduler", finalizers=[*finalizers])
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpus)}}
    made["spec"].update(spec)
    return made


def test_room_that_kube_scheduler_makes_is_left_to_the_pod_it_was_made_for(scene: Scene) -> None:
    """It evicts two pods, which end one after the other; what the first leaves would do for one of ours that wait."""
    api, victims, ours = scene.api, ("victim-0", "victim-1"), ("ours-0", "ours-1", "ours-2")

    def said(name: str) -> str:
        return said_of(api.get(f"{PODS}/{name}"))

    def nominated() -> str:
        return str(api.get(f"{PODS}/urgent")["status"].get("nominatedNodeName", ""))

    def leaves(name: str) -> bool:
        return "deletionTimestamp" in api.get(f"{PODS}/{name}")["metadata"]

    def ended(name: str) -> bool:
        return api.status_of("GET", f"{PODS}/{name}") == 404

    api.patch(f"{NODES}/{_NODES[1]}", {"spec": {"unschedulable": True}})
    scene.plane.start_scheduler()
    scene.plane.wait_ready("scheduler")
    scene.start()
    try:
        # Of 30 CPUs.
        api.create_all(PODS, [sharing(name, 10, ("e2e.example.com/not-yet",)) for name in victims])
        eventually(lambda: len(scene.fakes.running()) == 2, "both have a place")
        api.create_all(PODS, [sharing(name, 12, schedulerName="numaware") for name in ours])
        for name in ours:
            eventually(partial(said, name), f"{name} waits", 60)
        api.create(PODS, sharing("urgent", 28, priorityClassName="important"))
        eventually(nominated, "kube-scheduler has chosen whom to evict", 60)
        for name in victims:
            eventually(partial(leaves, name), f"{name} is being deleted", 60)
        for name in victims:
            api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
            eventually(partial(ended, name), f"{name} has ended")
            if name == victims[0]:
                eventually(lambda: "nominated to them" in said(ours[0]), "ours say why they wait on", 60)
        eventually(lambda: len(scene.fakes.admissions()) == 3, "the urgent one has a place", 60)
        assert {one.pod.name for one in scene.fakes.admissions()} == {*victims, "urgent"}
        assert audit(scene.plane, scene.fakes) == []
    finally:
        for name in victims:
            if not ended(name):
                api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
        scene.plane.stop("scheduler")
