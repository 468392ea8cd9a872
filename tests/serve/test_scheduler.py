from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from numaware.kube.nodes import LiveNode
from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.answer import Answer
from numaware.schedule.engine import Decision
from numaware.schedule.storm import StormGuard
from numaware.serve.scheduler import Bound
from numaware.workload.disks import Disk
from numaware.workload.pod import Pod
from numaware.workload.scheduling import PodRules, PodTerm, Requirement, Scheduling, Selector, SpreadRule
from support.live_pods import live, live_node
from support.scheduler_scene import FakeActions, Scene
from support.small_clusters import gpu_node
from support.twin_nodes import pod


def test_a_pod_is_bound_with_its_prediction_and_people_are_told() -> None:
    scene = Scene(gpu_node())

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)))

    scene.play(story)
    assert scene.actions.bound == [("a", "n0")]
    predicted = ledger.decode(scene.actions.annotations["a"][ledger.PREDICTED], "predicted")
    assert [(part.numa, part.cpus) for part in predicted.zones] == [(0, "1-4")]
    assert scene.actions.told == ["a on n0"]
    assert scene.sent == ["a"]
    assert len(scene.scheduler.queue) == 0


def test_pods_of_other_schedulers_and_those_that_are_bound_finished_or_leaving_are_left_alone() -> None:
    scene = Scene(gpu_node())

    async def story(scene: Scene) -> None:
        scene.arrive(
            live(pod("a", 1), scheduler="default-scheduler"),
            live(pod("b", 1), node="n0"),
            live(pod("c", 1), phase="Failed"),
            live(pod("d", 1), deletion=datetime(2026, 1, 1, tzinfo=UTC)),
        )

    scene.play(story)
    assert scene.actions.bound == []
    assert len(scene.scheduler.queue) == 0


def test_no_cpu_is_given_twice_while_binds_are_under_way() -> None:
    scene = Scene(gpu_node("single-numa-node"))
    scene.actions.gate = asyncio.Event()

    async def story(scene: Scene) -> None:
        scene.arrive(*(live(pod(uid, 5)) for uid in "abc"))
        await scene.settle()
        assert scene.actions.gate is not None
        scene.actions.gate.set()

    scene.play(story)
    assert sorted(uid for uid, _ in scene.actions.bound) == ["a", "b"]
    assert list(scene.actions.refused) == ["c"]
    assert scene.actions.refused["c"].startswith(
        "0/1 nodes are available: 1 node(s) could not align the pod on NUMA nodes (single-numa-node)."
    )


def test_a_failed_bind_gives_back_what_it_held_and_is_tried_again_later() -> None:
    scene = Scene(gpu_node(), actions=FakeActions("failed"))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)))
        await scene.settle()
        assert scene.actions.bound == []
        assert scene.engine.cluster.where == {}
        scene.now = 1.0
        scene.scheduler.nodes_changed(("n0",))

    scene.play(story)
    assert scene.actions.bound == [("a", "n0")]


def test_every_attempt_that_ends_in_an_error_is_logged_counted_and_said_on_the_pod() -> None:
    scene = Scene(gpu_node(), actions=FakeActions("failed"))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)), live(pod("big", 100)))
        await scene.settle()
        scene.now = 1.0
        scene.scheduler.nodes_changed(("n0",))

    with capture_logs() as logged:
        scene.play(story)
    assert [(line["pod"], line["node"]) for line in logged] == [("default/a", "n0")]
    assert [uid for uid, _ in scene.actions.failures] == ["a"]
    value = scene.metrics.registry.get_sample_value
    for result, count in (("scheduled", 1), ("unschedulable", 1), ("error", 1)):
        assert value("numaware_scheduling_attempts_total", {"result": result}) == count
        labels = {"result": result, "profile": "numaware"}
        assert value("scheduler_schedule_attempts_total", labels) == count
        assert value("scheduler_scheduling_attempt_duration_seconds_count", labels) == count
    assert value("scheduler_pod_scheduling_sli_duration_seconds_sum", {"attempts": "2"}) == 1.0
    assert value("scheduler_pod_scheduling_attempts_count") == 1


def test_the_way_of_a_pod_is_counted_though_the_watch_was_faster_than_the_answer_to_the_bind() -> None:
    scene = Scene(gpu_node())
    gate = scene.actions.gate = asyncio.Event()

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)))
        await scene.settle()
        scene.now = 3.0
        scene.arrive(live(pod("a", 4), node="n0"))
        gate.set()

    scene.play(story)
    value = scene.metrics.registry.get_sample_value
    assert value("scheduler_pod_scheduling_sli_duration_seconds_sum", {"attempts": "1"}) == 3.0
    assert value("scheduler_pod_scheduling_attempts_count") == 1


