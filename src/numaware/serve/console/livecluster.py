"""A live cluster as a world: the twins are those of `truth`, and what happens to pods is told by its watches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from datetime import datetime
from itertools import count
from typing import Literal

from numaware.errors import InputError
from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.cluster import Cluster
from numaware.schedule.ledger import Placement
from numaware.serve.console.volcano import Volcano
from numaware.serve.console.world import (
    AFFINITY,
    DISTANCE,
    RUNTIME,
    Change,
    Event,
    Happening,
    Source,
    Status,
    Story,
    Switch,
    SwitchError,
    Waiting,
)
from numaware.serve.truth import Truth

_MOST_EVENTS = 20_000
_READ_ONLY = "this console only looks at the cluster; nothing is switched from here"
_ON_NODES = (
    "kubelets are configured on their nodes (prefer-closest-numa-nodes); nothing in this cluster edits them"
)
_NO_PLUGIN = "no agent with its runtime plug-in runs in this cluster"


class LiveCluster:
    """What a console shows of a cluster. It hears of pods from `serve.live.Live` (it is a listener there).

    `clock` is the one that `truth` goes by, in seconds. Until `begin` is called, pods are those that were there before:
    they are shown, but have not just happened. Without `volcano` nothing is switched.
    """

    kind: Literal["cluster"] = "cluster"

    def __init__(
        self,
        name: str,
        truth: Truth,
        clock: Callable[[], float],
        now: int,
        volcano: Volcano | None = None,
    ) -> None:
        self.name = name
        self.now = now
        self.events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self.stories: dict[str, Story] = {}
        self.waiting: dict[str, Waiting] = {}
        self.changes: list[Change] = []
        self._volcano = volcano
        self._truth = truth
        self._clock = clock
        self._ids = count(1)
        self._began = False
        # Refused pods stay in the API server until somebody deletes them; each is told of once.
        self._refused: set[str] = set()

    @property
    def cluster(self) -> Cluster:
        return self._truth.engine.cluster

    def begin(self) -> None:
        """All that was there has been listed; from now on things happen."""
        self._began = True

    def advance(self, now: int) -> None:
        self.now = max(self.now, now)

    def reported(self, node: str) -> tuple[Source, int]:
        known = self._truth.knowledge(node)
        if known is None or known.reported_at is None:
            return "inferred", self.now
        if known.current:
            return "reported", self.now
        return "reported", self.now - int(1000 * (self._clock() - known.reported_at))

    # Switches

    @property
    def switches(self) -> tuple[Switch, ...]:
        return (
            self._volcano.switch if self._volcano else Switch(AFFINITY, "close", missing=_READ_ONLY),
            Switch(DISTANCE, "close", missing=_ON_NODES),
            Switch(RUNTIME, "close", missing=_NO_PLUGIN),
        )

    def switched_conf(self, switch: str, status: Status) -> str:
        if self._volcano is None or switch != AFFINITY:
            return ""
        return self._volcano.switched(status)

    async def read_switches(self) -> None:
        if self._volcano is not None:
            await self._volcano.read()

    async def set_switch(self, switch: str, status: Status, by: str) -> Switch:
        found = next(one for one in self.switches if one.id == switch)
        if self._volcano is None or found.missing:
            raise SwitchError(found.missing)
        # Who asked may hang up; what was begun is brought to an end all the same.
        await asyncio.shield(asyncio.create_task(self._move(self._volcano, status, by)))
        return self._volcano.switch

    async def _move(self, volcano: Volcano, status: Status, by: str) -> None:
        """Move it, and remember whatever was changed on the way."""
        problem = ""
        try:
            if not await volcano.move(status, by):
                return
        except SwitchError as error:
            if not error.undone:
                raise
            problem = str(error)
        before: Status = "close" if status == "open" else "open"
        self.changes.append(Change(self.now, AFFINITY, before, status, by, problem))
        told = f"{AFFINITY}: {before} → {status}{f', put back: {problem}' if problem else ''}"
        self.events.append(Event(next(self._ids), self.now, "switched", owner=by, message=told))
        if problem:
            raise SwitchError(problem, undone=True)

    # News

    def nodes_changed(self, names: Collection[str]) -> None:
        """Their twins tell."""

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
        known = self.stories.get(pod.uid)
        bound = pod.scheduled.last_transition_time if pod.scheduled else None
        self.stories[pod.uid] = Story(
            _milliseconds(bound or pod.created) or self.now,
            _owner(pod),
            _placement(pod.predicted, ledger.PREDICTED),
            _placement(pod.observed, ledger.OBSERVED),
            pod.scheduler,
        )
        if known is None:
            self._tell("admitted", pod)

    def _waits(self, pod: LivePod) -> None:
        message = pod.scheduled.message if pod.scheduled else ""
        known = self.waiting.get(pod.uid)
        since = _milliseconds(pod.created) or self.now
        self.waiting[pod.uid] = Waiting(pod.pod, _owner(pod), since, message)
        if message and (known is None or known.message != message):
            self._tell("waiting", pod, "FailedScheduling", message)

    def _tell(self, kind: Happening, pod: LivePod, reason: str = "", message: str = "") -> None:
        if self._began:
            self.events.append(
                Event(next(self._ids), self.now, kind, pod.full_name, pod.node, _owner(pod), reason, message)
            )


def _owner(pod: LivePod) -> str:
    """Who makes such pods: its controller, or the pod itself."""
    name = next((owner.name for owner in pod.owners if owner.controller), pod.name)
    return f"{pod.namespace}/{name}"


def _milliseconds(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0


def _placement(text: str, source: str) -> Placement | None:
    """What an annotation says; anybody may write there, so what cannot be read says nothing."""
    try:
        return ledger.decode(text, source) if text else None
    except InputError:
        return None
