"""Runtime pod affinity in the lab: moves are made while the switch is open, measured, not repeated, and taken back."""

from __future__ import annotations

import asyncio

from numaware.serve.console.lab.world import HOUR, LabWorld
from numaware.serve.console.world import RUNTIME, Status

SECOND = 1000


def lab() -> LabWorld:
    world = LabWorld(0)
    world.advance(HOUR)
    return world


def across(world: LabWorld) -> int:
    return sum(report.across for report in world.traffic())


def put(world: LabWorld, status: Status) -> None:
    asyncio.run(world.set_switch(RUNTIME, status, "test"))


def test_nobody_is_moved_while_it_is_closed() -> None:
    world = lab()
    before = across(world)
    assert not any(report.moves for report in world.traffic())
    assert any(pod.answer == "move" for report in world.traffic() for pod in report.pods)
    assert across(world) == before


def test_open_pods_are_moved_at_once_and_less_crosses() -> None:
    world = lab()
    before = across(world)
    planned = sum(report.planned for report in world.traffic())
    put(world, "open")
    world.advance(world.now)
    assert across(world) == planned < before
    assert all(report.moving for report in world.traffic())


def test_what_was_moved_is_measured_at_the_next_look_and_stays_where_it_is() -> None:
    world = lab()
    put(world, "open")
    world.advance(world.now)
    world.advance(world.now + 10 * SECOND)
    first = [move for report in world.traffic() for move in report.moves if move.at * SECOND == HOUR]
    assert first
    assert all(move.measured is not None for move in first)
    again = [move.uid for report in world.traffic() for move in report.moves]
    assert len(again) == len(set(again))


def test_closed_again_everybody_floats_as_before_and_history_tells_who_did_it() -> None:
    world = lab()
    before = across(world)
    put(world, "open")
    world.advance(world.now)
    put(world, "close")
    assert across(world) == before
    assert [(one.switch, one.after, one.by) for one in world.changes[-2:]] == [
        (RUNTIME, "open", "test"),
        (RUNTIME, "close", "test"),
    ]