def test_a_pod_that_takes_the_place_of_one_whose_bind_failed_is_foreseen_there() -> None:
    """Both were decided on before the first call came back."""
    scene = Scene(gpu_node(), actions=FakeActions("failed"))
    gate = scene.actions.gate = asyncio.Event()

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)), live(pod("b", 4)))
        await scene.settle()
        assert scene.sent == ["a", "b"]
        gate.set()

    scene.play(story)
    predicted = ledger.decode(scene.actions.annotations["b"][ledger.PREDICTED], "predicted")
    assert [(part.numa, part.cpus) for part in predicted.zones] == [(0, "1-4")]


@pytest.mark.parametrize("outcome", ["gone", "elsewhere"])
def test_a_pod_that_is_gone_or_that_another_bound_is_not_tried_again(outcome: Bound) -> None:
    scene = Scene(gpu_node(), actions=FakeActions(outcome))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)))
        await scene.settle()
        scene.now = 1000.0
        scene.scheduler.nodes_changed(("n0",))

    scene.play(story)
    assert scene.actions.bound == []
    assert (len(scene.scheduler.queue), scene.engine.cluster.where) == (0, {})


@pytest.mark.parametrize(
    "meanwhile",
    [live(pod("b", 4), node="n1"), live(pod("b", 4), deletion=datetime(2026, 1, 1, tzinfo=UTC))],
    ids=["bound", "deleted"],
)
def test_nothing_is_said_on_a_pod_that_another_has_bound_or_deleted_before_its_turn_to_be_bound(
    meanwhile: LivePod,
) -> None:
    scene = Scene(gpu_node(), gpu_node(cpus=1), actions=FakeActions("bound", "failed"))
    gate = scene.actions.gate = asyncio.Event()

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)), live(pod("b", 4)))
        await scene.settle()
        assert scene.sent == ["a", "b"]
        scene.arrive(meanwhile)
        gate.set()

    with capture_logs() as logged:
        scene.play(story)
    assert (scene.actions.failures, logged) == ([], [])
    assert (
        scene.metrics.registry.get_sample_value("numaware_scheduling_attempts_total", {"result": "error"})
        is None
    )
    assert scene.cache.place_of("b") == meanwhile.node


def test_a_stuck_pod_is_tried_again_when_a_node_would_take_it_and_not_before() -> None:
    scene = Scene(gpu_node("single-numa-node"), gpu_node("none", cpus=1))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("x", 7)), live(pod("y", 8)))
        await scene.settle()
        scene.arrive(live(pod("z", 8)))
        await scene.settle()
        assert list(scene.actions.refused) == ["z"]
        decided = scene.stuck()
        scene.scheduler.nodes_changed(("n1",))
        await scene.settle()
        assert scene.stuck() == decided == 1
        scene.cache.put_pod(live(pod("y", 8), node="n0"))
        scene.scheduler.nodes_changed(scene.cache.drop_pod("y"))

    scene.play(story)
    assert scene.actions.bound == [("x", "n0"), ("y", "n0"), ("z", "n0")]


def test_a_pod_that_a_node_has_refused_for_no_reason_we_know_of_is_tried_there_again_after_a_while() -> None:
    scene = Scene(gpu_node())
    guard = scene.engine.guard = StormGuard()

    async def story(scene: Scene) -> None:
        guard.refused(pod("a", 4), scene.engine.cluster.members[0], "UnexpectedAdmissionError", 0)
        scene.arrive(live(pod("a", 4)))
        await scene.settle()
        assert scene.actions.bound == []
        scene.scheduler.nodes_changed(guard.lift(29_999))
        await scene.settle()
        assert scene.actions.bound == []
        scene.now = 30.0
        scene.scheduler.nodes_changed(guard.lift(30_000))

    scene.play(story)
    assert scene.actions.bound == [("a", "n0")]


