"""A CPU set is a set: every operation agrees with Python's own, and every form reads back."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from numaware.machine.cpuset import MAX_ID, CpuSet
from property.strategies import cpusets

IDS = st.sets(st.integers(0, 200) | st.integers(0, MAX_ID), max_size=30)


@given(IDS, IDS)
def test_the_algebra_is_that_of_sets(left: set[int], right: set[int]) -> None:
    a, b = CpuSet(left), CpuSet(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert set(a ^ b) == left ^ right
    assert (a <= b, a < b, a >= b, a > b) == (left <= right, left < right, left >= right, left > right)
    assert (a == b, not a & b) == (left == right, left.isdisjoint(right))
    assert (len(a), bool(a)) == (len(left), bool(left))


@given(IDS)
def test_iteration_ascends_and_membership_agrees(ids: set[int]) -> None:
    cpus = CpuSet(ids)
    assert list(cpus) == sorted(ids)
    assert all(number in cpus for number in ids)
    assert not ids or cpus.first() == min(ids)


@given(cpusets(1023))
def test_the_list_form_reads_back(cpus: CpuSet) -> None:
    assert CpuSet.parse(str(cpus)) == cpus


@given(cpusets(1023))
def test_the_mask_form_reads_back(cpus: CpuSet) -> None:
    words = [f"{cpus.mask >> shift & 0xFFFFFFFF:08x}" for shift in range(992, -1, -32)]
    assert CpuSet.parse_hex(",".join(words)) == cpus
    assert CpuSet.parse_hex(f"{cpus.mask:x}") == cpus


@given(cpusets(1023))
def test_the_list_form_is_the_shortest_one(cpus: CpuSet) -> None:
    ends = [tuple(map(int, part.split("-"))) for part in str(cpus).split(",") if part]
    assert all(end[0] < end[-1] for end in ends if len(end) == 2)
    assert all(left[-1] + 1 < right[0] for left, right in pairwise(ends))


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 40), st.integers(1, 40))
def test_a_stride_takes_the_first_of_every_group(first: int, length: int, used: int, spare: int) -> None:
    last, group = first + length, used + spare - 1
    expected = {number for number in range(first, last + 1) if (number - first) % group < used}
    assert set(CpuSet.parse(f"{first}-{last}:{used}/{group}")) == expected


@given(st.text(max_size=20) | st.text("0123456789-,:/ xa", max_size=20))
def test_any_text_is_a_set_or_a_value_error(text: str) -> None:
    for read in (CpuSet.parse, CpuSet.parse_hex):
        try:
            cpus = read(text)
        except ValueError:
            continue
        assert CpuSet.parse(str(cpus)) == cpus
