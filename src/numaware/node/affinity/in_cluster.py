"""What the cluster is told of talk on this node, and what it says of moving pods, once in a while and at once after a move.

Told are a NodeTraffic of the node (`affinity/published.py`) and the node's entry in openFuyao's Oenuma, which all nodes share.
Heard are the Oenuma's switch and openFuyao's Whitelist; as long as either cannot be read nobody knows whether pods may be moved.
Each move becomes an Event of its pod, and so does what it has come to.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import msgspec
import structlog

from numaware.affinity import published
from numaware.affinity.report import Move, NodeReport
from numaware.affinity.whitelist import Whitelist
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import label
from numaware.kube import oenumas, whitelists
from numaware.kube.client import Client
from numaware.kube.decoding import OwnerReference
from numaware.kube.definitions import missing_text
from numaware.kube.errors import ApiError
from numaware.kube.events import EventWriter, Subject
from numaware.kube.oenumas import NodeEntry
from numaware.kube.resources import NODE_TRAFFICS
from numaware.node.published import CALL_SECONDS, MANAGER
from numaware.node.troubles import Troubles

log = structlog.get_logger("numaware.agent")

# Amounts alone are written this seldom; the console takes a report for stale after three times as long.
_STEADY_SECONDS = 60.0
# Between two rounds, however much happens.
_LEAST_SECONDS = 10.0
_TRIES, _RETRY_SECONDS = 5, 0.2
# An object of the API server has room for half as much again.
_MOST_BYTES = 1 << 20
_FAREWELL_SECONDS = 5.0


class SharedObjects(msgspec.Struct, frozen=True):
    """Where openFuyao's objects are, and how many seconds pass between two looks at them."""

    seconds: float = 30.0
    namespace: str = "tcs"
    name: str = "podafi"


