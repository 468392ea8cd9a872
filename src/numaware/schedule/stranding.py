"""Stranded capacity: what is free, but of no use to the pods that really come.

The measure of fragmentation gradient descent (Weng et al., USENIX ATC 2023), taken per NUMA node: for each typical pod,
the free capacity of a zone that the pod cannot use is a fragment; weighted by how often such pods come, the sum is
what the node wastes. A placement is good if it leaves less of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from numaware.schedule.zones import SHARE_RESOURCE, WHOLE, Zone
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
    """The kinds of pods that come, and how often each was seen."""

    def __init__(self, seen: Mapping[Need, int] = MappingProxyType({})) -> None:
        self.kinds = tuple(sorted(seen.items()))
        self.total = sum(seen.values())
        self._known: dict[tuple[tuple[Zone, ...], bool], int] = {}

    def stranded(self, zones: tuple[Zone, ...], *, together: bool) -> int:
        """Weighted fragments of a node in thousandths of a GPU (of a CPU where there are none), times `total`.

        `together` when the kubelet lets a pod span NUMA nodes: then the node is one zone.
        """
        known = self._known.get((zones, together))
        if known is None:
            parts = (_joined(zones),) if together else zones
            known = self._known[zones, together] = sum(
                weight * _fragment(zone, need, parts) for need, weight in self.kinds for zone in parts
            )
        return known


def _joined(zones: tuple[Zone, ...]) -> Zone:
    return Zone(
        sum(zone.cpus for zone in zones),
        sum(zone.memory for zone in zones),
        tuple(sorted(left for zone in zones for left in zone.gpus)),
    )


def _fragment(zone: Zone, need: Need, parts: tuple[Zone, ...]) -> int:
    """What of a zone's free capacity the pod cannot use."""
    has_gpus = any(part.gpus for part in parts)
    idle = sum(zone.gpus) if has_gpus else zone.cpus * WHOLE
    if zone.cpus < need.cpus or zone.memory < need.memory:
        return idle
    if not need.gpus:
        return 0
    fitting = [left for left in zone.gpus if left >= need.milli]
    if len(fitting) < need.gpus:
        return idle
    return idle - sum(fitting)