def test_a_pod_that_must_be_near_another_is_tried_again_when_that_one_comes_wherever_it_comes() -> None:
    """The first node has no room beside the pod that it waits for; the second one of the same zone has."""
    near = PodRules(near=(PodTerm("zone", Selector((Requirement("app", "In", ("db",)),)), ("default",)),))
    waiting = replace(pod("web", 8), scheduling=Scheduling(pods=near))
    scene = Scene(gpu_node("single-numa-node"), gpu_node("single-numa-node"))
    for name in ("n0", "n1"):
        node = live_node(name, gpu_node("single-numa-node"))
        scene.cache.put_node(replace(node, labels=(("zone", "z"),)))

    async def story(scene: Scene) -> None:
        scene.arrive(live(waiting))
        await scene.settle()
        assert list(scene.actions.refused) == ["web"]
        other = replace(pod("db", 8), scheduling=Scheduling(labels=(("app", "db"),)))
        scene.scheduler.nodes_changed(scene.cache.put_pod(live(other, node="n0")))

    scene.play(story)
    assert scene.actions.bound == [("web", "n1")]


SPREAD = SpreadRule("zone", 1, hard=True, selector=Selector((Requirement("app", "In", ("a",)),)))
NEAR = PodRules(near=(PodTerm("zone", Selector((Requirement("app", "In", ("db",)),)), ("default",)),))


def in_zone(name: str, zone: str) -> LiveNode:
    return replace(live_node(name, gpu_node("single-numa-node")), labels=(("zone", zone),))


@pytest.mark.parametrize(
    "scheduling",
    [Scheduling(labels=(("app", "a"),), spread=(SPREAD,)), Scheduling(pods=NEAR)],
    ids=["spread", "affinity"],
)
def test_a_stuck_pod_with_rules_about_others_is_left_alone_by_what_does_not_concern_it(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that its rules do not speak of come and go on nodes that have no room for it: nobody asks, decides or words."""
    scene = Scene(*[gpu_node("single-numa-node")] * 2)
    for name, zone in (("n0", "z0"), ("n1", "z1")):
        scene.cache.put_node(in_zone(name, zone))
    asked: list[str] = []
    decide = scene.engine.decide

    def counted(one: Pod) -> Decision:
        asked.append(one.uid)
        return decide(one)

    monkeypatch.setattr(scene.engine, "decide", counted)

    async def story(scene: Scene) -> None:
        scene.cache.put_pod(
            live(replace(pod("a0", 8), scheduling=Scheduling(labels=(("app", "a"),))), node="n0")
        )
        scene.cache.put_pod(live(pod("full", 8), node="n1"))
        scene.cache.put_pod(live(pod("full-too", 7), node="n1"))
        scene.arrive(live(replace(pod("stuck", 8), scheduling=scheduling)))
        await scene.settle()
        assert list(scene.actions.refused) == ["stuck"]
        for number in range(5):
            other = live(pod(f"plain{number}", 1), node="n0")
            scene.scheduler.nodes_changed(scene.cache.put_pod(other))
            await scene.settle()
            scene.scheduler.nodes_changed(scene.cache.drop_pod(other.uid))
            await scene.settle()

    scene.play(story)
    assert asked == ["stuck"]


def test_a_stuck_pod_with_a_volume_is_left_alone_by_pods_that_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who goes lets go of a volume; to ask every node for each pod that is placed would cost those their time."""
    scene = Scene(gpu_node("single-numa-node"))
    asked: list[str] = []
    ask = scene.engine.ask

    def counted(one: Pod, names: Sequence[str] | None = None) -> list[Answer]:
        asked.append(one.uid)
        return ask(one, names)

    async def story(scene: Scene) -> None:
        scene.arrive(live(replace(pod("stuck", 9), scheduling=Scheduling(disks=(Disk("gce-pd", "d"),)))))
        await scene.settle()
        monkeypatch.setattr(scene.engine, "ask", counted)
        for number in range(3):
            scene.arrive(live(pod(f"plain{number}", 1)))
            await scene.settle()
        assert (len(scene.actions.bound), asked) == (3, [])
        scene.cache.put_pod(live(pod("plain0", 1), node="n0"))
        scene.scheduler.nodes_changed(scene.cache.drop_pod("plain0"))

    scene.play(story)
    assert asked == ["stuck"]


def test_a_node_that_goes_may_open_another_to_a_pod_that_is_to_be_spread() -> None:
    """The zone with the fewest pods is gone, so one more is not too many in the other."""
    scene = Scene(gpu_node("single-numa-node"), gpu_node("single-numa-node"))
    scene.cache.put_node(in_zone("n0", "z0"))
    scene.cache.put_node(replace(in_zone("n1", "z1"), unschedulable=True))
    kind = Scheduling(labels=(("app", "a"),), spread=(SPREAD,))

    async def story(scene: Scene) -> None:
        scene.arrive(live(replace(pod("a", 2), scheduling=kind)), live(replace(pod("b", 2), scheduling=kind)))
        await scene.settle()
        assert scene.actions.bound == [("a", "n0")]
        scene.scheduler.nodes_changed(scene.cache.drop_node("n1"))

    scene.play(story)
    assert scene.actions.bound == [("a", "n0"), ("b", "n0")]


def test_a_pod_that_waits_for_the_labels_of_namespaces_is_tried_when_all_are_known() -> None:
    team = Selector((Requirement("team", "In", ("x",)),))
    apart = PodRules(apart=(PodTerm("zone", Selector(), (), team),))
    scene = Scene(gpu_node())
    scene.engine.cluster.placed_pods.knows_namespaces = False

    async def story(scene: Scene) -> None:
        scene.arrive(live(replace(pod("a", 2), scheduling=Scheduling(pods=apart))))
        await scene.settle()
        assert "namespaces" in scene.actions.refused["a"]
        scene.scheduler.nodes_changed(scene.cache.know_namespaces())

    scene.play(story)
    assert scene.actions.bound == [("a", "n0")]


def test_the_next_of_a_group_has_its_turn_when_the_one_that_was_woken_goes() -> None:
    scene = Scene(gpu_node("single-numa-node"))
    first, second = live(pod("a", 8)), live(pod("b", 8))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("x", 7)), live(pod("y", 8)))
        await scene.settle()
        scene.arrive(first, second)
        await scene.settle()
        scene.cache.put_pod(live(pod("y", 8), node="n0"))
        scene.scheduler.nodes_changed(scene.cache.drop_pod("y"))
        scene.scheduler._stuck.wake()
        scene.cache.drop_pod("a")
        scene.scheduler.pod_changed("a", None)

    scene.play(story)
    assert ("b", "n0") in scene.actions.bound


