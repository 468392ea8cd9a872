"""How many pods of each expected kind fit beside each other into an amount, and what all of them would use of it.

Most of what an engine does on a cluster of many different nodes is this question, so it is asked of sets: each kind has
a bit for its first pod, one for its second, and so on. An amount of one resource is the set of pods that it is enough
for, and what CPUs, memory and GPUs have in common is what fits. Bits of first pods come before those of second ones, so
sets of few pods are small numbers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import getitem, or_

from numaware.schedule.need import Need
from numaware.schedule.room import WHOLE, NumaRoom

# Pods of one kind that are counted beside each other on one zone; more of them would not change what is best.
_MOST_TOGETHER = 16
# Sets whose use is remembered for one mix of pods.
_MOST_SETS = 1 << 16
# Each byte as eight numbers of 32 bits, one for each of its bits, the lowest first.
_NUMBERS = [b"".join([(byte >> bit & 1).to_bytes(4, "little") for bit in range(8)]) for byte in range(256)]


class PodSets:
    """Which pods of these kinds fit: for each resource, and for all of them together."""

    def __init__(self, needs: tuple[Need, ...]) -> None:
        self.cpus = _Enough([need.cpus for need in needs])
        self.memory = _Enough([need.memory for need in needs])
        self.gpus = _Served(needs) if any(need.gpus for need in needs) else None

    def fitting(self, zone: NumaRoom) -> int:
        pods = self.cpus.pods(zone.cpus) & self.memory.pods(zone.memory)
        return pods & self.gpus.pods(zone.gpus) if self.gpus is not None else pods


class _Enough:
    """Which pods an amount of one resource is enough for: the more there is, the more of them."""

    def __init__(self, wanted: Sequence[int]) -> None:
        added: dict[int, int] = {0: 0}
        for count in range(_MOST_TOGETHER):
            bit = 1 << count * len(wanted)
            for amount in wanted:
                step = amount * (count + 1)
                added[step] = added.get(step, 0) | bit
                bit <<= 1
        # Less than nothing is as good as nothing.
        first, *self._steps = sorted(added)
        self._sets = [*accumulate([added[step] for step in (first, *self._steps)], or_)]

    def pods(self, amount: int) -> int:
        return self._sets[bisect_right(self._steps, amount)]


class _Served:
    """Which pods GPUs serve. Kinds that want as large a part of as many GPUs are worked out together."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self._parts = sorted({need.milli for need in needs})
        groups: dict[tuple[int, int], int] = {}
        for index, need in enumerate(needs):
            group = self._parts.index(need.milli), need.gpus
            groups[group] = groups.get(group, 0) | 1 << index
        # The place of the part, the number of GPUs, and the first, the first two, ... pods of all these kinds.
        self._groups = [
            (
                part,
                gpus,
                [0, *accumulate([first << count * len(needs) for count in range(_MOST_TOGETHER)], or_)],
            )
            for (part, gpus), first in groups.items()
        ]
        self._known: dict[tuple[int, ...], int] = {(): 0}

    def pods(self, gpus: tuple[int, ...]) -> int:
        """`gpus` is what is left of each, ascending."""
        known = self._known.get(gpus)
        if known is None:
            counts = [sum([left // part for left in gpus]) for part in self._parts]
            known = 0
            for part, each, pods in self._groups:
                known |= pods[min(counts[part] // each, _MOST_TOGETHER)]
            self._known[gpus] = known
        return known


@lru_cache(maxsize=64)
def pod_sets(needs: tuple[Need, ...]) -> PodSets:
    """The sets of these kinds; they last longer than the weights do."""
    return PodSets(needs)


class FittingPods:
    """Kinds of pods with a weight each, and what as many of each as fit would use of a zone."""

    def __init__(self, kinds: Sequence[tuple[Need, int]], *, by_gpus: bool) -> None:
        self.kinds = kinds
        self.sets = pod_sets(tuple([need for need, _ in kinds]))
        self._by_gpus = by_gpus
        # What one pod of each kind uses, in thousandths of GPUs or CPUs, times its weight.
        self._worth = [weight * need.size(by_gpus=by_gpus) for need, weight in kinds]
        # What the pods of a set use is the sum of what its bytes stand for, each looked up in a list of its own.
        self._bytes: list[list[int]] = []
        self._known: dict[int, int] = {0: 0}

    def useful(self, zone: NumaRoom) -> int:
        """What as many pods of a kind as fit together would use of a zone, summed over kinds by weight."""
        return self.used_by(self.sets.fitting(zone))

    def used_by(self, pods: int) -> int:
        """What a set of pods would use."""
        known = self._known.get(pods)
        if known is None:
            if len(self._known) >= _MOST_SETS:
                self._known.clear()
            content = _bytes_of(pods)
            while len(self._bytes) < len(content):
                self._bytes.append(self._sums(8 * len(self._bytes)))
            known = self._known[pods] = sum(map(getitem, self._bytes, content))
        return known

    def _sums(self, first: int) -> list[int]:
        """What eight pods from this one on use, for each choice of them."""
        sums = [0]
        for bit in range(first, first + 8):
            worth = self._worth[bit % len(self._worth)]
            sums += [some + worth for some in sums]
        return sums

    def usable(self, zones: Mapping[NumaRoom, int]) -> dict[Need, int]:
        """What each kind on its own could use of all these zones, each of which there are so many of."""
        alike: dict[int, int] = {}
        for zone, count in zones.items():
            pods = self.sets.fitting(zone)
            alike[pods] = alike.get(pods, 0) + count
        # All bits are counted at once, as numbers that one very long number consists of.
        total = 0
        for pods, count in alike.items():
            numbers = b"".join(map(_NUMBERS.__getitem__, _bytes_of(pods)))
            total += count * int.from_bytes(numbers, "little")
        kinds = len(self.kinds)
        counts = array("I", total.to_bytes(4 * kinds * _MOST_TOGETHER + 32, "little"))
        return {
            need: sum(counts[index : kinds * _MOST_TOGETHER : kinds]) * need.size(by_gpus=self._by_gpus)
            for index, (need, _) in enumerate(self.kinds)
        }


def _bytes_of(pods: int) -> bytes:
    return pods.to_bytes((pods.bit_length() + 7) // 8, "little")
