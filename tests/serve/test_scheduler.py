from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.metrics import Metrics
from numaware.serve.scheduler import Bound, Scheduler
from numaware.twin.node import Node
from numaware.workload.scheduling import PodRules, PodTerm, Requirement, Scheduling, Selector
from support.live_pods import complete, live, live_node
from support.small_clusters import gpu_node
from support.twin_nodes import pod


class FakeActions:
    """Keeps what is done; binds come out as told, the rest succeed."""

    def __init__(self, *audit: Bound) -> None:
        self.audit = list(audit)
        self.bound: list[tuple[str, str]] = []
        self.annotations: dict[str, dict[str, str]] = {}
        self.refused: dict[str, str] = {}
        self.told: list[str] = []
        self.gate: asyncio.Event | None = None

    async def bind(self, pod: LivePod, node: str, annotations: dict[str, str]) -> Bound:
        if self.gate is not None:
            await self.gate.wait()
        outcome = self.audit.pop(0) if self.audit else "bound"
        if outcome == "bound":
            self.bound.append((pod.uid, node))
            self.annotations[pod.uid] = annotations
        return outcome

    def scheduled(self, pod: LivePod, node: str) -> None:
        self.told.append(f"{pod.uid} on {node}")

    def unschedulable(self, pod: LivePod, message: str) -> None:
        self.refused[pod.uid] = message


class Scene:
    """A scheduler over a few nodes, run until nothing happens any more."""

    def __init__(self, *nodes: Node, actions: FakeActions | None = None, **more: object) -> None:
        self.now = 0.0
        self.actions = actions or FakeActions()
        self.engine = Engine(Cluster(()))
        self.cache = ClusterCache(self.engine, self.clock)
        for number, node in enumerate(nodes):
            self.cache.put_node(live_node(f"n{number}", node))
            self.cache.put_report(complete(f"n{number}", node))
        self.sent: list[str] = []
        self.scheduler = Scheduler(
            self.cache,
            self.actions,
            names=("numaware",),
            metrics=Metrics(),
            clock=self.clock,
            on_sent=lambda uid, *_: self.sent.append(uid),
            **more,  # type: ignore[arg-type] # what the test says
        )

    def clock(self) -> float:
        return self.now

    def stuck(self) -> int:
        return sum(one.state == "stuck" for one in self.scheduler.queue.waiting.values())

    def arrive(self, *pods: LivePod) -> None:
        for one in pods:
            self.cache.put_pod(one)
            self.scheduler.pod_changed(one.uid, one)

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    def play(self, story: Callable[[Scene], Awaitable[None]]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.scheduler.run())
            await self.settle()
            await story(self)
            await self.settle()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(run())


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
