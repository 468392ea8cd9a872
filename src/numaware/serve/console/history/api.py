"""Going back in time: scenes of moments that are over, and what can be said of the time that is kept."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TypeVar

import msgspec

from numaware.sentence import Sentence
from numaware.serve.console.history.file import KEPT_FOR, MOST_BYTES, HistoryFile
from numaware.serve.console.history.reader import HistoryReader, NotKeptError, Span
from numaware.serve.console.history.writer import HistoryWriter
from numaware.serve.console.views.node import Letters
from numaware.serve.console.views.recorder import EVERY, Series, by_numa, by_step, step_end, steps
from numaware.serve.console.views.snapshot_view import SnapshotView
from numaware.serve.console.world import NOTHING, Told
from numaware.serve.problems import ProblemError
from numaware.twin.errors import StartError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SCENES = 3
_MOST_STEPS = 120

# What a file that somebody has changed by hand may lead to.
_UNREADABLE = (
    sqlite3.Error,
    msgspec.MsgspecError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    RecursionError,
    StartError,
)

_Answer = TypeVar("_Answer")


class Kept(msgspec.Struct, frozen=True, rename="camel"):
    """What is kept of the past: nothing without a `file`. `problem` says why nothing is added just now.

    `previous` and `next` are the moments of change around the one that was asked about.
    """

    file: str = ""
    problem: Told = NOTHING
    spans: tuple[Span, ...] = ()
    bytes: int = 0
    most_bytes: int = MOST_BYTES
    keeps_ms: int = KEPT_FOR
    previous: int | None = None
    next: int | None = None


class Refusals(msgspec.Struct, frozen=True, rename="camel"):
    """Refusals over all the time that is kept, in steps from `fromMs` on, each with its end; None where nobody looked."""

    from_ms: int = 0
    step_ms: int = EVERY
    counts: tuple[int | None, ...] = ()


def milliseconds(moment: datetime) -> int:
    """A moment as the console counts."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def written(time: int) -> str:
    """The same for people, to the second."""
    return (_EPOCH + timedelta(milliseconds=time)).strftime("%Y-%m-%dT%H:%M:%SZ")


class History:
    """A writer and what it has written. Reading is done on threads, one question after the other."""

    def __init__(self, path: Path, make: Callable[[Path], HistoryFile] = HistoryFile) -> None:
        """`InputError` for a file that is not ours; `make` opens it."""
        self.writer = HistoryWriter(path, make)
        self._snapshots: OrderedDict[int, SnapshotView] = OrderedDict()
        self._one = asyncio.Lock()

    async def close(self) -> None:
        await asyncio.to_thread(self.writer.close)

    async def snapshot(self, moment: datetime) -> SnapshotView:
        """The world at that moment; a problem for a time of which nothing is kept."""
        time = milliseconds(moment)
        async with self._one:
            known = self._snapshots.get(time)
            if known is None:
                known = self._snapshots[time] = await self._read(lambda archive: _snapshot(archive, time))
                if len(self._snapshots) > _MOST_SCENES:
                    self._snapshots.popitem(last=False)
            self._snapshots.move_to_end(time)
            return known

    async def kept(self, moment: datetime | None, node: str) -> Kept:
        """What there is, and which moments of change are around this one, the last one for none."""
        writer = self.writer
        if writer.archive is None:
            return Kept(writer.path.name, writer.problem)

        def ask(archive: HistoryReader) -> Kept:
            spans = archive.spans()
            now = max((span.to_ms for span in spans), default=0) + 1
            before, after = archive.around(now if moment is None else milliseconds(moment), node)
            return Kept(writer.path.name, writer.problem, spans, archive.size(), previous=before, next=after)

        async with self._one:
            return await self._read(ask)

    async def refusals(self) -> Refusals:
        """When kubelets refused, for who looks for the moment to go back to."""

        def ask(archive: HistoryReader) -> Refusals:
            spans = archive.spans()
            if not spans:
                return Refusals()
            begin, end = min(span.from_ms for span in spans), max(span.to_ms for span in spans)
            step = max(EVERY, step_end((end - begin) // _MOST_STEPS, EVERY))
            counted = archive.refusals(begin, step)
            return Refusals(begin, step, tuple(map(counted.get, range(-(-(end - begin) // step)))))

        async with self._one:
            return await self._read(ask)

    async def kept_from(self) -> int | None:
        """The oldest moment of which anything is kept; None where there is none that could be read."""
        try:
            async with self._one:
                spans = await self._read(lambda archive: archive.spans())
        except ProblemError:
            return None
        return min((span.from_ms for span in spans), default=None)

    async def series(self, node: str, begin: int, end: int) -> Series:
        """What was recorded in that time."""

        def ask(archive: HistoryReader) -> Series:
            step, times = steps(begin, end)
            spans = archive.spans()
            return Series(
                node=node,
                from_ms=begin,
                to_ms=end,
                kept_from_ms=min((span.from_ms for span in spans), default=end),
                step_ms=step,
                times=times,
                cluster=by_step(archive.points(begin - step, end), times, step),
                numa=by_numa(archive.strips(node, times)) if node else (),
                source="history file",
            )

        async with self._one:
            return await self._read(ask)

    async def _read(self, ask: Callable[[HistoryReader], _Answer]) -> _Answer:
        archive = self.writer.archive
        if archive is None:
            raise ProblemError(404, Sentence("nothing is kept of that time"), self.writer.problem)
        try:
            return await asyncio.to_thread(ask, archive)
        except NotKeptError:
            raise ProblemError(404, await asyncio.to_thread(_told, archive)) from None
        except _UNREADABLE as error:
            unreadable = Sentence("what is kept of that time cannot be read")
            raise ProblemError(404, unreadable, str(error)) from None


def not_kept() -> ProblemError:
    """The answer of a console that keeps nothing."""
    how = Sentence("start the console with --record FILE to look back")
    return ProblemError(404, Sentence("nothing is kept of that time"), how)


def _told(archive: HistoryReader) -> Sentence:
    spans = archive.spans()
    if not spans:
        return Sentence("nothing is kept yet")
    kept = reduce(
        lambda some, more: Sentence("{some}, {more}", some=some, more=more),
        (
            Sentence("from {begin} to {end}", begin=written(span.from_ms), end=written(span.to_ms))
            for span in spans[-5:]
        ),
    )
    return Sentence("nothing is kept of that time; kept {spans}", spans=kept)


def _snapshot(archive: HistoryReader, time: int) -> SnapshotView:
    world = archive.world(time)
    view = SnapshotView(world, Letters(world.letters))
    # The long part of the work, here where it keeps nobody waiting.
    view.wall_model.refresh()
    return view
