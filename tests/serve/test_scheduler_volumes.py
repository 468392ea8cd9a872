"""A pod whose volumes take long keeps its place, and holds nobody up; when they fail it is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from numaware.kube.pods import LivePod
from numaware.schedule.answer import Answer
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.storage import Storage
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.metrics import Metrics
from numaware.serve.scheduler import Bound, Scheduler
from numaware.serve.storage_watch import StorageFeed
from numaware.workload.pod import Pod
from numaware.workload.scheduling import Scheduling
from numaware.workload.storage import Claim, StorageClass, Volume, VolumePlan
from support.live_pods import complete, live, live_node
from support.small_clusters import gpu_node
from support.twin_nodes import pod

CLAIM = Claim("default", "c", storage_class="late")


class Fakes:
    """Binds every pod, and volumes when it is told how that came out."""

    def __init__(self) -> None:
        self.bound: list[str] = []
        self.failures: list[str] = []
        self.refused: list[str] = []
        self.awaited: list[str] = []
        self.plans: list[VolumePlan] = []
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.wanted: Callable[[], bool] = lambda: False

    async def bind(self, pod: LivePod, _node: str, _annotations: dict[str, str]) -> Bound:
        self.bound.append(pod.uid)
        return "bound"

    def scheduled(self, pod: LivePod, node: str) -> None: ...

    def unschedulable(self, pod: LivePod, message: str) -> None:
        self.refused.append(f"{pod.uid}: {message}")

    def failed(self, pod: LivePod, message: str) -> None:
        self.failures.append(f"{pod.uid} {message}")

    def awaits_volumes(self, pod: LivePod, message: str) -> None:
        self.awaited.append(f"{pod.uid} {message}")


class FakeVolumes:
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    async def bind(
        self, plan: VolumePlan, still_wanted: Callable[[], bool], tell: Callable[[str], None]
    ) -> str:
        self._fakes.plans.append(plan)
        tell("claim default/c")
        self._fakes.wanted = still_wanted
        return await self._fakes.outcome


def pending(uid: str, *claims: str) -> LivePod:
    found = live(pod(uid, 2))
    return replace(found, pod=replace(found.pod, scheduling=Scheduling(claims=claims, scheduler="numaware")))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def revise() -> None:
    now = [0.0]
    storage, fakes, node = Storage(), Fakes(), gpu_node()
    cache = ClusterCache(Engine(Cluster((), storage=storage)), lambda: now[0])
    cache.put_node(live_node("n0", node))
    cache.put_report(complete("n0", node))
    scheduler = Scheduler(cache, fakes, names=("numaware",), metrics=Metrics(), clock=lambda: now[0])
    task = asyncio.create_task(scheduler.run())
    waits = pending("waits", "c")
    cache.put_pod(waits)
    scheduler.pod_changed(waits.uid, waits)
    await settle()
    now[0] = 60.0
    scheduler.volumes_changed(StorageFeed(cache, storage).put(None, Claim("default", "c")))
    await settle()
    task.cancel()
    await asyncio.wait((task,))
    assert fakes.refused == [
        'waits: 0/1 nodes are available: persistentvolumeclaim "c" not found.',
        "waits: 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ]


def test_what_a_pod_says_follows_its_claim() -> None:
    asyncio.run(revise())


async def news(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, fakes, node = Storage(), Fakes(), gpu_node()
    engine = Engine(Cluster((), storage=storage))
    cache = ClusterCache(engine, lambda: 0.0)
    cache.put_node(live_node("n0", node))
    cache.put_report(complete("n0", node))
    scheduler = Scheduler(cache, fakes, names=("numaware",), metrics=Metrics(), clock=lambda: 0.0)
    task = asyncio.create_task(scheduler.run())
    for waits in (pending("waits", "c"), live(pod("large", 500))):
        cache.put_pod(waits)
        scheduler.pod_changed(waits.uid, waits)
    await settle()
    asked: list[str] = []
    ask = engine.ask

    def counted(one: Pod, names: Sequence[str] | None = None) -> list[Answer]:
        asked.append(one.uid)
        return ask(one, names)

    monkeypatch.setattr(engine, "ask", counted)
    feed = StorageFeed(cache, storage)
    scheduler.volumes_changed(feed.put(None, Volume("v", storage_class="fast")))
    await settle()
    assert asked == []
    scheduler.volumes_changed(feed.put(None, Claim("default", "c", volume="v", bound=True)))
    scheduler.volumes_changed(feed.put(None, Volume("v", storage_class="fast", claim=("default", "c"))))
    await settle()
    task.cancel()
    await asyncio.wait((task,))
    assert asked == ["waits"]
    assert fakes.bound == ["waits"]


def test_news_of_volumes_wakes_those_whose_volumes_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(news(monkeypatch))


async def story(*, succeed: bool) -> None:
    storage = Storage()
    storage.put(StorageClass("late", "csi", waits=True))
    storage.put(CLAIM)
    fakes, node = Fakes(), gpu_node()
    engine = Engine(Cluster((), storage=storage))
    cache = ClusterCache(engine, lambda: 0.0)
    cache.put_node(live_node("n0", node))
    cache.put_report(complete("n0", node))
    scheduler = Scheduler(
        cache, fakes, names=("numaware",), metrics=Metrics(), clock=lambda: 0.0, volumes=FakeVolumes(fakes)
    )
    task = asyncio.create_task(scheduler.run())
    for one in (pending("slow", "c"), pending("quick")):
        cache.put_pod(one)
        scheduler.pod_changed(one.uid, one)
    await settle()
    assert fakes.plans == [VolumePlan("n0", (), (CLAIM.key,))]
    assert (fakes.bound, fakes.wanted()) == (["quick"], True)
    assert fakes.awaited == ["slow has a place on n0, and waits there for claim default/c to be bound"]
    assert {*engine.cluster.where} == {"slow", "quick"}
    fakes.outcome.set_result("" if succeed else "no")
    await settle()
    if succeed:
        assert fakes.bound == ["quick", "slow"]
    else:
        assert {*engine.cluster.where} == {"quick"}
        assert storage.assumed().nodes == {}
        assert fakes.failures == ["slow could not be bound to n0, and is tried again: no"]
        assert scheduler.queue.waiting["slow"].state == "later"
        # What waits for the claim is tried again when the claim is another.
        assert StorageFeed(cache, storage).put(CLAIM, replace(CLAIM, selected_node="n0")) == {"slow"}
        assert StorageFeed(cache, storage).put(None, replace(CLAIM, name="other")) == set()
    task.cancel()
    await asyncio.wait((task,))


def test_a_pod_whose_volumes_take_long_holds_nobody_up_and_keeps_its_place() -> None:
    asyncio.run(story(succeed=True))


def test_a_pod_whose_volumes_fail_gives_its_place_back_and_is_tried_again() -> None:
    with capture_logs() as logged:
        asyncio.run(story(succeed=False))
    assert [(line["pod"], line["why"]) for line in logged] == [("default/slow", "no")]