class InCluster:
    """One node's side of it while `run` runs. `owner` is the Node as an owner of objects, once that is known.

    `allowed` is whether pods may be moved, and `whitelist` which; None as long as nobody knows. Whoever moves pods `acts`.
    """

    def __init__(
        self,
        node: str,
        client: Client,
        troubles: Troubles,
        options: SharedObjects,
        owner: Callable[[], OwnerReference | None],
        events: EventWriter,
        *,
        acts: bool,
    ) -> None:
        self.allowed: bool | None = None
        self.whitelist: Whitelist | None = None
        self._node = node
        self._client = client
        self._troubles = troubles
        self._options = options
        self._owner = owner
        self._events = events
        self._acts = acts
        self._report: NodeReport | None = None
        self._entry: NodeEntry | None = None
        # What the last report written says but for amounts, and when it was written.
        self._said: object = None
        self._written_at = 0.0
        self._told: dict[tuple[str, int], Move] = {}
        self._news = asyncio.Event()
        self._unwanted = False

    def tell(self, report: NodeReport, entry: NodeEntry) -> None:
        """What is true now; it is written soon if it matters, and with the next round if it does not."""
        self._report, self._entry = report, entry
        if _essence(report) != self._said:
            self._news.set()
        self._tell_of_moves(report.moves)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._news.clear()
            await self._round()
            began = time.monotonic()
            # Not `wait_for`, which in Python 3.11 may lose a cancellation that comes together with the event.
            try:
                async with asyncio.timeout(self._options.seconds):
                    await self._news.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(
                max(0.0, began + min(_LEAST_SECONDS, self._options.seconds) - time.monotonic())
            )

    async def farewell(self) -> None:
        """Nobody is where he was put any more."""
        if self._entry is None or not self._entry.pod_affinity:
            return
        self._entry = msgspec.structs.replace(self._entry, pod_affinity=())
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._share()
        except (ApiError, TimeoutError) as error:
            log.warning("the Oenuma still says that pods are where they were put", error=str(error))

    async def _round(self) -> None:
        problems = []
        for part in (self._hear_whitelist, self._share, self._publish):
            try:
                await part()
            except ApiError as error:
                problems.append(error)
        if problems:
            first = problems[0]
            self._troubles.raised("cluster", str(first.status or "silent"), str(first))
        else:
            self._troubles.cleared("cluster")

    async def _hear_whitelist(self) -> None:
        try:
            found = await whitelists.read(self._client, self._options.namespace, CALL_SECONDS)
        except ApiError as error:
            if not error.not_found:
                raise
            self.whitelist = Whitelist()
        else:
            self.whitelist = Whitelist.of(found.names, effective=found.effective)

    async def _share(self) -> None:
        """Hear the switch, and have the node's entry beside it as it should be."""
        for attempt in range(_TRIES):
            if attempt:
                # All nodes may have something to say at once.
                await asyncio.sleep(random.uniform(0, _RETRY_SECONDS * 2**attempt))  # noqa: S311 - no secret
            found = await self._switch()
            entry = self._entry
            if entry is None or (found is None and not self._acts):
                return
            try:
                if found is None:
                    await self._create(entry)
                elif found.entry(self._node) != (fitting := self._fitting(found, entry)).plain():
                    await oenumas.write_entry(self._client, found, fitting, CALL_SECONDS)
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                return
        raise ApiError(409, "Conflict", f"others keep writing Oenuma {self._place}")

    @property
    def _place(self) -> str:
        return f"{self._options.namespace}/{self._options.name}"

    async def _switch(self) -> oenumas.Shared | None:
        options = self._options
        try:
            found = await oenumas.read_shared(self._client, options.name, options.namespace, CALL_SECONDS)
        except ApiError as error:
            if not error.not_found:
                raise
            # Nobody has said anything against it.
            self.allowed = True
            return None
        self.allowed = found.acts
        return found

    async def _create(self, entry: NodeEntry) -> None:
        """Who has no use for openFuyao's objects need not have its kinds or its namespace."""
        options = self._options
        try:
            await oenumas.create(self._client, options.name, options.namespace, entry, CALL_SECONDS)
        except ApiError as error:
            if not error.not_found:
                raise
            if not self._unwanted:
                self._unwanted = True
                log.info("openFuyao's form is not written", object=self._place, why=error.message)

    def _fitting(self, found: oenumas.Shared, entry: NodeEntry) -> NodeEntry:
        """Without pods where the object would be too large with them: the nodes of a large cluster share it."""
        if not entry.pod_affinity or found.size_with(entry) <= _MOST_BYTES:
            return entry
        log.warning("there is no room for the node's pods", object=self._place, pods=len(entry.pod_affinity))
        return msgspec.structs.replace(entry, pod_affinity=())

    async def _publish(self) -> None:
        report, now = self._report, time.monotonic()
        if report is None:
            return
        essence = _essence(report)
        if essence == self._said and now - self._written_at < _STEADY_SECONDS:
            return
        body = published.encode(report, self._owner())
        try:
            await self._client.apply(NODE_TRAFFICS, self._node, body, manager=MANAGER, within=CALL_SECONDS)
        except ApiError as error:
            if error.not_found:
                raise ApiError(404, "NotFound", missing_text(NODE_TRAFFICS)) from None
            raise
        self._said, self._written_at = essence, now

    def _tell_of_moves(self, moves: tuple[Move, ...]) -> None:
        for move in moves:
            before = self._told.get((move.uid, move.at))
            if before is None:
                self._event(msgspec.structs.replace(move, after=None), "NumaAffinityMoved", "Move")
            if move.after is not None and (before is None or before.after is None):
                self._event(move, "NumaAffinityMeasured", "Measure")
        self._told = {(move.uid, move.at): move for move in moves}

    def _event(self, move: Move, reason: str, action: str) -> None:
        pod = Subject("Pod", move.name, move.namespace, move.uid)
        self._events.tell(pod, "Normal", reason, action, label(Message("affinity-gain", move.facts), "en"))


def _essence(report: NodeReport) -> object:
    """All but amounts: what a reader should not have to wait for."""
    pods = frozenset((pod.namespace, pod.name, pod.numa, pod.answer, pod.target) for pod in report.pods)
    return report.mode, report.moving, report.numa, report.troubles, report.moves, pods
