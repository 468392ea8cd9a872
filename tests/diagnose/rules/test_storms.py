from __future__ import annotations

from numaware.diagnose.rules import storms
from numaware.diagnose.rules.storms import LEAST, WINDOW, Storm, StormDetector

REASON = "TopologyAffinityError"


def fed(*refusals: tuple[int, str, str]) -> tuple[StormDetector, list[Storm | None]]:
    """A detector that has heard of refusals: (second, owner, node)."""
    detector = StormDetector()
    return detector, [detector.refused(owner, node, REASON, 1000 * at) for at, owner, node in refusals]


def test_three_refusals_within_ten_seconds_are_a_storm_and_told_once() -> None:
    assert (LEAST, WINDOW) == (3, 10_000)
    detector, told = fed((0, "a", "n1"), (9, "a", "n0"), (10, "a", "n0"), (11, "a", "n0"))
    assert told == [None, None, Storm("a", ("n0", "n1"), 3, 0, 10_000, REASON), None]
    assert detector.storms(0) == [Storm("a", ("n0", "n1"), 4, 0, 11_000, REASON)]


def test_slow_refusals_are_no_storm_however_many() -> None:
    detector, told = fed(*((8 * number, "a", "n0") for number in range(9)))
    assert told == [None] * 9
    assert detector.storms(0) == []


def test_owners_are_told_apart_and_nodes_are_not() -> None:
    _, told = fed((0, "a", "n0"), (1, "b", "n0"), (2, "a", "n1"), (3, "b", "n0"), (4, "a", "n2"))
    assert [storm.owner if storm else None for storm in told] == [None, None, None, None, "a"]


def test_a_storm_that_calmed_down_is_over_and_a_new_one_counts_anew() -> None:
    detector, told = fed(*((at, "a", "n0") for at in (0, 1, 2, 3, 50, 51, 52)))
    assert [storm.since if storm else None for storm in told] == [None, None, 0, None, None, None, 50_000]
    assert [(storm.count, storm.since) for storm in detector.storms(0)] == [(4, 0), (3, 50_000)]
    assert [storm.since for storm in detector.storms(3000)] == [0, 50_000]
    assert [storm.since for storm in detector.storms(3001)] == [50_000]


def test_the_reason_is_the_most_frequent_one() -> None:
    detector = StormDetector()
    for at, reason in enumerate(("b", "a", "b")):
        detector.refused("x", "n0", reason, at)
    assert [storm.reason for storm in detector.storms(0)] == ["b"]


def test_the_text_counts_other_nodes_and_names_no_fix_where_there_is_none() -> None:
    storm = Storm("Job default/x", ("n0", "n1", "n2"), 5, 10_000, 14_000, REASON)
    assert storm.text == f"5 pods of Job default/x refused by n0 and 2 other nodes within 4 s: {REASON}"


def test_memory_is_bounded() -> None:
    most = storms.MOST_OWNERS
    refusals = [(0, f"o{number}", "n0") for number in range(most + 5)]
    detector, _ = fed(*refusals, (1, "o0", "n0"), (2, "o0", "n0"))
    assert detector.storms(0) == [], "the first refusal of o0 is forgotten"
    assert len(detector._series) == most
