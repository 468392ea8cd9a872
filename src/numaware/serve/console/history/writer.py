"""Writes down what is, beside the console's own work.

The console looks (`HistoryWriter.look`) and hands over references to values that never change; what of it is new is found out,
encoded and written on a thread of its own. Where that thread does not keep up, a look is left out, and the next one
tells of everything since. When the file cannot be written the console goes on, says so, and tries again later.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from numaware.errors import InputError
from numaware.schedule.cluster import Cluster, Load
from numaware.schedule.node_facts import NodeFacts
from numaware.sentence import Sentence, sentence_of
from numaware.serve.console.history.file import HOUR, RENEWED_EVERY, HistoryFile, Row, TakenAwayError
from numaware.serve.console.history.reader import MOST_EVENTS, NO_NODE, HistoryReader
from numaware.serve.console.history.snapshot import (
    ClusterMoment,
    Heard,
    NodeMoment,
    Packer,
    packed_event,
)
from numaware.serve.console.views.node import Letters
from numaware.serve.console.views.recorder import LONGEST_BLINK, Point, Recorder
from numaware.serve.console.views.wall_model import STALE_AFTER, WallModel
from numaware.serve.console.world import Event, Source, Story, news

EVERY = 2_000
_MOST_LOOKS = 4
_AGES_AT_ONCE = 1000
# The lab lives through an hour that is over when it starts; whoever is further back has another clock.
_FUTURE = 2 * HOUR
QUIET_FOR = 10_000
_FORGET_EVERY = 10 * 60_000
_FULL_PERMILLE = 900
_TRY_AGAIN_AFTER = 60_000

_log = structlog.get_logger()


class _Seen(NamedTuple):
    """A node as it was looked at."""

    facts: NodeFacts
    load: Load
    letters: Mapping[str, int]


class _Look(NamedTuple):
    """The world at a moment: nodes that changed since the last look (None: gone), and the rest as it is."""

    time: int
    name: str
    kind: str
    nodes: Mapping[str, _Seen | None]
    heard: Mapping[str, tuple[Source, int]]
    stories: Mapping[str, Story]
    rest: ClusterMoment
    events: tuple[Event, ...]
    points: tuple[Point, ...]


class HistoryWriter:
    """Keeps the history of what the wall model counts. `look` and the rest of the console share one thread."""

    def __init__(self, path: Path, make: Callable[[Path], HistoryFile]) -> None:
        """`InputError` for a file that is not ours; one that cannot be written is told of as a `problem`."""
        self.path = path
        self.problem = Sentence()
        self.archive: HistoryReader | None = None
        self._make = make
        self._file: HistoryFile | None = None
        self._writer = _Writer()
        self._looks: queue.Queue[_Look | None] = queue.Queue(_MOST_LOOKS)
        # As far as has been handed over.
        self._serial = -1
        self._looked = 0
        self._last_event = 0
        self._last_point = 0
        self._asked = 0
        self._again_at = 0
        self._forgot = 0
        try:
            self._open()
        except (OSError, sqlite3.Error) as error:
            self._fail(error)
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)
        self._thread.start()

    def _open(self) -> HistoryFile:
        if self._file is None:
            self._file = self._make(self.path)
            self.archive = self.archive or HistoryReader(self.path)
        return self._file

    # On the console's thread

    def look(
        self, wall_model: WallModel, letters: Letters, recorder: Recorder, *, wait: bool = False
    ) -> None:
        """Take note of the world if it is time to; `wait` for the thread rather than leave this look out."""
        world = wall_model.world
        now = world.now
        if now - self._looked < EVERY or (self._looks.full() and not wait):
            return
        serial = world.cluster.serial
        nodes: dict[str, _Seen | None] = {}
        for name in world.cluster.changed_since(self._serial):
            member = world.cluster.by_name.get(name)
            nodes[name] = None if member is None else _Seen(member.facts, member.load, letters.of(member))
        known = world.cluster.by_name
        events = news(world.events, self._last_event)
        points = [point for point in list(recorder.samples)[-8:] if point.time > self._last_point]
        self._looks.put(
            _Look(
                now,
                world.name,
                world.kind,
                nodes,
                {
                    name: world.reported(name)
                    for name in self._in_turn(world.cluster) | nodes.keys()
                    if name in known
                },
                dict(world.stories),
                ClusterMoment(dict(world.waiting), tuple(world.switches), tuple(world.changes)),
                tuple(events),
                tuple(points),
            )
        )
        self._serial, self._looked = serial, now
        if events:
            self._last_event = events[-1].id
        if points:
            self._last_point = points[-1].time

    def _in_turn(self, cluster: Cluster) -> set[str]:
        """Whose age is asked for this time: everybody's, as long as that takes no time worth mentioning."""
        begin = self._asked if self._asked < len(cluster) else 0
        self._asked = begin + _AGES_AT_ONCE
        return {member.name for member in cluster.members[begin : self._asked]}

    def close(self) -> None:
        """Write what has been handed over, and let go of the file."""
        self._looks.put(None)
        self._thread.join()
        if self.archive is not None:
            self.archive.close()
        if self._file is not None:
            self._file.close()

    # On the thread that writes

    def _work(self) -> None:
        while (look := self._looks.get()) is not None:
            self._try(look)
            self._looks.task_done()

    def _try(self, look: _Look) -> None:
        now = look.time
        try:
            self._writer.take(look)
            if now < self._again_at:
                return
            file = self._open()
            file.check_in_place()
            self._write(file, now)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a record, the console goes on
            self._fail(error)
            self._again_at = now + _TRY_AGAIN_AFTER
            if isinstance(error, TakenAwayError) and self.archive is not None:
                # A new one can be begun with the next look.
                self._again_at = now
                self.archive.close()
                self.archive = None
            self._writer.begin_again()
            if self._file is not None:
                self._file.close()
                self._file = None
        else:
            if self.problem:
                _log.info("recording again", file=str(self.path))
                self.problem = Sentence()

    def _write(self, file: HistoryFile, now: int) -> None:
        if now - self._forgot >= _FORGET_EVERY or file.used_permille() >= _FULL_PERMILLE:
            file.forget(now)
            self._writer.renew(now)
            self._forgot = now
        self._writer.write(file)

    def _fail(self, error: Exception) -> None:
        said = error.sentence if isinstance(error, InputError) else sentence_of(error)
        if not isinstance(said, Sentence):
            # What an operating system or a database says is a sentence without facts: the common ones are told in Chinese.
            text = (error.strerror if isinstance(error, OSError) else None) or said
            said = Sentence(text.replace("{", "{{").replace("}", "}}"))
        if not self.problem:
            _log.warning("not recording", file=str(self.path), problem=str(said))
        self.problem = said


