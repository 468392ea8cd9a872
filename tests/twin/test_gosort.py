"""Go's order, also where a comparison contradicts itself."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.twin.gosort import go_sorted


def either(modulus: int, one: int, two: int) -> bool:
    """Two wishes joined with OR, as old kubelets did: two numbers can each come before the other."""
    return one % modulus < two % modulus or one < two


def tournament(modulus: int, one: int, two: int) -> bool:
    """No order at all: who comes first is as good as thrown."""
    return (one * 7919 + two * 104729 + one * two * 31) % modulus < modulus // 2


def fnv(numbers: list[int]) -> int:
    total = 2166136261
    for number in numbers:
        total = (total ^ number) * 16777619 & 0xFFFFFFFF
    return total


@given(st.lists(st.integers(-20, 20), max_size=200))
@settings(max_examples=60)
def test_a_comparison_without_contradiction_sorts(numbers: list[int]) -> None:
    assert go_sorted(numbers, lambda one, two: one < two) == sorted(numbers)


@given(st.lists(st.integers(0, 500), max_size=150), st.integers(2, 50))
@settings(max_examples=60)
def test_contradictions_lose_nothing(numbers: list[int], modulus: int) -> None:
    assert sorted(go_sorted(numbers, partial(either, modulus))) == sorted(numbers)
    assert sorted(go_sorted(numbers, partial(tournament, modulus))) == sorted(numbers)


@pytest.mark.parametrize(
    ("length", "modulus", "in_go"),
    [
        (9, 97, 2327160903),
        (13, 10, 1477237033),
        (30, 7, 1554611374),
        (64, 97, 1853587350),
        (150, 10, 3066763584),
        (257, 7, 628767774),
    ],
)
def test_joined_wishes_are_sorted_as_go_sorts_them(length: int, modulus: int, in_go: int) -> None:
    """The numbers on the right were hashed by a Go program that sorted the same list."""
    numbers = [index * 37 % 1009 for index in range(length)]
    assert fnv(go_sorted(numbers, partial(either, modulus))) == in_go


@pytest.mark.parametrize(
    ("length", "modulus", "in_go"),
    [
        (9, 7, 2682515221),
        (30, 97, 1141659986),
        (49, 10, 870950108),
        (64, 7, 2705695450),
        (257, 97, 925912482),
    ],
)
def test_a_tournament_is_sorted_as_go_sorts_it(length: int, modulus: int, in_go: int) -> None:
    numbers = [index * 37 % 1009 for index in range(length)]
    assert fnv(go_sorted(numbers, partial(tournament, modulus))) == in_go