def test_what_is_said_of_a_stuck_pod_follows_what_keeps_it_off() -> None:
    scene = Scene(gpu_node("single-numa-node"), gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("big", 9)))
        await scene.settle()
        assert "2 node(s) could not align the pod" in scene.actions.refused["big"]
        cordoned = replace(live_node("n1", gpu_node("single-numa-node")), unschedulable=True)
        scene.now = 60.0
        scene.scheduler.nodes_changed(scene.cache.put_node(cordoned))

    scene.play(story)
    assert "1 node(s) were unschedulable" in scene.actions.refused["big"]


def test_what_is_said_of_a_pod_that_came_after_another_of_its_group_had_gone_does_not_go_stale() -> None:
    scene = Scene(gpu_node("single-numa-node"), gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("big", 9)))
        await scene.settle()
        scene.cache.drop_pod("big")
        scene.scheduler.pod_changed("big", None)
        scene.now = 20.0
        scene.arrive(live(pod("other", 100)))
        await scene.settle()
        scene.arrive(live(pod("again", 9)))
        await scene.settle()
        assert "2 node(s) could not align the pod" in scene.actions.refused["again"]
        cordoned = replace(live_node("n1", gpu_node("single-numa-node")), unschedulable=True)
        scene.now = 60.0
        scene.scheduler.nodes_changed(scene.cache.put_node(cordoned))

    scene.play(story)
    assert "1 node(s) were unschedulable" in scene.actions.refused["again"]


def test_pods_of_a_group_keep_their_words_while_the_first_of_them_is_tried_again() -> None:
    said: list[str] = []

    class Listening(FakeActions):
        def unschedulable(self, pod: LivePod, message: str) -> None:
            super().unschedulable(pod, message)
            said.append(message)

    scene = Scene(gpu_node("single-numa-node"), actions=Listening())

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("x", 7)), live(pod("y", 8)))
        await scene.settle()
        scene.arrive(live(pod("a", 8)), live(pod("b", 8)))
        await scene.settle()
        scene.cache.put_pod(live(pod("y", 8), node="n0"))
        scene.cache.drop_pod("y")
        # Nobody has told of it: that there is room is found out when the words are looked at again.
        scene.now = 60.0
        scene.arrive(live(pod("other", 100)))

    scene.play(story)
    assert ("a", "n0") in scene.actions.bound
    assert said
    assert "" not in said


def test_pods_that_ask_for_the_same_follow_each_other_until_one_is_refused() -> None:
    scene = Scene(gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("x", 7)), live(pod("y", 8)))
        await scene.settle()
        scene.arrive(*(live(pod(uid, 4)) for uid in "abc"))
        await scene.settle()
        assert sorted(scene.actions.refused) == ["a", "b", "c"]
        scene.cache.put_pod(live(pod("y", 8), node="n0"))
        scene.scheduler.nodes_changed(scene.cache.drop_pod("y"))

    scene.play(story)
    assert [uid for uid, _ in scene.actions.bound] == ["x", "y", "a", "b"]
    assert scene.stuck() == 1


