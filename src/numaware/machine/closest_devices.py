"""Which devices of those that are free are closest to each other: what a device plugin answers when a kubelet asks it to choose.

The closest set lies on the fewest NUMA nodes; among those, the sum over all its pairs is least of the distance between NUMA
nodes, then of what PCIe has in between, then most NVLinks; among equals the first by id. That is the same as looking at
every subset, which the tests do, in a fraction of the time: one number per pair weighs all three, and a search in the order
of the ids gives up a beginning as soon as it cannot become better than what is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from itertools import accumulate
from operator import add, or_

from numaware.machine.nearness import MOST_NVLINKS, RANKS, Nearness

# Up to so many devices the answer is exact; of more, the search ends after so many steps with the best it has.
EXACT = 16
_MOST_STEPS = 5_000


def closest(
    nearness: Nearness, available: Iterable[str], size: int, must_include: Collection[str] = ()
) -> tuple[str, ...]:
    """The closest set of that size, sorted; a ValueError where there is none.

    Ids that the nearness does not know are a ValueError too: they are nobody's devices.
    """
    given = sorted(set(available) | set(must_include))
    unknown = [name for name in given if name not in nearness.kin]
    if unknown:
        raise ValueError(f"{unknown[0]} is no device of this resource")
    if not len(set(must_include)) <= size <= len(given):
        raise ValueError(
            f"{size} devices, {len(set(must_include))} of them set, cannot be taken from {len(given)}"
        )
    chosen = sorted(set(must_include))
    if size == len(chosen):
        return tuple(chosen)
    candidates = _distinct(nearness, given, size, chosen)
    return _Search(nearness, candidates, size, chosen).best()


def _distinct(nearness: Nearness, given: Sequence[str], size: int, chosen: Collection[str]) -> list[str]:
    """Of devices that nothing but the id tells apart only the first could ever be taken."""
    seen: Counter[int] = Counter()
    kept = []
    for name in given:
        if name in chosen:
            continue
        kin = nearness.kin[name]
        seen[kin] += 1
        if seen[kin] <= size:
            kept.append(name)
    return kept


class _Search:
    """Branch and bound over candidates in the order of their ids."""

    def __init__(self, nearness: Nearness, names: list[str], size: int, chosen: Sequence[str]) -> None:
        self.names = names
        self.chosen = chosen
        self.wanted = size - len(chosen)
        everyone = [*names, *chosen]
        weight = _weigher(nearness, size)
        weights = [[weight(a, b) if a != b else 0 for b in everyone] for a in names]
        # Every weight and cost is taken twice, so that bounds that count pairs from both of their ends are whole numbers.
        self.weights = [[2 * one for one in row[: len(names)]] for row in weights]
        # What each weighs to those that have to be in it.
        self.start = [2 * sum(row[len(names) :]) for row in weights]
        self.least = _Least(self.weights)
        # A device whose node nobody knows counts as on one of its own.
        keys: dict[object, int] = {}
        homes = ((name, nearness.nodes[name]) for name in everyone)
        bits = [1 << keys.setdefault(name if node is None else node, len(keys)) for name, node in homes]
        self.node_of = bits[: len(names)]
        self.used = reduce(or_, bits[len(names) :], 0)
        self.most_nodes = self._fewest_nodes()
        # After each candidate: how many there are on which node, where most are first.
        self.room = [Counter(self.node_of[at + 1 :]).most_common() for at in range(len(names))]
        self.steps = 0
        self.limit = None if len(everyone) <= EXACT else _MOST_STEPS
        self.found: tuple[int, ...] = ()
        # What a set has to cost less than.
        self.too_much: int | None = None

    def best(self) -> tuple[str, ...]:
        self._begin_well()
        self._extend((), 0, 0, self.start, self.used)
        return tuple(sorted((*self.chosen, *(self.names[at] for at in self.found))))

    def _fewest_nodes(self) -> int:
        room: Counter[int] = Counter(self.node_of)
        missing = self.wanted - sum(count for bit, count in room.items() if bit & self.used)
        nodes = self.used.bit_count()
        for count in sorted((count for bit, count in room.items() if not bit & self.used), reverse=True):
            if missing <= 0:
                break
            missing -= count
            nodes += 1
        return nodes

    def _begin_well(self) -> None:
        """A set to begin with: from each candidate on what adds least. The search has to find one that is no worse."""
        best: list[tuple[int, tuple[int, ...]]] = []
        for seed, home in enumerate(self.node_of):
            if (self.used | home).bit_count() > self.most_nodes:
                continue
            taken: tuple[int, ...] = ()
            cost, links, used, at = 0, self.start, self.used, seed
            while True:
                taken, cost, used = (*taken, at), cost + links[at], used | self.node_of[at]
                if len(taken) == self.wanted:
                    best.append((cost, tuple(sorted(taken))))
                    break
                links = list(map(add, links, self.weights[at]))
                free = [
                    (not bit & used, links[other], other)
                    for other, bit in enumerate(self.node_of)
                    if other not in taken and (bit | used).bit_count() <= self.most_nodes
                ]
                if not free:
                    break
                at = min(free)[2]
        if best:
            cost, self.found = min(best)
            self.too_much = cost + 2

    def _extend(self, taken: tuple[int, ...], begin: int, cost: int, links: Sequence[int], used: int) -> None:
        """Try all that can follow what is taken; sets come in the order of their ids, so the first of equals is kept."""
        missing = self.wanted - len(taken)
        if not missing:
            self.too_much, self.found = cost, taken
            return
        for at in range(begin, len(self.names) - missing + 1):
            self.steps += 1
            if self.limit is not None and self.steps > self.limit and self.found:
                return
            nodes = used | self.node_of[at]
            if not self._has_room(at, missing - 1, nodes):
                continue
            # Costs are even.
            least = cost + self._least_cost(at, missing - 1, links, nodes)
            if self.too_much is not None and least > self.too_much - 2:
                continue
            below = list(map(add, links, self.weights[at]))
            self._extend((*taken, at), at + 1, cost + links[at], below, nodes)

    def _has_room(self, at: int, more: int, nodes: int) -> bool:
        """Whether so many that come after a candidate are on these nodes and the few others that may be taken as well."""
        others = self.most_nodes - nodes.bit_count()
        if others < 0:
            return False
        for home, count in self.room[at]:
            if home & nodes:
                more -= count
            elif others:
                others -= 1
                more -= count
        return more <= 0

    def _least_cost(self, at: int, more: int, links: Sequence[int], nodes: int) -> int:
        """The least that a candidate adds together with so many of those after it."""
        if not more:
            return links[at]
        after = slice(at + 1, None)
        # What each weighs to those that are taken, and once to the others: every pair of those counts from both ends.
        given = zip(links[after], self.weights[at][after], self.least.beyond(at, more - 1), strict=True)
        if nodes.bit_count() == self.most_nodes:
            homes = self.node_of[after]
            ends = [a + b + c for (a, b, c), home in zip(given, homes, strict=True) if home & nodes]
        else:
            ends = [a + b + c for a, b, c in given]
        ends.sort()
        return links[at] + sum(ends[:more])


class _Least:
    """The least that candidates can weigh to so many others, from one end of each pair; worked out where it is asked for."""

    def __init__(self, weights: list[list[int]]) -> None:
        self._weights = weights
        self._known: dict[int, list[tuple[int, ...]]] = {}

    def beyond(self, at: int, count: int) -> tuple[int, ...]:
        """Of each candidate after `at`, to `count` others after `at`."""
        if at not in self._known:
            rows = [row[at + 1 :] for row in self._weights[at + 1 :]]
            sums = ([0, *accumulate(sorted(row[:own] + row[own + 1 :]))] for own, row in enumerate(rows))
            self._known[at] = [*zip(*([one // 2 for one in row] for row in sums), strict=True)]
        return self._known[at][count]


def _weigher(nearness: Nearness, size: int) -> Callable[[str, str], int]:
    """One number for a gap, such that sums over all pairs of a set compare as distance, then rank, then NVLinks do."""
    pairs = size * (size - 1) // 2
    per_rank = pairs * MOST_NVLINKS + 1
    per_distance = (pairs * max(RANKS.values()) + 1) * per_rank

    def weight(a: str, b: str) -> int:
        gap = nearness.gap(a, b)
        return gap.distance * per_distance + gap.rank * per_rank + MOST_NVLINKS - gap.nvlinks

    return weight
