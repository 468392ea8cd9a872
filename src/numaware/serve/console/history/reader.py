"""A moment that is over, as a world like any other: read from the file that a `HistoryWriter` writes."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, cast
from urllib.parse import quote

import msgspec

from numaware.affinity.report import NodeReport
from numaware.schedule.cluster import Cluster, Member
from numaware.sentence import Sentence
from numaware.serve.console.history.file import inflate, size_of
from numaware.serve.console.history.snapshot import ClusterMoment, NodeMoment, Unpacker, event_of
from numaware.serve.console.orders import NoOrders
from numaware.serve.console.views.recorder import Point
from numaware.serve.console.views.strips import Strip, strips_of
from numaware.serve.console.world import Event, Source, Status, Story, Switch, SwitchError, Waiting

# What is on no node is written down like a node without a name.
NO_NODE = ""
MOST_EVENTS = 20_000


_AROUND = (
    "SELECT max(time) FROM look WHERE time < ?1 AND time >= ?2 AND ?3 = ''",
    "SELECT min(time) FROM look WHERE time > ?1 AND time >= ?2 AND ?3 = ''",
)
_AROUND_NODE = (
    "SELECT max(time) FROM state WHERE node = (SELECT id FROM node WHERE name = ?3) AND time < ?1 AND time >= ?2",
    "SELECT min(time) FROM state WHERE node = (SELECT id FROM node WHERE name = ?3) AND time > ?1 AND time >= ?2",
)


class Span(msgspec.Struct, frozen=True, rename="camel"):
    """A stretch of time without a break, in milliseconds since 1970."""

    from_ms: int
    to_ms: int


class NotKeptError(Exception):
    """Nothing is kept of a moment."""


class PastWorld:
    """The world as it was written down last before `now`."""

    def __init__(
        self,
        name: str,
        kind: Literal["lab", "cluster"],
        now: int,
        nodes: Sequence[NodeMoment],
        rest: ClusterMoment,
        events: Sequence[Event],
    ) -> None:
        self.name = name
        self.kind = kind
        self.now = now
        self.cluster = Cluster((node.facts, node.load.node) for node in nodes)
        self.events = events
        self.stories: dict[str, Story] = {}
        self.waiting: dict[str, Waiting] = dict(rest.waiting)
        self.switches = rest.switches
        self.untold = Sentence()
        self.orders = NoOrders(Sentence())
        self.changes = rest.changes
        self.letters = {node.facts.name: dict(node.letters) for node in nodes}
        self._heard = {node.facts.name: node.heard for node in nodes}
        for node in nodes:
            self.cluster.by_name[node.facts.name].load = node.load
            self.stories.update(node.stories)

    def advance(self, now: int) -> None:
        """Nothing happens any more."""

    def traffic(self) -> tuple[NodeReport, ...]:
        return ()

    def reported(self, node: str) -> tuple[Source, int]:
        heard = self._heard[node]
        return heard.source, self.now - heard.age if heard.lately else heard.at

    def switched_conf(self, switch: str, status: Status) -> str:  # noqa: ARG002 - see `set_switch`
        return next(one.conf for one in self.switches if one.id == switch)

    async def read_switches(self) -> None:
        """They stand as they stood."""

    async def set_switch(self, switch: str, status: Status, by: str) -> Switch:  # noqa: ARG002 - nothing is switched
        raise SwitchError(Sentence("what is over cannot be changed"))


class _Run(NamedTuple):
    id: int
    name: str
    kind: str
    begin: int
    shown: int
    last: int


class HistoryReader:
    """Reads a history, while somebody may be writing it. Everything here takes a while: it is for threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._database = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        self._database.execute("PRAGMA busy_timeout = 2000")
        self._unpacker = Unpacker(self._value)
        # The nodes that were read last; most of them are the same a moment earlier or later.
        self._nodes: dict[tuple[int, int], NodeMoment] = {}

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextlib.contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Everything inside is read as it was at the beginning, whatever is written and taken away meanwhile."""
        with self._lock:
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                self._database.execute("ROLLBACK")

    def spans(self) -> tuple[Span, ...]:
        """The times of which something is kept, oldest first."""
        with self._one_moment():
            return tuple(Span(run.shown, run.last) for run in self._runs())

    def size(self) -> int:
        return size_of(self.path)

    def around(self, time: int, node: str = NO_NODE) -> tuple[int | None, int | None]:
        """The moments before and after at which something changed: anything, or the node of that name."""
        before, after = _AROUND if node == NO_NODE else _AROUND_NODE
        with self._one_moment():
            first = min((run.shown for run in self._runs()), default=0)
            earlier = self._database.execute(before, (time, first, node)).fetchone()[0]
            later = self._database.execute(after, (time, first, node)).fetchone()[0]
        return earlier, later

    def world(self, time: int) -> PastWorld:
        """The world at that time; `NotKeptError` where nothing is kept, `ValueError` for what cannot be read."""
        with self._one_moment():
            run = next((run for run in reversed(self._runs()) if run.shown <= time <= run.last), None)
            look = (
                run
                and self._database.execute(
                    "SELECT event FROM look WHERE run = ? AND time <= ? ORDER BY time DESC LIMIT 1",
                    (run.id, time),
                ).fetchone()
            )
            if run is None or look is None:
                raise NotKeptError
            nodes = self._all(run.begin, time)
            rest = self._row(NO_NODE, run.begin, time)
            events = [
                event_of(*row)
                for row in self._database.execute(
                    "SELECT id, time, data FROM event WHERE run = ? AND id <= ? ORDER BY id DESC LIMIT ?",
                    (run.id, look[0], MOST_EVENTS),
                )
            ]
            kind = cast("Literal['lab', 'cluster']", run.kind)
            rests = self._unpacker.cluster(rest) if rest is not None else ClusterMoment({}, (), ())
            return PastWorld(run.name, kind, time, nodes, rests, events[::-1])

    def _runs(self) -> list[_Run]:
        rows = self._database.execute("SELECT id, name, kind, begin, shown, last FROM run ORDER BY id")
        return [_Run(*row) for row in rows]

    def _all(self, begin: int, moment: int) -> list[NodeMoment]:
        """Every node that was there; those that were read a moment ago are not read again."""
        rows = self._database.execute(
            "SELECT id, name, (SELECT max(time) FROM state WHERE node = id AND time BETWEEN ? AND ?) FROM node",
            (begin, moment),
        ).fetchall()
        nodes: dict[tuple[int, int], NodeMoment] = {}
        for number, name, time in rows:
            if time is None or name == NO_NODE:
                continue
            known = self._nodes.get((number, time))
            if known is None:
                raw = self._raw(number, time)
                if raw is None:
                    continue
                known = self._unpacker.node(raw)
            nodes[number, time] = known
        self._nodes = nodes
        return list(nodes.values())

    def _row(self, name: str, begin: int, moment: int) -> bytes | None:
        row = self._database.execute(
            "SELECT node, max(time) FROM state WHERE node = (SELECT id FROM node WHERE name = ?) "
            "AND time BETWEEN ? AND ?",
            (name, begin, moment),
        ).fetchone()
        return self._raw(row[0], row[1]) if row[1] is not None else None

    def _raw(self, node: int, time: int) -> bytes | None:
        row = self._database.execute(
            "SELECT s.data, b.data FROM state s LEFT JOIN state b ON b.node = s.node AND b.time = s.base "
            "WHERE s.node = ? AND s.time = ?",
            (node, time),
        ).fetchone()
        if row is None:
            raise ValueError("a row is missing")
        data, base = row
        if data is None:
            return None
        return inflate(data, inflate(base) if base is not None else None)

    def _value(self, number: int) -> bytes:
        row = self._database.execute("SELECT data FROM value WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise ValueError("a part is missing")
        return inflate(row[0])

    # Series

    def points(self, begin: int, end: int) -> list[Point]:
        """The cluster as a whole in that time."""
        with self._one_moment():
            rows = self._database.execute(
                "SELECT time, pods, waiting, aligned, refusals FROM point WHERE time BETWEEN ? AND ? ORDER BY time",
                (begin, end),
            )
            return [Point(*row) for row in rows]

    def refusals(self, begin: int, step: int) -> dict[int, int]:
        """How many there were in each step from `begin` on, its end included; nothing of steps in which nobody looked."""
        with self._one_moment():
            counted = "SELECT (time - ?1 - 1) / ?2, sum(refusals) FROM point WHERE time >= ?1 GROUP BY 1"
            return dict(self._database.execute(counted, (begin, step)).fetchall())

    def strips(self, name: str, times: Sequence[int]) -> list[tuple[Strip, ...] | None]:
        """One node at these times, ascending; None where nothing is kept of it."""
        if not times:
            return []
        with self._one_moment():
            runs = self._runs()
            row = self._database.execute("SELECT id FROM node WHERE name = ?", (name,)).fetchone()
            if row is None:
                return [None] * len(times)
            node = int(row[0])
            rows = [
                row[0]
                for row in self._database.execute(
                    "SELECT time FROM state WHERE node = ?1 AND time <= ?3 AND time >= "
                    "coalesce((SELECT max(time) FROM state WHERE node = ?1 AND time <= ?2), 0) ORDER BY time",
                    (node, times[0], times[-1]),
                )
            ]
            known: dict[int, tuple[Strip, ...] | None] = {}
            strips: list[tuple[Strip, ...] | None] = []
            for time in times:
                run = next((run for run in runs if run.shown <= time <= run.last), None)
                place = bisect_right(rows, time)
                if run is None or not place or rows[place - 1] < run.begin:
                    strips.append(None)
                    continue
                row = rows[place - 1]
                if row not in known:
                    known[row] = self._strips(node, row)
                strips.append(known[row])
            return strips

    def _strips(self, node: int, time: int) -> tuple[Strip, ...] | None:
        raw = self._raw(node, time)
        if raw is None:
            return None
        moment = self._unpacker.node(raw)
        return strips_of(Member(moment.facts, moment.load))