class _Writer:
    """What is known of the world and what has been written of it; the difference is what is to be written."""

    def __init__(self) -> None:
        self._look: _Look | None = None
        self._nodes: dict[str, _Seen] = {}
        self._stories: Mapping[str, Story] = {}
        self._where: dict[str, str] = {}
        self._dirty: set[str] = set()
        # Not written yet, and all that a run has to begin with.
        self._events: list[Event] = []
        self._recent: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._points: list[Point] = []
        self._heard: dict[str, Heard] = {}
        self._rows: dict[str, Row] = {}
        self._rest: ClusterMoment | None = None
        self._in_run = False
        self._last_event = 0
        self._committed = 0

    def take(self, look: _Look) -> None:
        """Learn what a look tells; whether it can be written is another matter."""
        if self._look is not None and look.time - self._look.time > LONGEST_BLINK:
            # Nobody looked (a laptop slept): of that time nothing is known, and nothing shall be shown.
            self.begin_again()
        for name, seen in look.nodes.items():
            before = self._nodes.pop(name, None)
            for uid in before.load.node.state.pods if before else ():
                if self._where.get(uid) == name:
                    del self._where[uid]
            if seen is not None:
                self._nodes[name] = seen
                self._where.update(dict.fromkeys(seen.load.node.state.pods, name))
        self._dirty.update(look.nodes)
        for uid, story in look.stories.items():
            if self._stories.get(uid) is not story and uid in self._where:
                self._dirty.add(self._where[uid])
        self._stories = look.stories
        for name, (source, at) in look.heard.items():
            heard = self._heard.get(name)
            age = max(0, look.time - at)
            lately = age <= STALE_AFTER
            if (
                heard is None
                or (heard.source, heard.lately) != (source, lately)
                or (not lately and heard.at != at)
            ):
                self._heard[name] = Heard(source, at, age, lately)
                self._dirty.add(name)
        self._events += look.events
        self._recent += look.events
        self._points += look.points
        self._look = look

    def begin_again(self) -> None:
        """Nothing of what was written counts: the next time everything is written in a run of its own."""
        self._in_run = False
        self._rows.clear()
        self._rest = None
        self._dirty = set(self._nodes)
        self._events = list(self._recent)
        # Whoever draws a chart sees where nothing was written.
        self._points.clear()

    def renew(self, now: int) -> None:
        """Have written again what has not changed for so long that its row would be forgotten."""
        self._dirty |= {
            name for name, row in self._rows.items() if now - row.base >= RENEWED_EVERY
        } & self._nodes.keys()
        rest = self._rows.get(NO_NODE)
        if rest is not None and now - rest.base >= RENEWED_EVERY:
            self._rest = None

    def write(self, file: HistoryFile) -> None:
        """Write down all that is new, if it is time to."""
        look = self._look
        if look is None:
            return
        time = look.time
        if not self._in_run:
            last = file.last_time()
            if time <= last - _FUTURE:
                raise ValueError(Sentence("what is kept in it is of a later time than now"))
            if time <= last:
                # Somebody wrote of this time before; what is kept does not change.
                self._points.clear()
                return
            file.begin_run(look.name, look.kind, time)
            self._in_run = True
        packer = Packer(partial(file.number_of, time=time))
        changed = self._write_nodes(file, packer, time)
        if self._rest is None or self._rest != look.rest:
            changed |= self._put(file, NO_NODE, time, packer.cluster(look.rest))
            self._rest = look.rest
        if not (changed or self._events or self._points) and time - self._committed < QUIET_FOR:
            return
        for event in self._events:
            file.add_event(event.id, event.time, packed_event(event))
            self._last_event = event.id
        for point in self._points:
            file.add_point(point.time, (point.pods, point.waiting, point.aligned_permille, point.refusals))
        if changed or self._events:
            file.add_look(time, self._last_event)
        file.commit(time)
        self._committed = time
        self._dirty.clear()
        self._events.clear()
        self._points.clear()

    def _write_nodes(self, file: HistoryFile, packer: Packer, time: int) -> bool:
        changed = False
        for name in sorted(self._dirty):
            seen = self._nodes.get(name)
            if seen is None:
                self._heard.pop(name, None)
                if self._rows.pop(name, None) is not None:
                    file.put_gone(name, time)
                    changed = True
                continue
            stories = {
                uid: story
                for uid in seen.load.node.state.pods
                if (story := self._stories.get(uid)) is not None
            }
            raw = packer.node(NodeMoment(seen.facts, seen.load, seen.letters, stories, self._heard[name]))
            changed |= self._put(file, name, time, raw)
        return changed

    def _put(self, file: HistoryFile, name: str, time: int, raw: bytes) -> bool:
        """Write a row if need be; whether it tells of anything new."""
        before = self._rows.get(name)
        row = self._rows[name] = file.put(name, time, raw, before)
        return before is None or row.digest != before.digest
