"""kube-scheduler with the extender, when something fails in the middle of a burst: no pod is lost or booked twice.

It fails closed, as our command prints it: without an answer no pod is placed, so nothing is placed blindly either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.control_plane import ControlPlane
from e2e.ours import Daemon, extender_config
from e2e.program import eventually
from e2e.proxy import is_bind, is_watch
from e2e.trouble import NODES, PODS, Scene, pod, scene_on

pytestmark = pytest.mark.e2e

# Few enough that those who want four GPUs beside each other find them however kube-scheduler spreads the others.
BURST, MIDDLE = 260, 80
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    with scene_on(plane) as started:
        yield started
        plane.stop("scheduler")


def start(scene: Scene, *flags: str) -> Daemon:
    """Pods that wait, the extender, and kube-scheduler that asks it; returns in the middle of the burst.

    Binds are less slow than elsewhere: kube-scheduler waits two seconds for each, however many it asks for at once.
    """
    scene.burst(BURST, scheduler="default-scheduler", delay=0.05)
    extender = scene.start("extender")
    extender.wait_ready()
    scene.plane.start_scheduler(extender_config(extender, *flags))
    scene.wait_for(MIDDLE)
    return extender


def test_an_extender_that_was_killed_is_waited_for(scene: Scene) -> None:
    extender = start(scene)
    extender.kill()
    # Longer than the rest would take if pods were placed without it.
    time.sleep(8)
    assert len(scene.fakes.admissions()) < scene.sent, "pods are placed that nobody was asked about"
    scene.assert_all_well()


def test_the_next_kube_scheduler_goes_on_with_an_extender_of_its_own(
    scene: Scene, record_property: Callable[[str, object], None]
) -> None:
    """No lease is between the two extenders. The first one outlives its kube-scheduler, with calls in its queue."""
    scene.burst(BURST, scheduler="default-scheduler", delay=0.25)
    scene.api.status_of("DELETE", LEASE)
    first, second = (scene.start("extender", name=f"{which}-extender") for which in ("first", "second"))
    for extender, name in ((first, "scheduler"), (second, "next-scheduler")):
        extender.wait_ready()
        scene.plane.start_scheduler(
            {**extender_config(extender), "leaderElection": {"leaderElect": True}}, name
        )
        eventually(lambda: scene.api.get(LEASE)["spec"]["holderIdentity"], "one leads", 60)
    try:
        scene.wait_for(MIDDLE)
        assert binds(second) == 0
        scene.plane.kill("scheduler")
        before = len(scene.fakes.admissions())
        scene.assert_all_well()
        told = (
            f"{before} pods bound when the first was killed, {binds(second):.0f} by the extender of the next"
        )
        record_property("measured", told)
        assert binds(second) > 0
    finally:
        scene.plane.stop("next-scheduler")


def binds(extender: Daemon) -> float:
    """How many binds it was asked for."""
    name = "numaware_extender_request_duration_seconds_count"
    return sum(
        value
        for sample, value in extender.metrics().items()
        if sample.startswith(name) and "extender/bind" in sample
    )


def test_whole_nodes_may_be_sent_instead_of_names(scene: Scene) -> None:
    start(scene, "--send-nodes")
    scene.assert_all_well()


def test_binds_whose_answer_is_lost_are_looked_after(scene: Scene) -> None:
    scene.proxy.lose_answers(30)
    start(scene)
    scene.assert_all_well()
    assert scene.proxy.seen()["lost"] == 30


def test_cut_watches_and_refused_calls_cost_nothing_but_time(scene: Scene) -> None:
    start(scene)
    scene.proxy.cut(is_watch)
    scene.proxy.refuse(40, is_bind)
    scene.assert_all_well()


def test_a_restart_of_the_api_server_is_sat_out(scene: Scene) -> None:
    start(scene)
    scene.plane.kill("apiserver")
    time.sleep(2)
    scene.plane.start("apiserver")
    scene.assert_all_well()


def test_agents_that_fall_silent_cost_nothing(scene: Scene) -> None:
    names = [node["metadata"]["name"] for node in scene.api.list_all(NODES)]
    scene.fakes.silence(*names[::2])
    start(scene)
    scene.assert_all_well()


def test_a_pod_that_no_kubelet_would_take_waits(scene: Scene) -> None:
    """Such a node offers 26 CPUs, no NUMA node of it more than 14: kube-scheduler alone would send it there."""
    scene.sent = 0
    extender = scene.start("extender")
    extender.wait_ready()
    scene.plane.start_scheduler(extender_config(extender))
    body = pod("wide", "20", "default-scheduler")
    body["spec"]["nodeSelector"] = {"kind": "p100"}
    scene.api.create(PODS, body)

    def told() -> str:
        conditions = scene.api.get(f"{PODS}/wide")["status"].get("conditions", [])
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

    assert "numaware: " in eventually(told, "the pod says why it waits", 60)
    assert scene.fakes.admissions() == []
