"""Plans for small nodes, one per rule; the defects of the first program of this kind are each a test."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from numaware.affinity.plan import Code, Member, Plan, Rules, Zone, plan
from numaware.machine.cpuset import CpuSet

MB = 1_000_000
GIB = 1 << 30


def zones(*widths: int, far: int = 21, free: int = 64 * GIB) -> list[Zone]:
    first = 0
    made = []
    for number, width in enumerate(widths):
        distances = {other: 10 if other == number else far for other in range(len(widths))}
        made.append(Zone(number, CpuSet(range(first, first + width)), free, distances))
        first += width
    return made


def pod(name: str, cpu: int = 1000, **more: object) -> Member:
    return msgspec.structs.replace(Member(f"uid-{name}", "default", name, cpu), **more)


def talk(*pairs: tuple[str, str, int]) -> dict[tuple[str, str], int]:
    return {(f"uid-{min(a, b)}", f"uid-{max(a, b)}"): rate for a, b, rate in pairs}


def codes(planned: Plan) -> dict[str, Code]:
    return {answer.uid.removeprefix("uid-"): answer.code for answer in planned.answers}


def test_two_that_talk_come_together_and_the_saving_is_said() -> None:
    planned = plan(zones(16, 16), [pod("a"), pod("b"), pod("c")], talk(("a", "b", 50 * MB)))
    assert codes(planned) == {"a": "move", "b": "move", "c": "silent"}
    a, b = planned.moves
    assert a.target == b.target
    assert a.cpus == zones(16, 16)[a.target or 0].cpus
    assert a.with_pods == ("uid-b",)
    # Two that float over two equal NUMA nodes are apart half of the time.
    assert (planned.across_before, planned.across_after, a.saving) == (25 * MB, 0, 25 * MB)


def test_a_byte_is_no_reason_to_move() -> None:
    planned = plan(zones(16, 16), [pod("a"), pod("b")], talk(("a", "b", 1)))
    assert codes(planned) == {"a": "no-gain", "b": "no-gain"}


def test_a_chain_of_talk_does_not_put_everybody_into_one_place() -> None:
    names = "abcdef"
    chain = talk(*((one, other, 20 * MB) for one, other in pairwise(names)))
    planned = plan(zones(4, 4), [pod(name) for name in names], chain)
    used = [0, 0]
    for answer in planned.moves:
        used[answer.target or 0] += 1000
    assert max(used) <= 3600
    assert planned.across_after < planned.across_before


def test_nobody_moves_where_there_is_no_room() -> None:
    planned = plan(zones(2, 2), [pod("a", 1700), pod("b", 1700)], talk(("a", "b", 50 * MB)))
    assert not planned.moves
    full = plan(zones(1, 1), [pod("a", 1900), pod("b", 1900)], talk(("a", "b", 50 * MB)))
    assert codes(full) == {"a": "no-room", "b": "no-room"}


def test_memory_in_use_needs_room_as_well() -> None:
    big = {0: 40 * GIB}
    planned = plan(
        zones(16, 16, free=8 * GIB),
        [pod("a", memory=big), pod("b", memory={1: 20 * GIB})],
        talk(("a", "b", 900 * MB)),
    )
    assert all(answer.target == 0 for answer in planned.moves)


def test_a_nearer_numa_node_is_better_where_the_same_one_has_no_room() -> None:
    distances = [[10, 12, 30], [12, 10, 30], [30, 30, 10]]
    places = [
        msgspec.structs.replace(zone, distances=dict(enumerate(row)))
        for zone, row in zip(zones(16, 2, 16), distances, strict=True)
    ]
    fixed = pod("fixed", zones=(1,), barred="pinned")
    planned = plan(places, [fixed, pod("a", 4000, zones=(2,))], talk(("a", "fixed", 50 * MB)))
    assert [(answer.target, answer.saving) for answer in planned.moves] == [(0, 45 * MB)]


@pytest.mark.parametrize("near", [0, 1])
def test_talk_goes_both_ways_where_distances_do_not(near: int) -> None:
    # From one NUMA node it is as near to the other as to itself, or so its firmware says.
    lopsided = [
        Zone(
            number, CpuSet(range(8 * number, 8 * number + 8)), GIB, {1 - number: 10 if number == near else 21}
        )
        for number in (0, 1)
    ]
    planned = plan(lopsided, [pod("a"), pod("b")], talk(("a", "b", 40 * MB)))
    assert planned.across_after == 0
    assert {answer.code for answer in planned.answers} == {"move"}


def test_pinned_pods_never_move_and_others_come_to_them() -> None:
    fixed = pod("fixed", zones=(1,), barred="pinned")
    planned = plan(zones(16, 16), [fixed, pod("a")], talk(("a", "fixed", 50 * MB)))
    assert codes(planned) == {"fixed": "pinned", "a": "move"}
    assert planned.moves[0].target == 1


def test_who_may_not_be_moved_stays() -> None:
    members = [pod("a", barred="not-chosen"), pod("b", barred="not-chosen")]
    planned = plan(zones(16, 16), members, talk(("a", "b", 50 * MB)))
    assert codes(planned) == {"a": "not-chosen", "b": "not-chosen"}


def test_nobody_leaves_his_devices() -> None:
    members = [pod("gpu", devices=(1,)), pod("a", zones=(0,), barred="pinned")]
    planned = plan(zones(16, 16), members, talk(("a", "gpu", 50 * MB)))
    assert not [answer for answer in planned.moves if answer.target == 0]


def test_who_was_just_moved_rests() -> None:
    members = [pod("a", zones=(0,), resting=30), pod("b", zones=(1,), resting=30)]
    planned = plan(zones(16, 16), members, talk(("a", "b", 50 * MB)))
    assert codes(planned) == {"a": "cooling-down", "b": "cooling-down"}


def test_memory_that_would_have_to_follow_may_cost_more_than_is_saved() -> None:
    members = [pod("a", zones=(0,), memory={0: 30 * GIB}), pod("b", zones=(1,), memory={1: 30 * GIB})]
    planned = plan(zones(16, 16), members, talk(("a", "b", 10 * MB)))
    assert codes(planned) == {"a": "no-gain", "b": "no-gain"}
    assert plan(zones(16, 16), members, talk(("a", "b", 500 * MB)), Rules(payback=600)).moves


@pytest.mark.parametrize("places", [zones(16), [*zones(16), Zone(1, CpuSet(), GIB, {})]])
def test_with_one_numa_node_nothing_can_be_gained(places: list[Zone]) -> None:
    planned = plan(places, [pod("a"), pod("b")], talk(("a", "b", 50 * MB)))
    assert codes(planned) == {"a": "one-numa-node", "b": "one-numa-node"}


def test_no_numa_node_and_no_pod_is_an_empty_plan() -> None:
    assert plan([], [], {}) == Plan((), (), ())
    assert plan(zones(4, 4), [], talk(("a", "b", 50 * MB))).total == 0


def test_more_pods_than_anybody_expected_are_planned() -> None:
    # The first program of this kind had room for 1,024 relations and 64 CPUs of a NUMA node.
    members = [pod(f"p{number:04}", 100) for number in range(1500)]
    pairs = talk(*((f"p{number:04}", f"p{number + 1:04}", 5 * MB) for number in range(0, 1500, 2)))
    planned = plan(zones(128, 128), members, pairs)
    assert planned.across_after == 0
    assert len(planned.moves) == 1500
