"""Talkers to be given places: the question that `partition.py` and `tabu.py` answer, and an answer in the making.

What places, costs and sizes are is said by `plan.py`; here they are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

# Above every cost there is: nobody chooses a place that is not allowed.
BARRED = 1 << 80

# CPU in thousandths, memory in bytes.
Size = tuple[int, int]


class Talkers(msgspec.Struct, frozen=True):
    """`bias[v][p]` is what talker v costs in place p whoever else is where; a place that is not allowed has None.

    `apart[p][q]` is the cost of one unit of talk between places p and q, the same either way, `edges` are (a, b, units) with
    a < b, each two once. `room` is what a place can take of the talkers here, None where it has no end.
    """

    sizes: tuple[Size, ...]
    start: tuple[int, ...]
    bias: tuple[tuple[int | None, ...], ...]
    edges: tuple[tuple[int, int, int], ...]
    apart: tuple[tuple[int, ...], ...]
    room: tuple[Size | None, ...]


def cost(talkers: Talkers, places: Sequence[int]) -> int:
    """What the talkers cost in these places."""
    own = sum(costs[place] or 0 for costs, place in zip(talkers.bias, places, strict=True))
    return own + sum(units * talkers.apart[places[a]][places[b]] for a, b, units in talkers.edges)


def fits(size: Size, free: Size | None) -> bool:
    return free is None or (size[0] <= free[0] and size[1] <= free[1])


class Assignment:
    """Places in the making, and what each talker would cost anywhere while the others stay; at first all are where they are."""

    def __init__(self, talkers: Talkers) -> None:
        self.talkers = talkers
        self.places = list(talkers.start)
        self._neighbours: list[dict[int, int]] = [{} for _ in talkers.sizes]
        for a, b, units in talkers.edges:
            self._neighbours[a][b] = self._neighbours[b][a] = units
        self._costs = [[BARRED if cost is None else cost for cost in costs] for costs in talkers.bias]
        for talker, neighbours in enumerate(self._neighbours):
            costs = self._costs[talker]
            for other, units in neighbours.items():
                for place, away in enumerate(talkers.apart[self.places[other]]):
                    costs[place] += units * away
        self._used = [[0, 0] for _ in talkers.room]
        for size, place in zip(talkers.sizes, self.places, strict=True):
            self._used[place][0] += size[0]
            self._used[place][1] += size[1]

    def _move(self, talker: int, place: int) -> None:
        before = self.places[talker]
        if before == place:
            return
        self.places[talker] = place
        for kind, size in enumerate(self.talkers.sizes[talker]):
            self._used[before][kind] -= size
            self._used[place][kind] += size
        changes = [
            new - old for new, old in zip(self.talkers.apart[place], self.talkers.apart[before], strict=True)
        ]
        for other, units in self._neighbours[talker].items():
            costs = self._costs[other]
            for number, change in enumerate(changes):
                costs[number] += units * change

    def _may_exchange(self, a: int, b: int) -> bool:
        bias = self.talkers.bias
        return bias[a][self.places[b]] is not None and bias[b][self.places[a]] is not None

    def _loss_of_exchange(self, a: int, b: int) -> int:
        """What it loses if these two, who may, change places."""
        here, there = self.places[a], self.places[b]
        loss = self._costs[a][there] - self._costs[a][here] + self._costs[b][here] - self._costs[b][there]
        between = self._neighbours[a].get(b)
        if between:
            apart = self.talkers.apart
            # Each of the two was asked as if the other stayed, so what they say to each other is counted wrongly twice.
            loss -= between * (apart[there][there] + apart[here][here] - 2 * apart[here][there])
        return loss