def test_a_gate_is_not_reported_and_opening_it_lets_the_pod_go() -> None:
    scene = Scene(gpu_node())
    closed = replace(pod("a", 4), scheduling=Scheduling(gates=("quota",)))

    async def story(scene: Scene) -> None:
        scene.arrive(live(closed))
        await scene.settle()
        assert scene.actions.refused == {}
        scene.arrive(live(pod("a", 4)))

    scene.play(story)
    assert scene.actions.bound == [("a", "n0")]


def test_whoever_does_not_lead_any_more_binds_nothing() -> None:
    scene = Scene(gpu_node(), may_act=lambda: False)

    async def story(scene: Scene) -> None:
        scene.arrive(live(pod("a", 4)))

    scene.play(story)
    assert scene.actions.bound == []
    assert scene.engine.cluster.where == {}


def test_stopping_waits_for_the_binds_that_are_under_way() -> None:
    scene = Scene(gpu_node())
    gate = scene.actions.gate = asyncio.Event()

    async def run() -> None:
        task = asyncio.create_task(scene.scheduler.run())
        scene.arrive(live(pod("a", 4)))
        await scene.settle()
        task.cancel()
        await scene.settle()
        assert not task.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert scene.actions.bound == [("a", "n0")]
    assert scene.actions.told == ["a on n0"]


def test_pods_are_learned_from_when_they_come_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(gpu_node("single-numa-node"))
    learned: list[str] = []
    monkeypatch.setattr(scene.engine, "learn", lambda one: learned.append(one.uid))
    stuck = live(pod("stuck", 100))

    async def story(scene: Scene) -> None:
        scene.arrive(stuck, live(pod("b", 2)), live(pod("theirs", 1), node="n0"))
        await scene.settle()
        scene.arrive(replace(stuck, version="2"))

    scene.play(story)
    assert learned == ["stuck", "b"]


def test_higher_priorities_are_served_first() -> None:
    scene = Scene(gpu_node("single-numa-node"))
    urgent = replace(pod("b", 8), scheduling=Scheduling(priority=1000))

    async def run() -> None:
        scene.arrive(live(pod("a", 8)), live(urgent))
        task = asyncio.create_task(scene.scheduler.run())
        await scene.settle()
        task.cancel()

    asyncio.run(run())
    assert scene.actions.bound == [("b", "n0")]


def ranked(uid: str, cpus: int, priority: int) -> LivePod:
    one = pod(uid, cpus)
    return live(replace(one, scheduling=Scheduling(priority=priority)))


async def small_pods_come_and_go(scene: Scene, rounds: int) -> None:
    """The oldest of the small pods ends, and two new ones want its place."""
    for number in range(rounds):
        gone = next((uid for uid, _ in scene.actions.bound if uid in scene.engine.cluster.where), None)
        if gone is None or "large" in scene.engine.cluster.where:
            return
        scene.cache.put_pod(replace(ranked(gone, 2, 0), node=scene.cache.place_of(gone)))
        scene.scheduler.nodes_changed(scene.cache.drop_pod(gone))
        scene.arrive(*(ranked(f"late{number}-{twin}", 2, 0) for twin in range(2)))
        scene.now += 11
        await scene.settle()


