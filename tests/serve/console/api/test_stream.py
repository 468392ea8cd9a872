"""Live changes: what is told adds up to what is, nobody holds the others up, and nobody is told too much."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from numaware.serve.console.api import stream
from numaware.serve.console.api.routes import Console
from numaware.serve.console.api.stream import TooManyReadersError
from numaware.serve.console.views.pod_shape import Shape
from support.console_world import console

SHAPE = Shape("10", "120Gi", 0)
REPORTED_AT, RANK = 11, 12


def decoded(data: bytes) -> tuple[str, Any]:
    name, body = data.decode().strip().split("\n")
    return name.removeprefix("event: "), msgspec.json.decode(body.removeprefix("data: "))


def told_by_change(found: dict[str, Any]) -> dict[str, Any]:
    return {name: [*tile[:5], *tile[6:RANK]] for name, tile in found.items()}


def tiles(found: Console) -> dict[str, Any]:
    wall = msgspec.json.decode(msgspec.json.encode(found.wall_model.tiles(SHAPE)))
    return {tile[0]: tile for tile in wall}


def test_changes_added_to_the_first_wall_give_the_last_one() -> None:
    async def follow() -> None:
        found = console()
        known = tiles(found)
        found.stream.publish()
        events = found.stream.subscribe(SHAPE)
        assert decoded(await anext(events))[0] == "hello"
        for _ in range(20):
            found.world.advance(found.world.now + 7_000)
            # Others look in between, which must not swallow anything.
            found.wall_model.refresh()
            found.recorder.record()
            before = found.world.cluster.serial
            found.stream.publish()
            name, news = decoded(await anext(events))
            assert (name, news["serial"]) == ("changed", before)
            known |= {tile[0]: tile for tile in news["tiles"]}
            for node, at in news["reports"].items():
                known[node][REPORTED_AT] = at
        # Refusals leave the hour that is counted without a word, and with them the rank; everything else must agree.
        assert told_by_change(known) == told_by_change(tiles(found))

    asyncio.run(follow())


def test_nothing_is_told_when_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BEAT_SECONDS", 0.1)

    async def follow() -> None:
        found = console(nodes=2)
        found.stream.publish()
        events = found.stream.subscribe(SHAPE)
        await anext(events)
        found.stream.publish()
        assert decoded(await anext(events))[0] == "beat"

    asyncio.run(follow())


def test_a_slow_reader_is_told_to_start_again_and_holds_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BEAT_SECONDS", 0.1)

    async def follow() -> None:
        found = console()
        events = found.stream.subscribe(SHAPE)
        await anext(events)
        for _ in range(100):
            found.world.advance(found.world.now + 10_000)
            found.stream.publish()
        names = []
        async for event in events:
            names.append(decoded(event)[0])
            # All that was held has been told.
            if names[-1] == "beat":
                break
        assert names[0] == "lost"
        assert len(names) <= 34

    asyncio.run(follow())


def test_too_many_readers_are_turned_away_and_those_who_leave_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "_MOST_READERS", 2)

    async def follow() -> None:
        found = console(nodes=2)
        first, second = (found.stream.subscribe(SHAPE) for _ in range(2))
        await anext(first)
        await anext(second)
        with pytest.raises(TooManyReadersError):
            found.stream.subscribe(SHAPE)
        await first.aclose()
        third = found.stream.subscribe(SHAPE)
        with pytest.raises(TooManyReadersError):
            found.stream.subscribe(SHAPE)
        # One who leaves before the first event has nothing to put in order.
        del third
        found.stream.subscribe(SHAPE)

    asyncio.run(follow())


def test_readers_are_let_go_at_the_end() -> None:
    async def follow() -> None:
        found = console(nodes=2)
        events = found.stream.subscribe(SHAPE)
        await anext(events)
        found.stream.close()
        with pytest.raises(StopAsyncIteration):
            await anext(events)

    asyncio.run(follow())
