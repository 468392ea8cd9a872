from __future__ import annotations

import json
from typing import Any

import pytest

from numaware.twin.agreement import Difference, differences
from numaware.twin.recording import Result


def result(start: dict[str, Any] | None = None, *events: dict[str, Any], **more: Any) -> Result:
    return Result(start or {}, events, **more)


def twin(start: dict[str, Any] | None = None, *events: dict[str, Any]) -> dict[str, Any]:
    return {"start": start or {}, "events": list(events)}


def paths(recorded: Result, answer: dict[str, Any]) -> list[str]:
    return [difference.path for difference in differences(recorded, answer)]


def test_what_is_equal_does_not_differ() -> None:
    assert differences(result({"a": [1, {"b": None}]}), twin({"a": [1, {"b": None}]})) == []


def test_a_difference_names_its_place_and_both_sides() -> None:
    found = differences(result({}, {"a": {"x/y": [1, 2]}}), twin({}, {"a": {"x/y": [1, 3]}}))
    assert found == [Difference("/events/0/a/x~1y/1", 2, 3)]


def test_lists_of_other_length_differ_as_a_whole() -> None:
    assert paths(result({"a": [1]}), twin({"a": [1, 2]})) == ["/start/a"]


def test_what_the_twin_adds_differs_unless_it_says_nothing() -> None:
    assert paths(result(), twin({"a": None, "b": "", "c": [], "d": 1})) == ["/start/d"]


def test_what_was_not_always_recorded_may_be_added() -> None:
    assert paths(result(), twin({"allocatableCPUs": "1-3"})) == []


@pytest.mark.parametrize("path", ["/events/0/a", "/events/0", "/events"])
def test_what_is_left_to_chance_covers_everything_below(path: str) -> None:
    assert paths(result({}, {"a": {"b": 1}}, unstable=(path,)), twin({}, {"a": {"b": 2}})) == []
    assert paths(result({"a": 1}, unstable=(path,)), twin({"a": 2})) == ["/start/a"]


def test_only_comparable_events_count() -> None:
    recorded = result({}, {"a": 1}, {"a": 1}, compare_events=1)
    assert paths(recorded, twin({}, {"a": 1}, {"a": 2})) == []
    assert paths(recorded, twin({}, {"a": 2}, {"a": 2})) == ["/events/0/a"]


def test_a_twin_that_ended_early_disagrees() -> None:
    assert paths(result({}, {"a": 1}, {"a": 1}), twin({}, {"a": 1})) == ["/events/1"]


def files(name: str, content: object) -> dict[str, Any]:
    return {"checkpoints": {name: content if isinstance(content, str) else json.dumps(content)}}


@pytest.mark.parametrize("name", ["memory_manager_state", "kubelet_internal_checkpoint"])
def test_files_in_random_order_are_compared_by_content_without_checksum(name: str) -> None:
    one = files(name, {"x": [{"a": 1}, {"b": 2}], "checksum": 1, "Checksum": 2})
    other = files(name, {"x": [{"b": 2}, {"a": 1}], "checksum": 3, "Checksum": 4})
    assert paths(result({}, one), twin({}, other)) == []
    assert paths(result({}, one), twin({}, files(name, {"x": [{"b": 2}]}))) == [
        f"/events/0/checkpoints/{name}"
    ]


def test_the_cpu_file_is_compared_by_its_bytes() -> None:
    one, other = files("cpu_manager_state", {"checksum": 1}), files("cpu_manager_state", {"checksum": 2})
    assert paths(result({}, one), twin({}, other)) == ["/events/0/checkpoints/cpu_manager_state"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 50_000])
def test_a_file_that_is_none_is_a_difference_and_no_accident(text: str) -> None:
    one = files("memory_manager_state", text)
    assert paths(result({}, one), twin({}, files("memory_manager_state", {}))) == [
        "/events/0/checkpoints/memory_manager_state"
    ]
