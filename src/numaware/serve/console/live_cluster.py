"""A live cluster as a world: the twins are those of `cluster_cache`, and what happens to pods comes from its watches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Literal, Protocol

from numaware.affinity.report import NodeReport
from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.cluster import Cluster
from numaware.schedule.storm import owner_of
from numaware.sentence import Sentence
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.console.orders import NoOrders
from numaware.serve.console.world import (
    AFFINITY,
    DISTANCE,
    RUNTIME,
    Change,
    Event,
    Happening,
    OrderBook,
    Source,
    Status,
    Story,
    Switch,
    SwitchError,
    Waiting,
)

_MOST_EVENTS = 20_000
_READ_ONLY = Sentence("this console only looks at the cluster; nothing is switched from here")
# Many pages may look at the same switches.
_SECONDS_KNOWN = 1.0
_ON_NODES = Sentence(
    "kubelets are configured on their nodes (prefer-closest-numa-nodes); nothing in this cluster edits them"
)


class Part(Protocol):
    """What a switch of a live cluster stands for."""

    @property
    def switch(self) -> Switch:
        """As last read."""

    async def read(self) -> None:
        """Look at it; what keeps it from being read is said in the switch."""

    def switched(self, status: Status) -> str:
        """What its configuration, as last read, would be."""

    async def move(self, status: Status, by: str) -> bool:
        """Move it, and return whether it had to be; `SwitchError` if it stands as it stood."""


class Talk(Protocol):
    """What agents tell of talk; see `serve/talk_watch.py`."""

    @property
    def reports(self) -> Mapping[str, NodeReport]:
        """By node."""

    @property
    def missing(self) -> Sentence:
        """What keeps them from being read; empty if nothing does."""


class LiveCluster:
    """What a console shows of a cluster. It hears of pods from `serve.watches.ClusterWatch` (it is a listener there).

    `clock` is the one that `cluster_cache` goes by, in seconds. Until `begin` is called, pods are those that were there before:
    they are shown, but have not just happened. What can be switched is in `parts`, what can be ordered of kubelets in `orders`;
    `talk` is where agents tell of theirs.
    """

    kind: Literal["cluster"] = "cluster"

    def __init__(
        self,
        name: str,
        cache: ClusterCache,
        clock: Callable[[], float],
        now: int,
        parts: Sequence[Part] = (),
        orders: OrderBook | None = None,
        talk: Talk | None = None,
    ) -> None:
        self.name = name
        self.now = now
        self.events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self.stories: dict[str, Story] = {}
        self.waiting: dict[str, Waiting] = {}
        self.changes: list[Change] = []
        self.orders = orders or NoOrders()
        self._talk = talk
        self._parts = {part.switch.id: part for part in parts}
        self._switches_read: float | None = None
        self._reading = asyncio.Lock()
        self._moving: set[asyncio.Task[None]] = set()
        self._cache = cache
        self._clock = clock
        self._ids = count(1)
        self._began = False
        # Refused pods stay in the API server until somebody deletes them; each is told of once.
        self._refused: set[str] = set()
        # Those that their kubelets have taken, as far as they are there.
        self._admitted: set[str] = set()

    @property
    def cluster(self) -> Cluster:
        return self._cache.engine.cluster

    def begin(self) -> None:
        """All that was there has been listed; from now on things happen."""
        self._began = True

    def advance(self, now: int) -> None:
        self.now = max(self.now, now)

    def traffic(self) -> tuple[NodeReport, ...]:
        told = self._talk.reports if self._talk else {}
        return tuple(report for name, report in sorted(told.items()) if name in self.cluster.by_name)

    @property
    def untold(self) -> Sentence:
        return self._talk.missing if self._talk else Sentence()

    def reported(self, node: str) -> tuple[Source, int]:
        known = self._cache.knowledge(node)
        if known is None or known.reported_at is None:
            return "inferred", self.now
        if known.current:
            return "reported", self.now
        return "reported", self.now - int(1000 * (self._clock() - known.reported_at))

    # Switches

    @property
    def switches(self) -> tuple[Switch, ...]:
        reasons = {AFFINITY: _READ_ONLY, DISTANCE: _ON_NODES, RUNTIME: _READ_ONLY}
        return tuple(
            self._parts[name].switch if name in self._parts else Switch(name, "close", missing=reason)
            for name, reason in reasons.items()
        )

    def switched_conf(self, switch: str, status: Status) -> str:
        part = self._parts.get(switch)
        return part.switched(status) if part else ""

    async def read_switches(self) -> None:
        async with self._reading:
            if self._switches_read is None or self._clock() - self._switches_read >= _SECONDS_KNOWN:
                await asyncio.gather(self.orders.read(), *(part.read() for part in self._parts.values()))
                self._switches_read = self._clock()

    async def set_switch(self, switch: str, status: Status, by: str) -> Switch:
        part = self._parts.get(switch)
        if part is None:
            raise SwitchError(next(one.missing for one in self.switches if one.id == switch))
        # Who asked may hang up; what was begun is brought to an end all the same.
        moving = asyncio.create_task(self._move(part, status, by))
        self._moving.add(moving)
        moving.add_done_callback(self._moving.discard)
        await asyncio.shield(moving)
        return part.switch

    async def _move(self, part: Part, status: Status, by: str) -> None:
        """Move it, and remember whatever was changed on the way."""
        problem = Sentence()
        try:
            if not await part.move(status, by):
                return
        except SwitchError as error:
            if not error.undone:
                raise
            problem = error.sentence
        before: Status = "close" if status == "open" else "open"
        change = Change(self.now, part.switch.id, before, status, by, problem)
        self.changes.append(change)
        self.events.append(Event(next(self._ids), self.now, "switched", owner=by, change=change))
        if problem:
            raise SwitchError(problem, undone=True)

    # News

    def nodes_changed(self, names: Collection[str]) -> None:
        """Their twins tell."""

    def volumes_changed(self, uids: Collection[str]) -> None:
        """The engine tells when it is asked."""

    def pod_changed(self, uid: str, pod: LivePod | None) -> None:
        """A pod is new, other, or gone."""
        if pod is None or pod.finished:
            self._ended(uid, pod)
        elif pod.node:
            self._placed(pod)
        else:
            self._waits(pod)

    def _ended(self, uid: str, pod: LivePod | None) -> None:
        story = self.stories.pop(uid, None)
        self.waiting.pop(uid, None)
        self._admitted.discard(uid)
        if pod is not None and pod.refused:
            if uid not in self._refused:
                self._refused.add(uid)
                self._tell("refused", pod, pod.reason, pod.message)
        elif pod is not None and story is not None:
            self._tell("left", pod)
        if pod is None:
            self._refused.discard(uid)

    def _placed(self, pod: LivePod) -> None:
        self.waiting.pop(pod.uid, None)
        bound = pod.scheduled.last_transition_time if pod.scheduled else None
        self.stories[pod.uid] = Story(
            _milliseconds(bound or pod.created) or self.now,
            owner_of(pod.pod),
            ledger.read(pod.predicted, ledger.PREDICTED),
            ledger.read(pod.observed, ledger.OBSERVED),
            pod.scheduler,
        )
        # One that has a node was not taken there before its kubelet says so.
        if pod.looked_at and pod.uid not in self._admitted:
            self._admitted.add(pod.uid)
            self._tell("admitted", pod)

    def _waits(self, pod: LivePod) -> None:
        message = pod.scheduled.message if pod.scheduled else ""
        known = self.waiting.get(pod.uid)
        since = _milliseconds(pod.created) or self.now
        self.waiting[pod.uid] = Waiting(pod.pod, owner_of(pod.pod), since, message)
        if message and (known is None or known.message != message):
            self._tell("waiting", pod, "FailedScheduling", message)

    def _tell(self, kind: Happening, pod: LivePod, reason: str = "", message: str = "") -> None:
        if self._began:
            self.events.append(
                Event(
                    next(self._ids),
                    self.now,
                    kind,
                    pod.full_name,
                    pod.node,
                    owner_of(pod.pod),
                    reason,
                    message,
                )
            )


def _milliseconds(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0
