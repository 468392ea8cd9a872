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

import msgspec

# With more talkers than this only what gains is tried: a node must have its answer in a tenth of a second.
_MOST_FOR_LOSSES = 160
_MOST_FOR_PAIRS = 64
_MOST_ROUNDS = 8
# Above every cost there is: nobody chooses a place that is not allowed.
_BARRED = 1 << 80

# CPU in thousandths, memory in bytes.
Size = tuple[int, int]


class Talkers(msgspec.Struct, frozen=True):
    """`bias[v][p]` is what talker v costs in place p whoever else is where; a place that is not allowed has None.

    `apart[p][q]` is the cost of one unit of talk between places p and q, `edges` are (a, b, units) with a < b. `room` is
    what a place can take of the talkers here, None where it has no end.
    """

    sizes: tuple[Size, ...]
    start: tuple[int, ...]
    bias: tuple[tuple[int | None, ...], ...]
    edges: tuple[tuple[int, int, int], ...]
    apart: tuple[tuple[int, ...], ...]
    room: tuple[Size | None, ...]


def best_places(talkers: Talkers) -> tuple[int, ...]:
    """A place for each talker; never one that costs more in all than where they are now."""
    # Groups that fill a place are best where they fit, smaller ones leave the walk more to do; few talkers get it all.
    parts = (1, 2, 3, 4) if len(talkers.sizes) <= _MOST_FOR_PAIRS else (1,)
    searches = [_Search(talkers), *(_grouped(talkers, part) for part in parts)]
    ends = [search.run() for search in searches]
    return min(
        [*ends, talkers.start],
        key=lambda places: (
            cost(talkers, places),
            _moved(talkers, places),
            _crowding(talkers, places),
            places,
        ),
    )


def cost(talkers: Talkers, places: Sequence[int]) -> int:
    """What the talkers cost in these places."""
    own = sum(costs[place] or 0 for costs, place in zip(talkers.bias, places, strict=True))
    return own + sum(units * talkers.apart[places[a]][places[b]] for a, b, units in talkers.edges)


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


class _Search:
    """Places in the making, and what each talker would cost anywhere while the others stay; at first all are where they are."""

    def __init__(self, talkers: Talkers) -> None:
        self.talkers = talkers
        self.places = list(talkers.start)
        self._may_lose = len(talkers.sizes) <= _MOST_FOR_LOSSES
        self._neighbours: list[list[tuple[int, int]]] = [[] for _ in talkers.sizes]
        for a, b, units in talkers.edges:
            self._neighbours[a].append((b, units))
            self._neighbours[b].append((a, units))
        self._costs = [[_BARRED if cost is None else cost for cost in costs] for costs in talkers.bias]
        for talker, neighbours in enumerate(self._neighbours):
            costs = self._costs[talker]
            for other, units in neighbours:
                for place, away in enumerate(talkers.apart[self.places[other]]):
                    costs[place] += units * away
        self._used = [[0, 0] for _ in talkers.room]
        for size, place in zip(talkers.sizes, self.places, strict=True):
            self._used[place][0] += size[0]
            self._used[place][1] += size[1]

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
            for other, units in self._neighbours[talker]:
                if other in inside:
                    among[self.places[other]] += units
        choices = []
        for place, apart in enumerate(self.talkers.apart):
            arriving = [talker for talker in members if self.places[talker] != place]
            size = tuple(sum(self.talkers.sizes[talker][kind] for talker in arriving) for kind in (0, 1))
            if _fits((size[0], size[1]), self._free(place)):
                total = sum(self._costs[talker][place] for talker in members)
                total -= sum(units * away for units, away in zip(among, apart, strict=True))
                # Where it costs the same, the emptier place is better for all who come later.
                choices.append((total + sum(among) // 2 * apart[place], self._used[place][0], place))
        if choices and min(choices)[0] < _BARRED:
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
            for other, _ in self._neighbours[talker]:
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
            (gain, a, b)
            for a, b in combinations(range(len(self.places)), 2)
            if self.places[a] != self.places[b] and (gain := self._gain_of_pair(a, b)) < 0
        ]
        for _, a, b in sorted(gains):
            here, there = self.places[a], self.places[b]
            out = self._free(here, a), self._free(there, b)
            if _fits(self.talkers.sizes[b], out[0]) and _fits(self.talkers.sizes[a], out[1]):
                self._move(a, there)
                self._move(b, here)
                return True
        return False

    def _gain_of_pair(self, a: int, b: int) -> int:
        here, there = self.places[a], self.places[b]
        if self.talkers.bias[a][there] is None or self.talkers.bias[b][here] is None:
            return 0
        apart = self.talkers.apart
        between = sum(units for other, units in self._neighbours[a] if other == b)
        # Each of the two was asked as if the other stayed, so what they say to each other is counted wrongly twice.
        wrong = between * (apart[there][there] + apart[here][here] - 2 * apart[here][there])
        change = self._costs[a][there] - self._costs[a][here] + self._costs[b][here] - self._costs[b][there]
        return change - wrong

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
        return self.talkers.bias[talker][place] is not None and _fits(
            self.talkers.sizes[talker], self._free(place)
        )

    def _free(self, place: int, without: int | None = None) -> Size | None:
        room = self.talkers.room[place]
        if room is None:
            return None
        back = (0, 0) if without is None else self.talkers.sizes[without]
        return room[0] - self._used[place][0] + back[0], room[1] - self._used[place][1] + back[1]

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
        for other, units in self._neighbours[talker]:
            costs = self._costs[other]
            for number, change in enumerate(changes):
                costs[number] += units * change


def _fits(size: Size, free: Size | None) -> bool:
    return free is None or (size[0] <= free[0] and size[1] <= free[1])
