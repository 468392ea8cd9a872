"""Writes Events of the API server (`kubectl describe` shows them) from a queue, so that no caller waits.

Telling is a plain call that returns at once. What is told goes through a queue of limited length; when the server is slower
than that, events are dropped and counted, since no event is worth a scheduler's time. While something more urgent is under
way (`hold`), normal events stand back for a few seconds; warnings do not. The same thing told again about the same object
becomes one event with a count, written again at most every few seconds; the count in the cluster may thus lag behind by
what was told since.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, NamedTuple, Self

import msgspec

from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.microtime import micro_time
from numaware.kube.resources import EVENTS
from numaware.kube.transport import Clock

EventKind = Literal["Normal", "Warning"]

# What the API server allows.
_MOST_NOTE = 1024
_MOST_WORD = 128
_MOST_NAME = 253

_MOST_REMEMBERED = 4096
_REWRITE_SECONDS = 10.0
# Servers forget events after an hour; well before that, a repeat is news again.
_SERIES_SECONDS = 1800.0
_WRITE_SECONDS = 10.0
# The longest that an event stands back.
_PATIENCE_SECONDS = 5.0
_DRAIN_SECONDS = 3.0


class Subject(msgspec.Struct, frozen=True, rename="camel"):
    """The object that an event is about, named as the API names it."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class _EventKey(msgspec.Struct, frozen=True):
    """All that makes two events the same."""

    about: Subject
    kind: EventKind
    reason: str
    action: str
    note: str
    related: Subject | None


class _Word(NamedTuple):
    """An event as it was told, and when, by both clocks."""

    key: _EventKey
    since: float
    stamp: datetime


class _Series(msgspec.Struct):
    """One event and its repeats."""

    key: _EventKey
    first: datetime
    last: datetime
    began: float
    count: int = 1
    name: str = ""
    written: float | None = None
    queued: bool = True


