"""Switches and sentences as a history keeps them."""

from __future__ import annotations

import msgspec
import pytest

from numaware.diagnose.texts import say
from numaware.sentence import Sentence, quoted
from numaware.serve.console.history.snapshot import (
    ClusterMoment,
    Packer,
    Unpacker,
    event_of,
    packed_event,
)
from numaware.serve.console.world import AFFINITY, Change, Event, Switch

REASON = Sentence(
    "the scheduler did not come up ({problem}); {undone}",
    problem="{x}",
    undone=Sentence("it was put back as it was"),
)
CHANGE = Change(7, AFFINITY, "close", "open", "me", REASON)


def nothing(*_: object) -> bytes:
    raise AssertionError


def test_what_was_said_of_a_switch_is_told_in_either_language_later() -> None:
    moment = ClusterMoment({}, (Switch(AFFINITY, "close", broken=REASON),), (CHANGE,))
    stored = Packer(lambda _: 0).cluster(moment)
    read = Unpacker(nothing).cluster(stored)
    assert read == moment
    assert say(read.changes[0].problem, "zh") == "调度器没有启动（{x}）；已恢复原状"
    event = Event(1, 7, "switched", change=CHANGE)
    assert event_of(1, 7, packed_event(event)) == event


def test_older_files_kept_only_the_english() -> None:
    stored = [[], [{"id": AFFINITY, "status": "close", "broken": "{is} empty", "missing": ""}], []]
    read = Unpacker(nothing).cluster(msgspec.json.encode(stored))
    assert read.switches == (Switch(AFFINITY, "close", broken=quoted("{is} empty")),)
    assert str(read.switches[0].broken) == "{is} empty"
    assert not read.switches[0].missing


@pytest.mark.parametrize("broken", [7, [], ["a"], ["{a}", {}], ["{", {}], ["{a.b}", {"a": 1}], [1, 2]])
def test_what_somebody_has_changed_by_hand_is_no_moment(broken: object) -> None:
    stored = [[], [{"id": AFFINITY, "status": "close", "broken": broken}], []]
    with pytest.raises(msgspec.ValidationError):
        Unpacker(nothing).cluster(msgspec.json.encode(stored))
