"""A large pod of high priority among small ones that never stop coming: it gets the room that those leave."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from e2e import load
from e2e.audit import audit
from e2e.control_plane import ControlPlane
from e2e.program import eventually
from e2e.trouble import PODS, Scene, pod, said_of, scene_on
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
