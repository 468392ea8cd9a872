"""Stranded capacity: what is free, but of no use to the pods that really come.

The measure of fragmentation gradient descent (Weng et al., USENIX ATC 2023), taken per NUMA node: for each typical pod,
the free capacity of a zone that the pod cannot use is a fragment; weighted by how often such pods come, the sum is
what the node wastes. A placement is good if it leaves less of it.
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
    """Some kinds of pods, and answers remembered for amounts that no kind tells apart."""

    def __init__(self, kinds: list[tuple[Need, int]], by_gpus: bool) -> None:
        self.kinds = kinds
        self.by_gpus = by_gpus
        self.cpu_steps = sorted({need.cpus for need, _ in kinds})
        self.memory_steps = sorted({need.memory for need, _ in kinds})
        self._known: dict[tuple[tuple[int, ...], int, int], int] = {}

    def useful(self, zone: Zone) -> int:
        """What the kinds can use of a zone, each times how often it comes."""
        gpus = zone.gpus if self.by_gpus else ()
        cpus, memory = bisect_right(self.cpu_steps, zone.cpus), bisect_right(self.memory_steps, zone.memory)
        known = self._known.get((gpus, cpus, memory))
        if known is None:
            known = self._known[gpus, cpus, memory] = sum(
                count * (_usable(gpus, need) if self.by_gpus else 1)
                for need, count in self.kinds
                if need.cpus <= zone.cpus and need.memory <= zone.memory
            )
        return known if self.by_gpus else known * zone.cpus * WHOLE


def _fits(need: Need, zone: Zone) -> bool:
    return (
        need.cpus <= zone.cpus
        and need.memory <= zone.memory
        and sum(left >= need.milli for left in zone.gpus) >= need.gpus
    )


def _usable(gpus: tuple[int, ...], need: Need) -> int:
    """What of the idle GPUs a pod can use: nothing, or all that is on GPUs with room for it."""
    fitting = [left for left in gpus if left >= need.milli]
    return sum(fitting) if len(fitting) >= need.gpus else 0
