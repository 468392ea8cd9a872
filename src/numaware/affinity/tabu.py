"""A longer search for few talkers: over states that are too full as well, never straight back (tabu search, Glover 1986).

Where places are nearly full, hardly any single move is allowed, and a walk over states that fit ends soon. Here what is too much
for a place only costs: the more, the longer nothing has fitted. Each step is the best move of one talker or exchange of two
that does not take back what was just done, whether it gains or not; at the end whole places are exchanged where that gains,
as of two far groups each may be in the other's neighbourhood. Called by `partition.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from numaware.affinity.talkers import Assignment, Size, Talkers, cost, fits

# Every exchange of two is looked at in every step.
MOST_TALKERS = 24
_STEPS, _MOST_EXCHANGES = 60, 3
# For how many steps a talker does not go back, and a little more, not the same for all.
_RESTING, _SPREAD = 5, 4
# After so many steps that fitted, or did not, what is too much becomes cheaper or dearer.
_PATIENCE = 3
_WHOLE = 1000

# One talker and where it goes, or two.
_Step = tuple[tuple[int, int], ...]


def wanderings(talkers: Talkers, best: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The best that was found from each of several beginnings; those that found nothing that fits are left out."""
    for begin in (best, *_dealt(talkers)):
        found = _Tabu(talkers, begin).run()
        for _ in range(_MOST_EXCHANGES):
            if found is None:
                break
            yield found
            exchanged = _with_places_exchanged(talkers, found)
            if exchanged == found:
                break
            found = _Tabu(talkers, exchanged).run()


