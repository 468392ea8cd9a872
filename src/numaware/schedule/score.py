"""How good a placement is, from what it leaves behind. Every score is an integer from 0 to a million, higher is better.

The strategies known from NodeResourceTopology (least, most, balanced allocation, fewest NUMA nodes) are taken on the
NUMA nodes the kubelet will really use, not on the best-looking ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from numaware.schedule.room import WHOLE, NumaRoom, Room, Site, empty_whole
from numaware.schedule.stranding import Mix

TOP = 1_000_000


class ScoreInput(Protocol):
    """What scores look at: a placement that is known in full (`Outcome`), or in outline."""

    @property
    def site(self) -> Site: ...

    @property
    def used(self) -> Sequence[int]:
        """The zones the placement takes something from."""

    @property
    def parts(self) -> list[tuple[NumaRoom, NumaRoom]]:
        """The zones it takes something from, or the node as a whole: free afterwards, and when nothing runs."""

    @property
    def idle(self) -> tuple[int, int]:
        """Free thousandths of GPUs before and afterwards."""

    def fall(self, mix: Mix) -> int:
        """By how much less is stranded afterwards."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """A placement to be judged: the kind of machine, and what is free on it before and after."""

    site: Site
    before: Room
    after: Room

    @property
    def used(self) -> list[int]:
        return [index for index, zone in enumerate(self.before.zones) if self.after.zones[index] != zone]

    @property
    def parts(self) -> list[tuple[NumaRoom, NumaRoom]]:
        after, used = self.after, self.used
        if self.site.spans == "freely" or not used:
            return [(after.whole, empty_whole(self.site))]
        capped, empty = after.capped, self.site.empty
        return [(capped[index], empty.zones[index]) for index in used]

    @property
    def idle(self) -> tuple[int, int]:
        return self.before.gpus, self.after.gpus

    def fall(self, mix: Mix) -> int:
        return mix.fall(self.site, self.before, self.after)


Score = Callable[[ScoreInput, Mix], int]


def distance(outcome: ScoreInput, _mix: Mix) -> int:
    """Fewest NUMA nodes, then the least distance between them; TOP for a placement on one node."""
    used = outcome.used
    if len(used) <= 1:
        return TOP
    local = min(
        (row[index] for index, row in enumerate(outcome.site.distances) if index < len(row)), default=10
    )
    total = 0
    for first in used:
        for second in used:
            row = outcome.site.distances[first]
            # A machine that does not tell its distances is judged by the number of nodes alone.
            total += row[second] if second < len(row) else local if first == second else 2 * local
    return TOP * local * len(used) // total


def most_allocated(outcome: ScoreInput, _mix: Mix) -> int:
    """Fill what is already in use."""
    return _mean([TOP - _free(after, empty) for after, empty in outcome.parts])


def least_allocated(outcome: ScoreInput, _mix: Mix) -> int:
    """Keep the used zones as empty as possible."""
    return _mean([_free(after, empty) for after, empty in outcome.parts])


def balanced(outcome: ScoreInput, _mix: Mix) -> int:
    """CPUs, memory and GPUs of the used zones filled alike."""
    return _mean([TOP - _spread(_shares(after, empty)) for after, empty in outcome.parts])


def stranding(outcome: ScoreInput, mix: Mix) -> int:
    """The less capacity the placement strands (or the more it rescues), the better; TOP / 2 when nothing changes.

    Small differences count most: half of the way from TOP / 2 to either end is one GPU stranded, or rescued.
    """
    return stranding_score(outcome.fall(mix), mix)


def stranding_score(fall: int, mix: Mix) -> int:
    """The score of a placement after which so much less is stranded."""
    return TOP // 2 + TOP * fall // (2 * (abs(fall) + WHOLE * max(1, mix.total)))


def spare(outcome: ScoreInput, _mix: Mix) -> int:
    """Do not take CPUs and memory from beside idle GPUs for a pod that wants none of them."""
    before, left = outcome.idle
    return TOP - TOP * left // _gpus_of(outcome.site) if left and before == left else TOP


@lru_cache(maxsize=1024)
def _gpus_of(site: Site) -> int:
    return site.empty.gpus


def least_numa_nodes(outcome: ScoreInput, _mix: Mix) -> int:
    """As NodeResourceTopologyMatch counts with LeastNUMANodes: an eighth less for each NUMA node after the first."""
    return TOP - TOP * min(7, max(0, len(outcome.used) - 1)) // 8


def volcano(outcome: ScoreInput, _mix: Mix) -> int:
    """As Volcano's numa-aware plugin: the smaller the part of the node's NUMA nodes that the pod lies on, the better."""
    return TOP - TOP * len(outcome.used) // max(1, len(outcome.site.empty.zones))


def misalignment(outcome: ScoreInput) -> int:
    """0 for a pod on one NUMA node; more for each further one, and among as many more for those far apart."""
    extra = len(outcome.used) - 1
    return extra * (TOP + 1) + TOP - distance(outcome, _NO_MIX) if extra > 0 else 0


_NO_MIX = Mix()

SCORES: dict[str, Score] = {
    "balanced-allocation": balanced,
    "distance": distance,
    "least-allocated": least_allocated,
    "least-numa-nodes": least_numa_nodes,
    "most-allocated": most_allocated,
    "spare-gpus": spare,
    "stranding": stranding,
    "volcano": volcano,
}


def _mean(values: list[int]) -> int:
    return sum(values) // len(values) if values else TOP // 2


def _shares(after: NumaRoom, empty: NumaRoom) -> list[int]:
    """Free parts (of TOP) of each kind of resource that a zone has at all."""
    shares = []
    if empty.cpus:
        shares.append(TOP * after.cpus // empty.cpus)
    if empty.memory:
        shares.append(TOP * after.memory // empty.memory)
    if empty.gpus:
        shares.append(TOP * sum(after.gpus) // sum(empty.gpus))
    return shares


def _free(after: NumaRoom, empty: NumaRoom) -> int:
    shares = _shares(after, empty)
    return sum(shares) // len(shares) if shares else 0


def _spread(shares: list[int]) -> int:
    return max(shares) - min(shares) if shares else 0
