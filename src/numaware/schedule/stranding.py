"""Stranded capacity: what is free, but of no use to the pods that really come.

The idea of fragmentation gradient descent (Weng et al., USENIX ATC 2023), taken per NUMA node and one step further. For
each kind of pod, as many of it are put on a zone as fit beside each other, by CPUs, memory and GPUs; what stays free then
is stranded for that kind. (FGD asks whether one such pod fits, and so sees too late that eight GPUs with CPUs for five
pods are not eight usable GPUs.) Weighted by how often each kind comes, the sum is what the node wastes, and a placement
is good if it leaves less of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from numaware.schedule.zones import SHARE_RESOURCE, WHOLE, Room, Site, Zone
from numaware.workload.demand import demand
from numaware.workload.pod import Container, Pod, amount, milli, units

# Pods of one kind that are counted beside each other on one zone; more of them would not change what is best.
_MOST_TOGETHER = 16


class Need(NamedTuple):
    """What one pod of a kind takes, in the units of `Zone`; `milli` is the part of each GPU, WHOLE for all of it."""

    cpus: int
    memory: int
    gpus: int
    milli: int


def need_of(pod: Pod, gpu: str) -> Need:
    """What a pod takes of CPUs, memory and the device resource `gpu`."""
    return _need(pod.containers, pod.init_containers, gpu)


@lru_cache(maxsize=8192)
def _need(containers: tuple[Container, ...], init_containers: tuple[Container, ...], gpu: str) -> Need:
    wanted = demand(Pod("", containers=containers, init_containers=init_containers))
    share = sum(units(amount(container.limits, SHARE_RESOURCE)) for container in containers)
    cpus = sum(milli(amount(container.requests, "cpu")) for container in containers)
    memory = sum(units(amount(container.requests, "memory")) for container in containers)
    return Need(-(-cpus // 1000), memory, 1 if share else dict(wanted.devices).get(gpu, 0), share or WHOLE)


class Mix:
    """The kinds of pods that come, and how often each was seen.

    If some of them want GPUs, idle GPUs are what can be stranded, and the others have no say; if none does, CPUs are.
    """

    def __init__(self, seen: Mapping[Need, int] = MappingProxyType({})) -> None:
        self.by_gpus = any(need.gpus for need in seen)
        self.kinds = tuple(sorted(item for item in seen.items() if bool(item[0].gpus) == self.by_gpus))
        self.total = sum(count for _, count in self.kinds)
        self._tables: dict[tuple[tuple[Zone, ...], str], tuple[_Table, _Table]] = {}

    def stranded(self, site: Site, room: Room) -> int:
        """What the pods of the mix cannot use of a node, on average, in thousandths of a GPU (or CPU), times `total`."""
        narrow, wide = self._for(site)
        parts = () if site.spans == "freely" else room.capped
        idle = sum(self._idle(part) for part in parts) if parts else self._idle(room.whole)
        useful = sum(narrow.useful(part) for part in parts)
        if wide.kinds and site.spans != "never":
            useful += wide.useful(room.whole)
        return idle * self.total - useful

    def _idle(self, zone: Zone) -> int:
        return sum(zone.gpus) if self.by_gpus else zone.cpus * WHOLE

    def _for(self, site: Site) -> tuple[_Table, _Table]:
        """The kinds that are judged zone by zone on such a machine, and those that need more than one zone there."""
        place = site.empty.zones, site.spans
        tables = self._tables.get(place)
        if tables is None:
            narrow = [
                (need, count)
                for need, count in self.kinds
                if site.spans != "freely" and any(_fits(need, zone) for zone in site.empty.zones)
            ]
            wide = [kind for kind in self.kinds if kind not in narrow]
            tables = self._tables[place] = _Table(narrow, self.by_gpus), _Table(wide, self.by_gpus)
        return tables


class _Table:
    """Some kinds of pods, and answers remembered for amounts that no number of such pods tells apart."""

    def __init__(self, kinds: list[tuple[Need, int]], by_gpus: bool) -> None:
        self.kinds = kinds
        self.by_gpus = by_gpus
        counts = range(1, _MOST_TOGETHER + 1)
        self.cpu_steps = sorted({count * need.cpus for need, _ in kinds for count in counts})
        self.memory_steps = sorted({count * need.memory for need, _ in kinds for count in counts})
        self._known: dict[tuple[tuple[int, ...], int, int], int] = {}

    def useful(self, zone: Zone) -> int:
        """What pods of each kind could use of a zone, times how often the kind comes."""
        place = (
            zone.gpus if self.by_gpus else (),
            bisect_right(self.cpu_steps, zone.cpus),
            bisect_right(self.memory_steps, zone.memory),
        )
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = sum(count * self._usable(zone, need) for need, count in self.kinds)
        return known

    def _usable(self, zone: Zone, need: Need) -> int:
        """What as many pods of a kind as fit together would use, in thousandths of GPUs or CPUs."""
        pods = _MOST_TOGETHER
        if need.cpus:
            pods = min(pods, zone.cpus // need.cpus)
        if need.memory:
            pods = min(pods, zone.memory // need.memory)
        if not self.by_gpus:
            return pods * need.cpus * WHOLE
        if need.gpus > 1:
            whole = sum(left == WHOLE for left in zone.gpus)
            return min(pods, whole // need.gpus) * need.gpus * WHOLE
        return min(pods, sum(left // need.milli for left in zone.gpus)) * need.milli


def _fits(need: Need, zone: Zone) -> bool:
    return (
        need.cpus <= zone.cpus
        and need.memory <= zone.memory
        and sum(left >= need.milli for left in zone.gpus) >= need.gpus
    )
