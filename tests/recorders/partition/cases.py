"""Small nodes with talking pods, random and planted, as `affinity/partition.py` gets them: one JSON object a line.

In a planted one the pods were dealt into groups that talk among themselves, one for each place, and a little talk was put
between the groups; in a random one anybody may talk to anybody. Nobody floats and no place is cheaper than another, so
that what a partition costs is the talk between places, weighted by their distance.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

# What a byte costs more than at home, from distances as machines have them.
APART = {
    2: [[0, 11], [11, 0]],
    3: [[0, 10, 10], [10, 0, 10], [10, 10, 0]],
    4: [[0, 2, 22, 22], [2, 0, 22, 22], [22, 22, 0, 2], [22, 22, 2, 0]],
}
EACH = 5


def cases() -> Iterator[dict[str, Any]]:
    for kind in ("random", "planted"):
        for places in APART:
            for tightness in (108, 130, 200):
                for pods in (12, 16) if places < 4 else (14,):
                    found = (case for seed in count() if (case := made(kind, places, pods, tightness, seed)))
                    yield from (next(found) for _ in range(EACH))


def made(kind: str, places: int, pods: int, tightness: int, seed: int) -> dict[str, Any] | None:
    """None where the pods do not fit as they come: the plan would be for a node that is too full already."""
    dice = random.Random(f"{kind} {places} {pods} {tightness} {seed}")  # noqa: S311 - the same each time
    sizes = [(dice.randrange(200, 3000, 50), dice.randrange(64, 1024) << 20) for _ in range(pods)]
    room = [sum(size[part] for size in sizes) * tightness // (100 * places) for part in (0, 1)]
    start, used = [], [[0, 0] for _ in range(places)]
    for size in sizes:
        fitting = [
            place
            for place in dice.sample(range(places), places)
            if all(used[place][part] + size[part] <= room[part] for part in (0, 1))
        ]
        if not fitting:
            return None
        start.append(fitting[0])
        used[fitting[0]] = [used[fitting[0]][part] + size[part] for part in (0, 1)]
    group = [number % places for number in range(pods)]
    edges: dict[tuple[int, int], int] = {}
    for _ in range(pods * 5 // 2):
        one, other = sorted(dice.sample(range(pods), 2))
        stranger = kind == "planted" and group[one] != group[other]
        edges[one, other] = edges.get((one, other), 0) + dice.randrange(1, 5 if stranger else 100)
    return {
        "kind": kind,
        "sizes": sizes,
        "start": start,
        "edges": [[one, other, units] for (one, other), units in sorted(edges.items())],
        "apart": APART[places],
        "room": room,
    }


if __name__ == "__main__":
    for case in cases():
        sys.stdout.write(json.dumps(case, separators=(",", ":")) + "\n")
