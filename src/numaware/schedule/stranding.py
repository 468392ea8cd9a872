"""Stranded capacity: what is free, but of no use to the pods that really come.

The idea of fragmentation gradient descent (Weng et al., USENIX ATC 2023), taken per NUMA node and one step further. For
each kind of pod, as many of it are put on a zone as fit beside each other, by CPUs, memory and GPUs; what stays free then
is stranded for that kind. (FGD asks whether one such pod fits, and so sees too late that eight GPUs with CPUs for five
pods are not eight usable GPUs.) The weighted sum over all kinds is what the node wastes, and a placement is good if it leaves less of it. Which kinds count how much is `outlook.py`'s to say.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import mul
from types import MappingProxyType
from typing import NamedTuple

from numaware.schedule.room import SHARE_RESOURCE, WHOLE, NumaRoom, Room, Site
from numaware.workload.demand import demand
from numaware.workload.pod import Container, Pod, amount, milli, units

# Pods of one kind that are counted beside each other on one zone; more of them would not change what is best.
_MOST_TOGETHER = 16
# Zones whose loss is remembered for one mix of pods.
_MOST_ZONES = 1 << 16


class Need(NamedTuple):
    """What one pod of a kind takes, in the units of `NumaRoom`; `milli` is the part of each GPU, WHOLE for all of it.

    `pinned` says that its CPUs and memory are its own, and no others.
    """

    cpus: int
    memory: int
    gpus: int
    milli: int
    pinned: bool = False

    def size(self, *, by_gpus: bool) -> int:
        """What such a pod uses of what is counted, in thousandths of GPUs or CPUs."""
        return self.gpus * self.milli if by_gpus else self.cpus * WHOLE


def need_of(pod: Pod, gpu: str) -> Need:
    """What a pod takes of CPUs, memory and the device resource `gpu`."""
    return _need(pod.containers, pod.init_containers, gpu)


@lru_cache(maxsize=8192)
def _need(containers: tuple[Container, ...], init_containers: tuple[Container, ...], gpu: str) -> Need:
    wanted = demand(Pod("", containers=containers, init_containers=init_containers))
    share = sum(units(amount(container.limits, SHARE_RESOURCE)) for container in containers)
    cpus = sum(milli(amount(container.requests, "cpu")) for container in containers)
    memory = sum(units(amount(container.requests, "memory")) for container in containers)
    gpus = 1 if share else dict(wanted.devices).get(gpu, 0)
    return Need(-(-cpus // 1000), memory, gpus, share or WHOLE, bool(wanted.cpus or wanted.memory))


class Mix:
    """The kinds of pods that are expected, and the weight of each: how often it came, or what `outlook` makes of that.

    If some of them want GPUs, idle GPUs are what can be stranded, and the others have no say; if none does, CPUs are.
    """

    def __init__(self, weights: Mapping[Need, int] = MappingProxyType({})) -> None:
        self.by_gpus = any(need.gpus for need in weights)
        self.kinds = tuple(sorted(item for item in weights.items() if bool(item[0].gpus) == self.by_gpus))
        self.total = sum(weight for _, weight in self.kinds)
        self._sites: dict[Site, tuple[_Table, _Table]] = {}

    def stranded(self, site: Site, room: Room) -> int:
        """What the pods of the mix cannot use of a node, on average, in thousandths of a GPU (or CPU), times `total`."""
        narrow, wide = self.tables(site)
        if site.spans == "freely" or not room.zones:
            lost = narrow.idle(room.whole)
        else:
            lost = sum(map(narrow.lost, room.capped))
        if wide.kinds and site.spans != "never":
            lost -= wide.useful(room.whole)
        return lost

    def is_local(self, site: Site) -> bool:
        """Whether what is stranded on such a machine is the sum of what is stranded on its zones."""
        return site.spans == "never" or (site.spans != "freely" and not self.tables(site)[1].kinds)

    def relief(
        self,
        site: Site,
        before: Sequence[NumaRoom],
        after: Sequence[NumaRoom],
        wholes: tuple[NumaRoom, NumaRoom] | None,
    ) -> int:
        """By how much `stranded` falls at most when these zones, or these wholes where pods lie freely, become others.

        `wholes` is the node as one zone, before and after, for the kinds that need more than one. What else may change (the
        node's totals are a limit to every zone) can only make the fall less, as long as GPUs are what is stranded: fewer
        CPUs make no GPU more useful.
        """
        narrow, wide = self.tables(site)
        lost = wide.lost if site.spans == "freely" else narrow.lost
        fall = sum(map(lost, before)) - sum(map(lost, after))
        if wholes is not None and wide.kinds and site.spans == "if needed":
            fall -= wide.useful(wholes[0]) - wide.useful(wholes[1])
        return fall

    def tables(self, site: Site) -> tuple[_Table, _Table]:
        """The kinds that are judged zone by zone on such a machine, and those that need more than one zone there."""
        return self._sites.get(site) or self._for(site)

    def supply(self, machines: Mapping[tuple[Site, Room], int]) -> dict[Need, int]:
        """How much of all that is free each kind could use if only it came: thousandths of GPUs (or CPUs)."""
        usable = dict.fromkeys((need for need, _ in self.kinds), 0)
        for (site, room), count in machines.items():
            narrow, wide = self.tables(site)
            if site.spans != "freely":
                for zone in room.capped:
                    narrow.add_usable(usable, zone, count)
            if site.spans != "never":
                wide.add_usable(usable, room.whole, count)
        return usable

    def _for(self, site: Site) -> tuple[_Table, _Table]:
        narrow, wide = [], []
        for kind in self.kinds:
            if site.spans != "freely" and any(_fits(kind[0], zone) for zone in site.empty.zones):
                narrow.append(kind)
            elif _fits(kind[0], site.empty.whole) and _may_span(kind[0], site):
                wide.append(kind)
        tables = (
            _Table(narrow, self.total, by_gpus=self.by_gpus),
            _Table(wide, self.total, by_gpus=self.by_gpus),
        )
        self._sites[site] = tables
        return tables


class _Table:
    """Some kinds of pods, and answers remembered for amounts that no number of such pods tells apart.

    How many pods of every kind would fit is worked out for each resource on its own, and remembered: there are few
    amounts of each, and many combinations.
    """

    def __init__(self, kinds: list[tuple[Need, int]], total: int, *, by_gpus: bool) -> None:
        self.kinds = kinds
        self.total = total
        self.by_gpus = by_gpus
        needs = [need for need, _ in kinds]
        self._cpus = _Steps([need.cpus for need in needs])
        self._memory = _Steps([need.memory for need in needs])
        # What one pod of each kind uses, in thousandths of GPUs or CPUs, times its weight.
        self._worth = [weight * need.size(by_gpus=by_gpus) for need, weight in kinds]
        # Where nobody wants a part of a GPU, the number of whole ones says all.
        self.whole_only = all(need.milli == WHOLE for need in needs)
        self._gpus: dict[tuple[int, ...] | int, list[int]] = {}
        self._known: dict[tuple[tuple[int, ...] | int, int, int], int] = {}
        self._lost: dict[NumaRoom, int] = {}

    def idle(self, zone: NumaRoom) -> int:
        """What is free of a zone, for each pod that was seen."""
        return self.total * (sum(zone.gpus) if self.by_gpus else zone.cpus * WHOLE)

    def lost(self, zone: NumaRoom) -> int:
        """What is free of a zone and of no use to these kinds; remembered, as few zones change at a time."""
        found = self._lost.get(zone)
        if found is None:
            if len(self._lost) >= _MOST_ZONES:
                self._lost.clear()
            found = self._lost[zone] = self.idle(zone) - self.useful(zone)
        return found

    def useful(self, zone: NumaRoom) -> int:
        """What as many pods of a kind as fit together would use of a zone, summed over kinds by weight."""
        return self.useful_by(self._gpus_that_count(zone), zone.cpus, zone.memory)

    def useful_by(self, gpus: tuple[int, ...] | int, cpus: int, memory: int) -> int:
        """The same of a zone whose GPUs are known by what counts of them: their number where they are `whole_only`."""
        if self.by_gpus and not gpus:
            return 0
        cpus, memory = self._cpus.step(cpus), self._memory.step(memory)
        known = self._known.get((gpus, cpus, memory))
        if known is None:
            known = self._known[gpus, cpus, memory] = sum(
                map(mul, self._worth, self._pods(gpus, cpus, memory))
            )
        return known

    def add_usable(self, usable: dict[Need, int], zone: NumaRoom, count: int) -> None:
        """Add what each kind on its own would use of so many such zones."""
        gpus = self._gpus_that_count(zone)
        if self.kinds and (gpus or not self.by_gpus):
            pods = self._pods(gpus, self._cpus.step(zone.cpus), self._memory.step(zone.memory))
            for (need, _), fitting in zip(self.kinds, pods, strict=True):
                if fitting:
                    usable[need] += count * fitting * need.size(by_gpus=self.by_gpus)

    def _gpus_that_count(self, zone: NumaRoom) -> tuple[int, ...] | int:
        if not self.by_gpus:
            return ()
        return zone.gpus.count(WHOLE) if self.whole_only else zone.gpus

    def _pods(self, gpus: tuple[int, ...] | int, cpus: int, memory: int) -> Iterator[int]:
        """How many pods of each kind would fit beside each other, by the steps that CPUs and memory are at."""
        return map(min, self._slots(gpus), self._cpus.pods(cpus), self._memory.pods(memory))

    def _slots(self, gpus: tuple[int, ...] | int) -> list[int]:
        """How many pods of each kind the GPUs would serve."""
        if not self.by_gpus:
            return [_MOST_TOGETHER] * len(self.kinds)
        slots = self._gpus.get(gpus)
        if slots is None:
            lefts = (WHOLE,) * gpus if isinstance(gpus, int) else gpus
            # Many kinds want as large a part of a GPU: each part is worked out once.
            parts = {
                part: sum([left // part for left in lefts]) for part in {need.milli for need, _ in self.kinds}
            }
            slots = self._gpus[gpus] = [parts[need.milli] // need.gpus for need, _ in self.kinds]
        return slots


class _Steps:
    """How many pods of each kind an amount is enough for; amounts between the same two steps are enough for as many."""

    def __init__(self, wanted: list[int]) -> None:
        self.wanted = wanted
        self.steps = sorted(
            {count * amount for amount in wanted for count in range(1, _MOST_TOGETHER + 1) if amount}
        )
        self._known: dict[int, list[int]] = {}

    def step(self, amount: int) -> int:
        return bisect_right(self.steps, amount)

    def pods(self, step: int) -> list[int]:
        known = self._known.get(step)
        if known is None:
            amount = self.steps[step - 1] if step else 0
            known = self._known[step] = [
                min(_MOST_TOGETHER, amount // one) if one else _MOST_TOGETHER for one in self.wanted
            ]
        return known


def _may_span(need: Need, site: Site) -> bool:
    """Whether such a machine lets a pod that fits no single zone lie on several."""
    if not (need.pinned and site.alike):
        return True
    zones = site.empty.zones
    return not any(0 < need.gpus <= len(zone.gpus) for zone in zones) and not any(
        0 < getattr(need, field) <= getattr(zone, field) for field in site.alike for zone in zones
    )


def _fits(need: Need, zone: NumaRoom) -> bool:
    return (
        need.cpus <= zone.cpus
        and need.memory <= zone.memory
        and sum(left >= need.milli for left in zone.gpus) >= need.gpus
    )
