"""How many pods of each expected kind fit beside each other into an amount, and what all of them would use of it.

Most of what an engine does on a cluster of many different nodes is this question, so it is asked of sets: each kind has
a bit for its first pod, one for its second, and so on. An amount of one resource is the set of pods that it is enough
for, and what CPUs, memory and GPUs have in common is what fits. Bits stand in the order of the GPUs that so many pods need,
so what fits a zone with few GPUs is a small number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import getitem, or_

from numaware.schedule.need import Need
from numaware.schedule.room import NumaRoom, gpus_left

# Pods of one kind that are counted beside each other on one zone; more of them would not change what is best.
_MOST_TOGETHER = 16
# Sets whose use is remembered for one mix of pods.
_MOST_SETS = 1 << 16
# Amounts of a resource that are remembered for the same kinds of pods.
_MOST_AMOUNTS = 1 << 14
# Each byte as eight numbers of 32 bits, one for each of its bits, the lowest first.
_NUMBERS = [b"".join([(byte >> bit & 1).to_bytes(4, "little") for bit in range(8)]) for byte in range(256)]


class PodSets:
    """Which pods of these kinds fit: for each resource, and for all of them together."""

    def __init__(self, needs: tuple[Need, ...]) -> None:
        pods = sorted(
            [
                (need.gpus * need.milli * count, count, kind)
                for kind, need in enumerate(needs)
                for count in range(1, _MOST_TOGETHER + 1)
            ]
        )
        # The kind of each pod in the order of their bits, and the bits of each kind's pods.
        self.kinds = [kind for _, _, kind in pods]
        bits: list[list[int]] = [[] for _ in needs]
        for place, kind in enumerate(self.kinds):
            bits[kind].append(1 << place)
        self.first = [some[0] for some in bits]
        self.by_cpus = _Enough([need.cpus for need in needs], bits)
        self.by_memory = _Enough([need.memory for need in needs], bits)
        self.served = _Served(needs, bits)
        self._after: dict[tuple[int, int], ServedAfter] = {}

    def fitting(self, cpus: int, memory: int, gpus: tuple[int, ...]) -> int:
        return self.by_cpus[cpus] & self.by_memory[memory] & self.served[gpus]

    def served_after(self, count: int, share: int) -> ServedAfter:
        """The pods that GPUs still serve when a pod has taken whole ones or a share of one."""
        known = self._after.get((count, share))
        if known is None:
            known = self._after[count, share] = ServedAfter(self.served, count, share)
        return known


class ServedAfter(dict[tuple[int, ...], list[int]]):
    """By what is left of GPUs: the pods that they serve afterwards, for each choice there is; none if there is none."""

    def __init__(self, served: Mapping[tuple[int, ...], int], count: int, share: int) -> None:
        self._served, self._count, self._share = served, count, share

    def __missing__(self, gpus: tuple[int, ...]) -> list[int]:
        choices = gpus_left(gpus, self._count, self._share)
        served = self[gpus] = [self._served[left] for left in choices]
        return served


class _Enough(dict[int, int]):
    """The pods that an amount of one resource is enough for, by the amount."""

    def __init__(self, wanted: Sequence[int], bits: Sequence[Sequence[int]]) -> None:
        added: dict[int, int] = {0: 0}
        for amount, pods in zip(wanted, bits, strict=True):
            step = 0
            for bit in pods:
                step += amount
                added[step] = added.get(step, 0) | bit
        # Amounts, ascending, from which on it is enough for more pods; the pods below the first, from it on, ...
        # Less than nothing is as good as nothing.
        steps = sorted(added)
        self._steps = steps[1:]
        self._pods: list[int] = [*accumulate([added[step] for step in steps], or_)]

    def __missing__(self, amount: int) -> int:
        if len(self) >= _MOST_AMOUNTS:
            self.clear()
        pods = self[amount] = self._pods[bisect_right(self._steps, amount)]
        return pods


class _Served(dict[tuple[int, ...], int]):
    """The pods that GPUs serve, by what is left of each of them, ascending: all pods where nobody wants any.

    Kinds that want as large a part of as many GPUs are worked out together, and once.
    """

    def __init__(self, needs: Sequence[Need], bits: Sequence[Sequence[int]]) -> None:
        self._parts = tuple(sorted({need.milli for need in needs}))
        groups: dict[tuple[int, int], list[int]] = {}
        for need, pods in zip(needs, bits, strict=True):
            together = groups.setdefault((self._parts.index(need.milli), need.gpus), [0] * _MOST_TOGETHER)
            together[:] = map(or_, together, pods)
        # The place of the part, the number of GPUs, and no, the first, the first two, ... pods of all these kinds.
        self._groups = [
            (part, gpus, [0, *accumulate(together, or_)]) for (part, gpus), together in groups.items()
        ]

    def __missing__(self, gpus: tuple[int, ...]) -> int:
        counts = _parts_in(gpus, self._parts)
        fitting = 0
        for part, each, pods in self._groups:
            fitting |= pods[min(counts[part] // each, _MOST_TOGETHER) if each else _MOST_TOGETHER]
        self[gpus] = fitting
        return fitting


@lru_cache(maxsize=1 << 14)
def _parts_in(gpus: tuple[int, ...], parts: tuple[int, ...]) -> list[int]:
    """How many parts of each size GPUs have left."""
    return [sum([left // part for left in gpus]) for part in parts]


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
        # What sets are known to use.
        self.known: dict[int, int] = {0: 0}

    def useful(self, cpus: int, memory: int, gpus: tuple[int, ...]) -> int:
        """What as many pods of a kind as fit together would use, summed over kinds by weight."""
        return self.used_by(self.sets.fitting(cpus, memory, gpus))

    def used_by(self, pods: int) -> int:
        """What a set of pods would use."""
        known = self.known.get(pods)
        if known is None:
            if len(self.known) >= _MOST_SETS:
                self.known.clear()
            content = _bytes_of(pods)
            while len(self._bytes) < len(content):
                self._bytes.append(self._sums(8 * len(self._bytes)))
            known = self.known[pods] = sum(map(getitem, self._bytes, content))
        return known

    def _sums(self, first: int) -> list[int]:
        """What eight pods from this one on use, for each choice of them."""
        sums, kinds = [0], self.sets.kinds
        for bit in range(first, first + 8):
            worth = self._worth[kinds[bit]] if bit < len(kinds) else 0
            sums += [some + worth for some in sums]
        return sums

    def usable(self, zones: Mapping[NumaRoom, int]) -> dict[Need, int]:
        """What each kind on its own could use of all these zones, each of which there are so many of."""
        alike: dict[int, int] = {}
        for zone, count in zones.items():
            pods = self.sets.fitting(zone.cpus, zone.memory, zone.gpus)
            alike[pods] = alike.get(pods, 0) + count
        # All bits are counted at once, as numbers that one very long number consists of.
        total = 0
        for pods, count in alike.items():
            numbers = b"".join(map(_NUMBERS.__getitem__, _bytes_of(pods)))
            total += count * int.from_bytes(numbers, "little")
        counts = array("I", total.to_bytes(4 * len(self.sets.kinds) + 32, "little"))
        usable = [0] * len(self.kinds)
        for kind, count in zip(self.sets.kinds, counts, strict=False):
            usable[kind] += count
        return {
            need: count * need.size(by_gpus=self._by_gpus)
            for (need, _), count in zip(self.kinds, usable, strict=True)
        }


def _bytes_of(pods: int) -> bytes:
    return pods.to_bytes((pods.bit_length() + 7) // 8, "little")