def _dealt(talkers: Talkers) -> Iterator[tuple[int, ...]]:
    """Talkers in turn, in runs, and by whom they talk to most, whatever room there is; who may not go there stays."""
    places = [place for place, room in enumerate(talkers.room) if room is not None]
    number = len(talkers.sizes)
    if not places:
        return
    for place_of in (
        [place % len(places) for place in range(number)],
        [place * len(places) // number for place in range(number)],
        _by_talk(talkers, len(places)),
    ):
        yield tuple(
            start if bias[place := places[index]] is None else place
            for start, bias, index in zip(talkers.start, talkers.bias, place_of, strict=True)
        )


def _by_talk(talkers: Talkers, number: int) -> list[int]:
    """Groups of those who talk most, none much larger than the largest place, the largest first to where least is."""
    most = max((room[0] for room in talkers.room if room is not None), default=0) * 11 // 10
    group = list(range(len(talkers.sizes)))
    load = [cpu for cpu, _ in talkers.sizes]
    for a, b, _ in sorted(talkers.edges, key=lambda edge: (-edge[2], edge)):
        one, other = group[a], group[b]
        if one != other and load[one] + load[other] <= most:
            load[one] += load[other]
            group = [one if each == other else each for each in group]
    used = [0] * number
    chosen = {}
    for each in sorted(set(group), key=lambda each: (-load[each], each)):
        chosen[each] = min(range(number), key=lambda place: (used[place], place))
        used[chosen[each]] += load[each]
    return [chosen[each] for each in group]


def _with_places_exchanged(talkers: Talkers, found: tuple[int, ...]) -> tuple[int, ...]:
    best = cost(talkers, found), found
    for one, other in combinations(range(len(talkers.room)), 2):
        turned = {one: other, other: one}
        places = tuple(turned.get(place, place) for place in best[1])
        if all(bias[place] is not None for bias, place in zip(talkers.bias, places, strict=True)):
            best = min(best, (cost(talkers, places), places))
    return best[1]


class _Tabu(Assignment):
    """One search from one beginning; `run` gives the best that fits, if anything did."""

    def __init__(self, talkers: Talkers, begin: Sequence[int]) -> None:
        super().__init__(talkers)
        for talker, place in enumerate(begin):
            self._move(talker, place)
        self._free_at = [[0] * len(talkers.room) for _ in talkers.sizes]
        typical = 2 * sum(units for _, _, units in talkers.edges) * max(map(max, talkers.apart))
        self._weight = 1 + typical // (50 * max(1, len(talkers.sizes)))
        self._best: tuple[int, tuple[int, ...]] | None = None

    def run(self) -> tuple[int, ...] | None:
        fitted = 0
        self._keep()
        for now in range(1, _STEPS + 1):
            step = self._best_step(now)
            if step is None:
                break
            for talker, place in step:
                self._free_at[talker][self.places[talker]] = now + _RESTING + (talker * 7 + now) % _SPREAD
                self._move(talker, place)
            fitted = max(1, fitted + 1) if self._keep() else min(-1, fitted - 1)
            if abs(fitted) >= _PATIENCE:
                self._weight = max(1, self._weight * 2 // 3) if fitted > 0 else self._weight * 3 // 2 + 1
                fitted = 0
        return self._best and self._best[1]

    def _keep(self) -> bool:
        """Whether all fit; the best of those is kept."""
        if not all(
            fits((used[0], used[1]), room) for used, room in zip(self._used, self.talkers.room, strict=True)
        ):
            return False
        total = cost(self.talkers, self.places)
        if self._best is None or total < self._best[0]:
            self._best = total, tuple(self.places)
        return True

    def _best_step(self, now: int) -> _Step | None:
        """The one that costs least, with what would be too much then; what rests only if it would be the best ever."""
        over = [self._over(place, 0, 0) for place in range(len(self.talkers.room))]
        # If all that is too much were gone then; what is worse even so need not be looked at.
        relief = [self._weight * much for much in over]
        wanted = None if self._best is None else self._best[0] - cost(self.talkers, self.places)
        least: int | None = None
        chosen: _Step | None = None
        for talker, here in enumerate(self.places):
            costs, bias, free_at = self._costs[talker], self.talkers.bias[talker], self._free_at[talker]
            for place, there in enumerate(costs):
                loss = there - costs[here]
                if place == here or bias[place] is None:
                    continue
                if least is not None and loss - relief[here] - relief[place] >= least:
                    continue
                changed = self._over_after(talker, here, place) - over[here] - over[place]
                if free_at[place] > now and not (
                    wanted is not None and loss < wanted and sum(over) + changed == 0
                ):
                    continue
                if least is None or loss + self._weight * changed < least:
                    least, chosen = loss + self._weight * changed, ((talker, place),)
        for a, b in combinations(range(len(self.places)), 2):
            here, there = self.places[a], self.places[b]
            if here == there:
                continue
            loss = self._loss_of_exchange(a, b)
            if least is not None and loss - relief[here] - relief[there] >= least:
                continue
            if not self._may_exchange(a, b):
                continue
            changed = self._over_after(a, here, there, self.talkers.sizes[b]) - over[here] - over[there]
            rests = self._free_at[a][there] > now or self._free_at[b][here] > now
            if rests and not (wanted is not None and loss < wanted and sum(over) + changed == 0):
                continue
            if least is None or loss + self._weight * changed < least:
                least, chosen = loss + self._weight * changed, ((a, there), (b, here))
        return chosen

    def _over_after(self, talker: int, here: int, there: int, back: Size = (0, 0)) -> int:
        """What would be too much in both if it went from here to there, and one of that size came back."""
        cpu, memory = self.talkers.sizes[talker]
        cpu, memory = cpu - back[0], memory - back[1]
        return self._over(here, -cpu, -memory) + self._over(there, cpu, memory)

    def _over(self, place: int, cpu: int, memory: int) -> int:
        """How much too much would be there, in thousandths of its room, up."""
        room = self.talkers.room[place]
        if room is None:
            return 0
        used = self._used[place]
        over, above = used[0] + cpu - room[0], used[1] + memory - room[1]
        much = -(-over * _WHOLE // max(1, room[0])) if over > 0 else 0
        return much - (-above * _WHOLE // max(1, room[1])) if above > 0 else much
