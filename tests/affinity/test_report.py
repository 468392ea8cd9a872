"""What others are told of a node: those who talk, and sums that are of everybody."""

from __future__ import annotations

from itertools import pairwise

from numaware.affinity.plan import Member, Zone, plan
from numaware.affinity.report import MOST_EDGES, MOST_PODS, About, Move, report
from numaware.machine.cpuset import CpuSet

MB = 1_000_000
ZONES = [
    Zone(0, CpuSet(range(16)), 64 << 30, {0: 10, 1: 20}),
    Zone(1, CpuSet(range(16, 32)), 64 << 30, {0: 20, 1: 10}),
]
ABOUT = About("n1", "observe", moving=False, at=1000)


def pod(name: str, *zones: int, pinned: bool = False) -> Member:
    return Member(name, "default", name, 1000, zones=zones, barred="pinned" if pinned else None)


def test_everybody_who_talks_is_there_with_an_answer_and_those_who_are_silent_are_counted() -> None:
    members = [pod("a", 0, pinned=True), pod("b"), pod("c")]
    talk = {("a", "b"): 40 * MB}
    told = report(ABOUT, ZONES, members, plan(ZONES, members, talk))
    assert [(one.name, one.answer, one.target, one.group) for one in told.pods] == [
        ("b", "move", 0, 0),
        ("a", "pinned", None, 0),
    ]
    (edge,) = told.edges
    assert (edge.rate, edge.across, edge.planned) == (40 * MB, 20 * MB, 0)
    assert (told.total, told.across, told.planned) == (40 * MB, 20 * MB, 0)
    assert (told.talking, told.silent) == (2, 1)


def test_between_numa_nodes_all_that_is_said_is_counted_once() -> None:
    members = [pod("a", 0), pod("b", 1), pod("c", 0), pod("d")]
    talk = {("a", "b"): 8 * MB, ("a", "c"): 4 * MB, ("c", "d"): 2 * MB}
    told = report(ABOUT, ZONES, members, plan(ZONES, members, talk))
    assert told.between == ((5 * MB, 9 * MB), (9 * MB, 0))
    assert told.across == 9 * MB


def test_a_pinned_pod_whose_numa_node_has_no_shared_cpu_left_is_still_there() -> None:
    full = [*ZONES, Zone(2, CpuSet(), 64 << 30, {})]
    members = [pod("a", 2, pinned=True), pod("b", 2, pinned=True), pod("c", 0)]
    talk = {("a", "b"): 8 * MB, ("a", "c"): 4 * MB}
    told = report(ABOUT, full, members, plan(full, members, talk))
    assert told.across == 4 * MB
    assert [one.answer for one in told.pods] == ["pinned", "pinned", "no-gain"]


def test_a_report_of_a_crowd_stays_small_and_its_sums_are_of_all() -> None:
    names = [f"p{number:04}" for number in range(600)]
    talk = dict.fromkeys(pairwise(names), MB)
    members = [pod(name) for name in names]
    planned = plan(ZONES, members, talk)
    told = report(ABOUT, ZONES, members, planned)
    assert len(told.pods) == MOST_PODS
    assert len(told.edges) <= MOST_EDGES
    assert (told.total, told.talking) == (599 * MB, 600)
    assert all(edge.one < MOST_PODS and edge.other < MOST_PODS for edge in told.edges)


def test_the_latest_moves_are_told() -> None:
    moves = tuple(Move(f"u{number}", "default", "p", number, 0, 1) for number in range(80))
    about = About("n1", "nri", moving=True, at=1000, moves=moves)
    assert report(about, ZONES, [], plan(ZONES, [], {})).moves == moves[-50:]