class EventWriter:
    """`async with EventWriter(client, ...) as events`, then `events.tell(...)`; leaving writes what is still queued.

    `controller` is the program (`numaware.io/scheduler`), `instance` which of its processes. `on_problem` is told why events
    cannot be written, each reason once until one can.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        limit: int = 1000,
        writers: int = 4,
        on_problem: Callable[[str], None] = lambda _: None,
        dice: random.Random | None = None,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.written = 0
        self.dropped = 0
        self.failed = 0
        self._client = client
        self._controller = controller
        self._instance = instance[:_MOST_WORD]
        self._limit = limit
        self._writers = writers
        self._on_problem = on_problem
        self._problem = ""
        self._dice = dice or random.SystemRandom()
        self._clock = clock
        self._now = now
        self._series: OrderedDict[_EventKey, _Series] = OrderedDict()
        self._queue: deque[_Series] = deque()
        # Normal events that stand back.
        self._patient: deque[_Word] = deque()
        self._holds = 0
        self._waiting = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._busy = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._write_all()) for _ in range(self._writers)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nothing is more urgent any more, even if it has not ended yet.
        self._holds = 0
        self._waiting.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await self._idle.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def tell(
        self,
        about: Subject,
        kind: EventKind,
        reason: str,
        action: str,
        note: str,
        *,
        related: Subject | None = None,
    ) -> None:
        """Queue one event: why (`reason`) and what was done (`action`) in a CamelCase word each, `note` in a sentence."""
        if len(self._queue) + len(self._patient) >= self._limit:
            self.dropped += 1
            return
        key = _EventKey(about, kind, reason[:_MOST_WORD], action[:_MOST_WORD], _shortened(note), related)
        word = _Word(key, self._clock(), self._now())
        if kind == "Normal" and self._holds > 0:
            # Whether it is a repeat can wait too.
            self._patient.append(word)
            # Nobody need wake up for one that has to wait behind others anyway.
            if len(self._patient) > 1:
                return
        else:
            series = self._counted(word)
            if series is None:
                return
            self._queue.append(series)
        self._idle.clear()
        self._waiting.set()

    def _counted(self, word: _Word) -> _Series | None:
        """The series that the event begins or goes on with; None if it is not to be written now."""
        key = word.key
        series = self._series.get(key)
        if series is None or word.since - series.began >= _SERIES_SECONDS:
            series = self._series[key] = _Series(key, word.stamp, word.stamp, word.since)
            self._series.move_to_end(key)
            if len(self._series) > _MOST_REMEMBERED:
                self._series.popitem(last=False)
            return series
        series.count += 1
        series.last = word.stamp
        self._series.move_to_end(key)
        if series.queued or (series.written is not None and word.since - series.written < _REWRITE_SECONDS):
            return None
        series.queued = True
        return series

    def hold(self) -> None:
        """Something more urgent than a normal event begins; `go_on` is to be called when it has ended."""
        self._holds += 1

    def go_on(self) -> None:
        """It has ended."""
        self._holds -= 1
        if self._holds <= 0:
            self._waiting.set()

    async def _write_all(self) -> None:
        while True:
            series = await self._next()
            series.queued = False
            # Now, not afterwards: a repeat that comes while this is being written waits its turn.
            series.written = self._clock()
            self._busy += 1
            try:
                await self._write(series)
                self.written += 1
                self._problem = ""
            except ApiError as error:
                self.failed += 1
                self._series.pop(series.key, None)
                if error.message != self._problem:
                    self._problem = error.message
                    self._on_problem(str(error))
            finally:
                self._busy -= 1
                self._rest()

    def _rest(self) -> None:
        """Tell whoever waits for the end, if nothing is left to write."""
        if not self._queue and not self._patient and not self._busy:
            self._idle.set()

    async def _next(self) -> _Series:
        """What is to be written next, when its time has come."""
        while True:
            if self._queue:
                return self._queue.popleft()
            left = None
            if self._patient:
                left = self._patient[0].since + _PATIENCE_SECONDS - self._clock()
                if self._holds <= 0 or left <= 0:
                    series = self._counted(self._patient.popleft())
                    if series is not None:
                        return series
                    self._rest()
                    continue
            self._waiting.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._waiting.wait()

    async def _write(self, series: _Series) -> None:
        about = series.key.about
        # An event about what has no namespace lives in this one.
        namespace = about.namespace or "default"
        if series.name:
            try:
                await self._client.patch(
                    EVENTS, series.name, _repeats(series), namespace, within=_WRITE_SECONDS
                )
            except ApiError as error:
                if not error.not_found:
                    raise
            else:
                return
        suffix = f".{self._dice.getrandbits(64):016x}"
        series.name = about.name[: _MOST_NAME - len(suffix)].rstrip(".-") + suffix
        await self._client.create(EVENTS, self._body(series, namespace), namespace, within=_WRITE_SECONDS)

    def _body(self, series: _Series, namespace: str) -> dict[str, object]:
        key = series.key
        body: dict[str, object] = {
            **EVENTS.head,
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": micro_time(series.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": key.kind,
            "reason": key.reason,
            "action": key.action,
            "note": key.note,
            "regarding": key.about,
        }
        if key.related is not None:
            body["related"] = key.related
        # A count of one is no series.
        if series.count > 1:
            body |= _repeats(series)
        return body


def _repeats(series: _Series) -> dict[str, object]:
    return {"series": {"count": series.count, "lastObservedTime": micro_time(series.last)}}


def _shortened(note: str) -> str:
    """A note that the server takes: at most so many bytes."""
    if len(note) <= _MOST_NOTE and note.isascii():
        return note
    data = note.encode(errors="replace")
    if len(data) <= _MOST_NOTE:
        return data.decode()
    return data[: _MOST_NOTE - 3].decode(errors="ignore") + "\N{HORIZONTAL ELLIPSIS}"