def test_a_large_pod_of_high_priority_is_not_overtaken_for_ever_by_small_ones() -> None:
    """Each that ends leaves too little for it, and a new one wants that at once."""
    scene = Scene(gpu_node("single-numa-node"), gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(*(ranked(f"small{number}", 2, 0) for number in range(14)))
        await scene.settle()
        scene.arrive(ranked("large", 8, 1000))
        await scene.settle()
        said = scene.actions.refused["large"]
        assert "made room; numaware does not preempt yet, but keeps what they leave" in said
        await small_pods_come_and_go(scene, 14)

    scene.play(story)
    assert "large" in scene.engine.cluster.where
    assert any(
        "keep their room for a pod of higher priority" in text for text in scene.actions.refused.values()
    )
    assert scene.engine.held.holds == {}


def test_room_is_kept_for_the_most_important_whoever_came_first() -> None:
    """On small clusters there is one such place: a pod that matters little must not have it while others overtake a large one."""
    scene = Scene(gpu_node("single-numa-node"), gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(*(ranked(f"small{number}", 2, 0) for number in range(14)))
        await scene.settle()
        scene.arrive(ranked("middle", 6, 10))
        await scene.settle()
        assert "but keeps what they leave" in scene.actions.refused["middle"]
        scene.arrive(ranked("large", 8, 1000))
        await scene.settle()
        assert "but keeps what they leave" in scene.actions.refused["large"]
        assert list(scene.engine.held.holds) == ["large"]
        scene.now = 20.0
        scene.arrive(ranked("least", 6, 1))
        await scene.settle()
        assert list(scene.engine.held.holds) == ["large"]
        assert "numaware does not preempt yet." in scene.actions.refused["middle"]

    scene.play(story)


def test_room_is_not_kept_from_pods_that_fit_beside_the_one_it_is_for() -> None:
    """Eight CPUs of one NUMA node are waited for; what the other one has is for everybody."""
    scene = Scene(gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(ranked("other", 3, 0), ranked("low", 8, 0))
        await scene.settle()
        scene.arrive(ranked("large", 8, 1000))
        await scene.settle()
        assert list(scene.engine.held.holds) == ["large"]
        scene.arrive(ranked("beside", 2, 0))

    scene.play(story)
    assert ("beside", "n0") in scene.actions.bound


def test_room_for_which_nobody_goes_is_not_kept_for_ever() -> None:
    scene = Scene(gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(ranked("a", 7, 0), ranked("b", 6, 0))
        await scene.settle()
        scene.arrive(ranked("large", 8, 1000))
        await scene.settle()
        scene.arrive(ranked("small", 2, 0))
        await scene.settle()
        assert "keep their room" in scene.actions.refused["small"]
        scene.now = 301.0
        scene.scheduler._news.set()

    scene.play(story)
    assert ("small", "n0") in scene.actions.bound


def test_nothing_is_kept_for_a_pod_that_other_priorities_do_not_stand_in_the_way_of() -> None:
    scene = Scene(gpu_node("single-numa-node"))

    async def story(scene: Scene) -> None:
        scene.arrive(ranked("a", 8, 1000), ranked("b", 7, 1000))
        await scene.settle()
        scene.arrive(ranked("large", 8, 1000), ranked("larger", 9, 2000))

    scene.play(story)
    assert scene.engine.held.holds == {}
    assert not any("made room" in text for text in scene.actions.refused.values())


def test_room_that_another_scheduler_has_made_is_taken_when_its_pod_needs_it_no_longer() -> None:
    scene = Scene(gpu_node("single-numa-node"), gpu_node("none"))
    theirs = replace(ranked("theirs", 8, 10), scheduler="another", nominated="n0")

    async def story(scene: Scene) -> None:
        for uid, node in (("wide", "n0"), ("rest", "n1")):
            scene.cache.put_pod(replace(ranked(uid, 7 if node == "n0" else 15, 0), node=node))
        scene.scheduler.nodes_changed(scene.cache.put_pod(theirs))
        scene.arrive(ranked("ours", 8, 0))
        await scene.settle()
        assert "nominated to them" in scene.actions.refused["ours"]
        scene.scheduler.nodes_changed(scene.cache.put_pod(replace(theirs, nominated="")))
        await scene.settle()

    scene.play(story)
    assert scene.actions.bound == [("ours", "n0")]


@pytest.mark.parametrize("owns", [True, False])
def test_a_pod_is_not_bound_where_somebody_else_was_faster(owns: bool) -> None:
    """The second pod of a node waits for the first to be bound; meanwhile another's takes its place."""
    scene = Scene(gpu_node())
    cpus = 7 if owns else 0
    shared = {} if owns else {"qos": "Burstable"}

    def asking(name: str, cpu: int) -> LivePod:
        return live(replace(pod(name, cpu), **shared))

    async def story(scene: Scene) -> None:
        scene.actions.gate = asyncio.Event()
        scene.arrive(asking("first", cpus or 4), asking("second", cpus or 8))
        await scene.settle()
        assert scene.sent == ["first", "second"]
        theirs = replace(asking("theirs", cpus or 8), node="n0", scheduler="another")
        scene.cache.put_pod(theirs)
        scene.scheduler.nodes_changed({"n0"})
        scene.actions.gate.set()
        scene.actions.gate = None
        await scene.settle()

    scene.play(story)
    # The first was on its way already; whether it was faster nobody could know.
    assert [uid for uid, _ in scene.actions.bound] == ["first"]
