"""Live changes as server-sent events: what changed since the last look, for as many readers as there are.

Readers ask for one shape of pod; the tiles of a change are made once per shape, however many ask for it. A reader that
does not keep up loses its queue and is told to load everything anew, so that no slow client holds memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from weakref import WeakSet

import msgspec

from numaware.serve.console.views.pod_shape import Shape
from numaware.serve.console.views.wall_model import STALE_AFTER, Tile, WallModel
from numaware.serve.console.world import Event, news

_MOST_READERS = 256
_MOST_QUEUED = 32
_BEAT_SECONDS = 10
_LOOK_EVERY = 5000


class Changed(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes that are different now, those that are gone, and what happened meanwhile.

    `reports` has the `reportedAt` of every other node that was heard of anew, by name.
    """

    serial: int
    time: int
    tiles: tuple[Tile, ...]
    gone: tuple[str, ...]
    events: tuple[Event, ...]
    reports: dict[str, int]


class _Reader:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(_MOST_QUEUED)


class TooManyReadersError(Exception):
    """No more streams."""


class Stream:
    """Hands changes to readers; `publish` is called after the world has moved."""

    def __init__(self, wall_model: WallModel) -> None:
        self.wall_model = wall_model
        # Weak, because nobody ends a stream whose reader has left before its first event.
        self._readers: WeakSet[_Reader] = WeakSet()
        self._seen = wall_model.serial
        self._stale: set[str] = set()
        # By name, the `reportedAt` that readers know.
        self._reports: dict[str, int] = {}
        self._looked = 0
        self._last_event = wall_model.world.events[-1].id if wall_model.world.events else 0

    def publish(self) -> None:
        """Tell every reader what is new."""
        world = self.wall_model.world
        changed = set(world.cluster.changed_since(self._seen))
        self._seen = world.cluster.serial
        happened = news(world.events, self._last_event)
        if happened:
            self._last_event = happened[-1].id
        # What is shown of a node changes with its refusals and its age, too.
        became_stale, reports = self._aged()
        changed |= {event.node for event in happened if event.kind == "refused"} | became_stale
        reports = {name: at for name, at in reports.items() if name not in changed}
        names = sorted(changed)
        if not (names or happened or reports) or not self._readers:
            return
        gone = tuple(name for name in names if name not in world.cluster.by_name)
        made: dict[Shape, bytes] = {}
        for reader in list(self._readers):
            data = made.get(reader.shape)
            if data is None:
                changes = Changed(
                    self.wall_model.serial,
                    world.now,
                    self.wall_model.tiles(reader.shape, names),
                    gone,
                    tuple(happened),
                    reports,
                )
                data = made[reader.shape] = encoded("changed", changes)
            self._hand(reader, data)

    def _aged(self) -> tuple[set[str], dict[str, int]]:
        """Nodes that have become stale, or are no longer, and those that were heard of since the last look.

        How old all of them are takes a while to find out.
        """
        world, now = self.wall_model.world, self.wall_model.world.now
        if now - self._looked < _LOOK_EVERY:
            return set(), {}
        self._looked = now
        moments = {member.name: world.reported(member.name)[1] for member in world.cluster}
        stale = {name for name, at in moments.items() if at < now - STALE_AFTER}
        reports = {name: at if at < now else 0 for name, at in moments.items()}
        heard = {name: at for name, at in reports.items() if self._reports.get(name) != at}
        before, self._stale, self._reports = self._stale, stale, reports
        return stale ^ before, heard

    def _hand(self, reader: _Reader, data: bytes) -> None:
        try:
            reader.queue.put_nowait(data)
        except asyncio.QueueFull:
            while not reader.queue.empty():
                reader.queue.get_nowait()
            reader.queue.put_nowait(encoded("lost", {"serial": self.wall_model.serial}))

    def close(self) -> None:
        """Let all readers go, so that the server need not wait for them."""
        for reader in list(self._readers):
            while reader.queue.full():
                reader.queue.get_nowait()
            reader.queue.put_nowait(b"")

    def subscribe(self, shape: Shape) -> AsyncGenerator[bytes, None]:
        """The events from now on; the first tells where the reader stands."""
        if len(self._readers) >= _MOST_READERS:
            raise TooManyReadersError
        reader = _Reader(shape)
        self._readers.add(reader)
        return self._read(reader)

    async def _read(self, reader: _Reader) -> AsyncGenerator[bytes, None]:
        try:
            yield encoded("hello", {"serial": self.wall_model.serial, "time": self.wall_model.world.now})
            while True:
                try:
                    data = await asyncio.wait_for(reader.queue.get(), _BEAT_SECONDS)
                    if not data:
                        return
                    yield data
                except TimeoutError:
                    yield encoded(
                        "beat", {"serial": self.wall_model.serial, "time": self.wall_model.world.now}
                    )
        finally:
            self._readers.discard(reader)


def encoded(name: str, value: object) -> bytes:
    """One event on the wire."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value, enc_hook=str) + b"\n\n"
