"""The digests are of what Go's own `sort.Slice` (Go 1.26.8) makes of the same lists and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from numaware.twin.gosort import go_sorted

WORD = (1 << 64) - 1
LENGTHS = (0, 1, 2, 5, 12, 13, 14, 16, 20, 24, 32, 48, 49, 50, 51, 64, 96, 128, 200, 300)
Rule = Callable[[int, int, int], bool]


def chance(x: int, y: int, seed: int) -> int:
    """A number below 1000 that has nothing to do with any order."""
    return (((x * 1000003 + y * 8191 + seed * 69069 + 1) * 2654435761 & WORD) >> 16) % 1000


def kind(x: int, seed: int) -> int:
    return x % (seed % 7 + 2)


def asked(rule: Rule, seed: int, one: int, other: int) -> bool:
    return rule(one, other, seed)


@pytest.mark.parametrize(
    ("rule", "digest"),
    [
        pytest.param(lambda x, y, s: chance(x, y, s) < 500, 14825398716366924911, id="a coin"),
        pytest.param(lambda x, y, s: chance(x, y, s) < 100, 5070818697583607599, id="hardly ever"),
        pytest.param(lambda x, y, s: chance(x, y, s) < 900, 7954741659113674267, id="nearly always"),
        pytest.param(
            lambda x, y, s: kind(x, s) < kind(y, s) or x < y, 13211865732252521365, id="either wish"
        ),
        pytest.param(
            lambda x, y, s: kind(x, s) < kind(y, s) or x > y, 1979352454508912083, id="contradiction"
        ),
        pytest.param(lambda x, y, s: kind(x, s) < kind(y, s), 11782161130073495405, id="many equals"),
        pytest.param(lambda x, y, s: chance(x, 0, s) < chance(y, 0, s), 17603191149349851171, id="an order"),
        pytest.param(lambda *_: True, 4837252139635271081, id="always"),
        pytest.param(lambda x, y, s: y < x or chance(x, y, s) < 30, 1483531605294090109, id="falling"),
    ],
)
def test_contradicting_comparisons_give_the_order_that_go_gives(rule: Rule, digest: int) -> None:
    found = 14695981039346656037
    for length, seed in product(LENGTHS, range(4)):
        for number in go_sorted(range(length), partial(asked, rule, seed)):
            found = (found ^ number) * 1099511628211 & WORD
    assert found == digest
