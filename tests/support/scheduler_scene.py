"""A scheduler over a few nodes whose actions are kept, and nothing of the world beyond."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from numaware.kube.pods import LivePod
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.metrics import Metrics
from numaware.serve.scheduler import Bound, Scheduler
from numaware.twin.node import Node
from support.live_pods import complete, live_node


class FakeActions:
    """Keeps what is done; binds come out as told, the rest succeed."""

    def __init__(self, *audit: Bound) -> None:
        self.audit = list(audit)
        self.bound: list[tuple[str, str]] = []
        self.annotations: dict[str, dict[str, str]] = {}
        self.refused: dict[str, str] = {}
        self.failures: list[tuple[str, str]] = []
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

    def failed(self, pod: LivePod, message: str) -> None:
        self.failures.append((pod.uid, message))

    def awaits_volumes(self, pod: LivePod, message: str) -> None: ...


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
        self.metrics = Metrics()
        self.scheduler = Scheduler(
            self.cache,
            self.actions,
            names=("numaware",),
            metrics=self.metrics,
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
