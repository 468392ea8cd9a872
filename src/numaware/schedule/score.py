"""How good a placement is, from what it leaves behind. Every score is an integer from 0 to 1000, higher is better.

The strategies known from NodeResourceTopology (least, most, balanced allocation, fewest NUMA nodes) are taken on the
NUMA nodes the kubelet will really use, not on the best-looking ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numaware.schedule.stranding import Mix
from numaware.schedule.zones import WHOLE, Zone

TOP = 1000


class Outcome(NamedTuple):
    """A placement to be judged: the node's zones before and after, and what they have when nothing runs."""

    before: tuple[Zone, ...]
    after: tuple[Zone, ...]
    empty: tuple[Zone, ...]
    distances: tuple[tuple[int, ...], ...]
    together: bool

    @property
    def used(self) -> list[int]:
        """The zones the placement takes something from."""
        return [
            index
            for index, pair in enumerate(zip(self.before, self.after, strict=True))
            if pair[0] != pair[1]
        ]


Score = Callable[[Outcome, Mix], int]


def distance(outcome: Outcome, _mix: Mix) -> int:
    """Fewest NUMA nodes, then the least distance between them; TOP for a placement on one node."""
    used = outcome.used
    if len(used) <= 1:
        return TOP
    local = min((row[index] for index, row in enumerate(outcome.distances) if index < len(row)), default=10)
    total = 0
    for first in used:
        for second in used:
            row = outcome.distances[first]
            # A machine that does not tell its distances is judged by the number of nodes alone.
            total += row[second] if second < len(row) else local if first == second else 2 * local
    return TOP * local * len(used) // total


def most_allocated(outcome: Outcome, _mix: Mix) -> int:
    """Fill what is already in use."""
    return _mean([TOP - _free_share(outcome, index) for index in outcome.used])


def least_allocated(outcome: Outcome, _mix: Mix) -> int:
    """Keep the used zones as empty as possible."""
    return _mean([_free_share(outcome, index) for index in outcome.used])


def balanced(outcome: Outcome, _mix: Mix) -> int:
    """CPUs, memory and GPUs of the used zones filled alike."""
    return _mean([TOP - _spread(_shares(outcome, index)) for index in outcome.used])


def stranding(outcome: Outcome, mix: Mix) -> int:
    """The less capacity the placement strands (or the more it rescues), the better; TOP / 2 when nothing changes."""
    before = mix.stranded(outcome.before, together=outcome.together)
    after = mix.stranded(outcome.after, together=outcome.together)
    scale = max(1, mix.total) * max(1, *(_capacity(zone, outcome.empty) for zone in outcome.empty))
    return max(0, min(TOP, TOP // 2 + TOP * (before - after) // (2 * scale)))


SCORES: dict[str, Score] = {
    "balanced-allocation": balanced,
    "distance": distance,
    "least-allocated": least_allocated,
    "most-allocated": most_allocated,
    "stranding": stranding,
}


def _mean(values: list[int]) -> int:
    return sum(values) // len(values) if values else TOP // 2


def _shares(outcome: Outcome, index: int) -> list[int]:
    """Free parts (of TOP) of each kind of resource that a zone has at all."""
    after, empty = outcome.after[index], outcome.empty[index]
    pairs = ((after.cpus, empty.cpus), (after.memory, empty.memory), (sum(after.gpus), sum(empty.gpus)))
    return [TOP * free // total for free, total in pairs if total]


def _free_share(outcome: Outcome, index: int) -> int:
    shares = _shares(outcome, index)
    return sum(shares) // len(shares) if shares else 0


def _spread(shares: list[int]) -> int:
    return max(shares) - min(shares) if shares else 0


def _capacity(zone: Zone, parts: tuple[Zone, ...]) -> int:
    return sum(zone.gpus) if any(part.gpus for part in parts) else zone.cpus * WHOLE
