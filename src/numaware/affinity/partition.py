"""Which place each talker should have, so that little is said across places: a partition of a graph under capacities.

The best partition is hard to find, so this looks for a good one, the same for the same input: from where everybody is now
and from groups of those who talk most, one talker is moved at a time, always the one that gains most, and for a while
also at a loss, since the way out of a poor partition often leads through a worse one (Fiduccia and Mattheyses). What is
best on the way is kept. Two who would have to change places at once are tried as a pair. Called by `plan.py`, which says
what places, costs and sizes are; here they are numbers.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import combinations

from numaware.affinity.tabu import MOST_TALKERS, wanderings
from numaware.affinity.talkers import BARRED, Assignment, Size, Talkers, cost, fits

# With more talkers than this only what gains is tried: a node must have its answer in a tenth of a second.
_MOST_FOR_LOSSES = 160
_MOST_FOR_PAIRS = 64
_MOST_ROUNDS = 8


def best_places(talkers: Talkers) -> tuple[int, ...]:
    """A place for each talker; never one that costs more in all than where they are now."""
    # Groups that fill a place are best where they fit, smaller ones leave the walk more to do; few talkers get it all.
    parts = (1, 2, 3, 4) if len(talkers.sizes) <= _MOST_FOR_PAIRS else (1,)
    searches = [_Search(talkers), *(_grouped(talkers, part) for part in parts)]
    ends = [talkers.start, *(search.run() for search in searches)]

    def worth(places: tuple[int, ...]) -> tuple[int, int, int, tuple[int, ...]]:
        return cost(talkers, places), _moved(talkers, places), _crowding(talkers, places), places

    best = min(ends, key=worth)
    if len(talkers.sizes) <= MOST_TALKERS and cost(talkers, best) > _least_possible(talkers):
        best = min([best, *wanderings(talkers, best)], key=worth)
    return best


def _least_possible(talkers: Talkers) -> int:
    """What it would cost if nothing were said across: nobody need look for better."""
    return sum(min(cost for cost in costs if cost is not None) for costs in talkers.bias)


def _moved(talkers: Talkers, places: Sequence[int]) -> int:
    return sum(a != b for a, b in zip(talkers.start, places, strict=True))


def _crowding(talkers: Talkers, places: Sequence[int]) -> int:
    """How unevenly CPU is used: of two plans that cost the same, the one with two half-full places is better."""
    used = [0] * len(talkers.room)
    for (cpu, _), place in zip(talkers.sizes, places, strict=True):
        used[place] += cpu
    return sum(cpu**2 for cpu, room in zip(used, talkers.room, strict=True) if room is not None)


def _grouped(talkers: Talkers, part: int) -> _Search:
    """Those who talk most to each other in one place, large groups first, each where it costs least and has room.

    No group is larger than that part of the largest place.
    """
    rooms = [room for room in talkers.room if room is not None]
    largest = [max((room[kind] for room in rooms), default=0) // part for kind in (0, 1)]
    group = list(range(len(talkers.sizes)))
    members = [[talker] for talker in group]
    total = [list(size) for size in talkers.sizes]
    for a, b, _ in sorted(talkers.edges, key=lambda edge: (-edge[2], edge)):
        one, other = sorted((group[a], group[b]), key=lambda number: (-len(members[number]), number))
        if one == other or any(total[one][kind] + total[other][kind] > largest[kind] for kind in (0, 1)):
            continue
        for talker in members[other]:
            group[talker] = one
        members[one] += members[other]
        total[one] = [total[one][kind] + total[other][kind] for kind in (0, 1)]
        members[other] = []
    search = _Search(talkers)
    for number in sorted(
        range(len(members)), key=lambda number: (-total[number][0], -total[number][1], number)
    ):
        if len(members[number]) > 1:
            search.put_together(members[number])
    return search


class _Search(Assignment):
    """One walk after the other from where everybody is, as long as it helps."""

    def __init__(self, talkers: Talkers) -> None:
        super().__init__(talkers)
        self._may_lose = len(talkers.sizes) <= _MOST_FOR_LOSSES

    def run(self) -> tuple[int, ...]:
        for _ in range(_MOST_ROUNDS):
            if not self._descend() and not self._swap():
                break
        return tuple(self.places)

    def put_together(self, members: Sequence[int]) -> None:
        """All of them into the place where that costs least, if one takes them."""
        inside = set(members)
        # What they say to each other, by the place of who listens: it will all be said in one place.
        among = [0] * len(self.talkers.room)
        for talker in members:
            for other, units in self._neighbours[talker].items():
                if other in inside:
                    among[self.places[other]] += units
        choices = []
        for place, apart in enumerate(self.talkers.apart):
            arriving = [talker for talker in members if self.places[talker] != place]
            size = tuple(sum(self.talkers.sizes[talker][kind] for talker in arriving) for kind in (0, 1))
            if fits((size[0], size[1]), self._free(place)):
                total = sum(self._costs[talker][place] for talker in members)
                total -= sum(units * away for units, away in zip(among, apart, strict=True))
                # Where it costs the same, the emptier place is better for all who come later.
                choices.append((total + sum(among) // 2 * apart[place], self._used[place][0], place))
        if choices and min(choices)[0] < BARRED:
            for talker in members:
                self._move(talker, min(choices)[2])

    def _descend(self) -> bool:
        """One walk: everybody moves at most once, the best first. Kept is the best that was passed; whether it is better."""
        waiting = [choice for talker in range(len(self.places)) if (choice := self._choice(talker))]
        heapq.heapify(waiting)
        locked: set[int] = set()
        walk: list[tuple[int, int]] = []
        total = best = kept = 0
        while waiting:
            loss, talker, place = heapq.heappop(waiting)
            if talker in locked:
                continue
            # Its neighbours have moved since, or others have filled the place.
            choice = self._choice(talker)
            if choice != (loss, talker, place):
                if choice is not None and choice[0] > loss:
                    heapq.heappush(waiting, choice)
                continue
            walk.append((talker, self.places[talker]))
            self._move(talker, place)
            locked.add(talker)
            total += loss
            if total < best:
                best, kept = total, len(walk)
            for other in self._neighbours[talker]:
                if other not in locked and (choice := self._choice(other)):
                    heapq.heappush(waiting, choice)
        for talker, before in reversed(walk[kept:]):
            self._move(talker, before)
        return kept > 0

    def _swap(self) -> bool:
        """The pair that gains most by changing places; whether there is one."""
        if len(self.places) > _MOST_FOR_PAIRS:
            return False
        gains = [
            (loss, a, b)
            for a, b in combinations(range(len(self.places)), 2)
            if self.places[a] != self.places[b]
            and self._may_exchange(a, b)
            and (loss := self._loss_of_exchange(a, b)) < 0
        ]
        for _, a, b in sorted(gains):
            here, there = self.places[a], self.places[b]
            out = self._free(here, a), self._free(there, b)
            if fits(self.talkers.sizes[b], out[0]) and fits(self.talkers.sizes[a], out[1]):
                self._move(a, there)
                self._move(b, here)
                return True
        return False

    def _choice(self, talker: int) -> tuple[int, int, int] | None:
        """Where it had better go, and what that loses; None where every way is barred, or loses and may not."""
        costs, here = self._costs[talker], self.places[talker]
        now = costs[here]
        least = min(costs)
        if least < now and self._takes(talker, place := costs.index(least)):
            return least - now, talker, place
        if least >= now and not self._may_lose:
            return None
        for loss, place in sorted((there - now, place) for place, there in enumerate(costs) if place != here):
            if loss >= 0 and not self._may_lose:
                return None
            if self._takes(talker, place):
                return loss, talker, place
        return None

    def _takes(self, talker: int, place: int) -> bool:
        return self.talkers.bias[talker][place] is not None and fits(
            self.talkers.sizes[talker], self._free(place)
        )

    def _free(self, place: int, without: int | None = None) -> Size | None:
        room = self.talkers.room[place]
        if room is None:
            return None
        back = (0, 0) if without is None else self.talkers.sizes[without]
        return room[0] - self._used[place][0] + back[0], room[1] - self._used[place][1] + back[1]
