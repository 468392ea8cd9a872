"""The partition against the best there is: every possible one is tried where they are few, else OR-Tools has proved it.

`tests/vectors/affinity` has small nodes, nearly full ones among them, and what the best partition of each costs as CP-SAT proves it
(`tests/recorders/partition/record`).
"""

from __future__ import annotations

import gzip
import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from numaware.affinity.partition import best_places
from numaware.affinity.talkers import Talkers, cost


def talkers(seed: int, number: int, zones: int, tightness: int) -> Talkers:
    """Random sizes and talk; all float at first. `tightness` is the room of a zone in percent of an even share."""
    dice = random.Random(seed)  # noqa: S311 - the same each time is the point
    sizes = tuple((dice.randrange(200, 4000), dice.randrange(1 << 20, 1 << 30)) for _ in range(number))
    room = sum(cpu for cpu, _ in sizes) * tightness // (100 * zones)
    edges: dict[tuple[int, int], int] = {}
    for _ in range(number * 5 // 2):
        a, b = sorted(dice.sample(range(number), 2))
        edges[a, b] = edges.get((a, b), 0) + dice.choice((1, 10, 100)) * dice.randrange(1, 50)
    away = [[0 if a == b else 11 for b in range(zones)] for a in range(zones)]
    floating = [sum(row) // zones for row in away]
    return Talkers(
        sizes=sizes,
        start=(zones,) * number,
        bias=((5,) * zones + (0,),) * number,
        edges=tuple((a, b, units) for (a, b), units in sorted(edges.items())),
        apart=(
            *((*row, mean) for row, mean in zip(away, floating, strict=True)),
            (*floating, sum(floating) // zones),
        ),
        room=((room, 1 << 40),) * zones + (None,),
    )


PROVED = Path(__file__).parents[1] / "vectors/affinity/partitions.jsonl.gz"


def proved(kind: str) -> list[tuple[Talkers, int]]:
    """Cases of a kind with what their best partition costs: nothing but talk between places."""
    with gzip.open(PROVED) as lines:
        return [
            (as_talkers(case), case["optimum"]) for case in map(json.loads, lines) if case["kind"] == kind
        ]


def as_talkers(case: dict[str, Any]) -> Talkers:
    places = len(case["apart"])
    return Talkers(
        sizes=tuple((cpu, memory) for cpu, memory in case["sizes"]),
        start=tuple(case["start"]),
        bias=((0,) * places,) * len(case["sizes"]),
        edges=tuple((one, other, units) for one, other, units in case["edges"]),
        apart=tuple(map(tuple, case["apart"])),
        room=((case["room"][0], case["room"][1]),) * places,
    )


def fits(case: Talkers, places: tuple[int, ...]) -> bool:
    used = [0] * len(case.room)
    for (cpu, _), place in zip(case.sizes, places, strict=True):
        used[place] += cpu
    return all(room is None or cpu <= room[0] for cpu, room in zip(used, case.room, strict=True))


def optimum(case: Talkers) -> int:
    every = product(range(len(case.room)), repeat=len(case.sizes))
    return min(cost(case, places) for places in every if fits(case, places))


@pytest.mark.parametrize("zones", [2, 3])
@pytest.mark.parametrize("tightness", [105, 130, 300])
def test_it_is_within_five_percent_of_the_best_there_is(zones: int, tightness: int) -> None:
    ours = best = 0
    for seed in range(12):
        case = talkers(seed, 4 + seed % 4, zones, tightness)
        places = best_places(case)
        assert fits(case, places)
        ours += cost(case, places)
        best += optimum(case)
    assert best <= ours <= best * 105 // 100


@pytest.mark.parametrize("kind", ["random", "planted"])
def test_each_is_within_five_percent_of_what_cp_sat_proves_to_be_the_best(kind: str) -> None:
    cases = proved(kind)
    assert len(cases) == 75
    for case, best in cases:
        places = best_places(case)
        assert fits(case, places)
        assert best <= cost(case, places) <= best * 105 // 100
        assert cost(case, places) <= cost(case, case.start)


def test_pairs_that_fill_a_place_change_places_at_once() -> None:
    # Two places with room for two each, both full, and everybody sits with the wrong one.
    case = Talkers(
        sizes=((1000, 0),) * 4,
        start=(0, 1, 0, 1),
        bias=((0, 0),) * 4,
        edges=((0, 1, 10), (2, 3, 10)),
        apart=((0, 1), (1, 0)),
        room=((2000, 0), (2000, 0)),
    )
    assert cost(case, best_places(case)) == 0


def test_groups_of_equal_cost_go_to_the_emptier_place() -> None:
    case = Talkers(
        sizes=((1000, 0),) * 4,
        start=(2,) * 4,
        bias=((1, 1, 0),) * 4,
        edges=((0, 1, 10), (2, 3, 10)),
        apart=((0, 2, 1), (2, 0, 1), (1, 1, 1)),
        room=((9000, 0), (9000, 0), None),
    )
    places = best_places(case)
    assert places[0] == places[1] != places[2] == places[3]


def test_nobody_sits_where_he_may_not() -> None:
    case = Talkers(
        sizes=((1000, 0),) * 2,
        start=(2, 2),
        bias=((None, 1, 0), (1, None, 0)),
        edges=((0, 1, 10),),
        apart=((0, 2, 1), (2, 0, 1), (1, 1, 1)),
        room=((9000, 0), (9000, 0), None),
    )
    assert best_places(case) == (2, 2)


def test_a_large_node_gets_a_good_partition() -> None:
    case = talkers(3, 400, 8, 130)
    places = best_places(case)
    assert fits(case, places)
    assert cost(case, places) < cost(case, case.start) // 2
