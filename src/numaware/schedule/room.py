"""What is free on a node, as plain numbers for scores: to pin, NUMA node by NUMA node, and not requested, in all.

A device may be shared by pods in thousandths (GPU sharing, which kubelets know nothing of), so devices are counted in
thousandths, one by one; CPUs and memory are summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from numaware.twin.account import free_cpus, free_devices, free_memory
from numaware.twin.device.manager import Inventory
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.workload.demand import Amounts

WHOLE = 1000
# A share of one device of the node's GPU resource, in thousandths.
SHARE_RESOURCE = "numaware.io/gpu-milli"

Spans = Literal["freely", "if needed", "never"]
# When a kubelet with this policy lets a pod lie on several NUMA nodes; with any other it does so freely. One that does its
# best refuses nobody, but room on a single NUMA node is what it looks for, and what should be left for the next pod.
_SPANS: dict[str, Spans] = {
    "best-effort": "if needed",
    "restricted": "if needed",
    "single-numa-node": "never",
}


class NumaRoom(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Free to pin on one NUMA node: CPUs, bytes, and what is left of each GPU, ascending; used-up ones are left out."""

    cpus: int
    memory: int
    gpus: tuple[int, ...]


class Room(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What is free on a node: `zones` to pin (`twin/account.py`), `cpus` and `memory` not requested by any pod.

    Pods that own nothing take from no zone, but they request.
    """

    zones: tuple[NumaRoom, ...]
    cpus: int
    memory: int

    @property
    def whole(self) -> NumaRoom:
        """The node as if it were one zone."""
        gpus = tuple(sorted([left for zone in self.zones for left in zone.gpus]))
        return NumaRoom(self.cpus, self.memory, gpus)

    @property
    def gpus(self) -> int:
        """What is left of all GPUs together."""
        return sum([sum(zone.gpus) for zone in self.zones])

    @property
    def capped(self) -> tuple[NumaRoom, ...]:
        """The zones, none with more than the node has left."""
        cpus, memory = self.cpus, self.memory
        for zone in self.zones:
            if zone.cpus > cpus or zone.memory > memory:
                break
        else:
            return self.zones
        return tuple(
            [NumaRoom(min(zone.cpus, cpus), min(zone.memory, memory), zone.gpus) for zone in self.zones]
        )


class Site(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A kind of machine: what is free when nothing runs, how far its zones are apart, when pods may span them.

    `spans` is "freely" where the kubelet does not mind, "if needed" where a pod that fits no single zone may lie on
    several, "never" else. `alike` are the fields of a zone of which a pod must need several zones each, or none, to lie on
    several: a restricted kubelet refuses a pod for two zones of GPUs whose memory fits into one.
    """

    empty: Room
    distances: tuple[tuple[int, ...], ...]
    spans: Spans
    alike: tuple[str, ...] = ()


def gpus_left(gpus: tuple[int, ...], count: int, share: int) -> Iterator[tuple[int, ...]]:
    """What may be left of GPUs, ascending, when a pod has taken whole ones or a share of one; nothing if it cannot."""
    if count:
        if len(gpus) >= count and gpus[-count] == WHOLE:
            yield gpus[:-count]
        return
    if not share:
        yield gpus
        return
    last = 0
    for index, left in enumerate(gpus):
        if left >= share and left != last:
            last = left
            rest = gpus[:index] + gpus[index + 1 :]
            yield tuple(sorted((*rest, left - share))) if left > share else rest


def room(
    node: Node, shares: Mapping[int, int], allocatable: Mapping[str, int], used: Mapping[str, int]
) -> Room:
    """What is free on a node whose pods request `used` of `allocatable`; see `zones` for `shares`."""
    return Room(
        numa_rooms(node, shares),
        (allocatable.get("cpu", 0) - used.get("cpu", 0)) // 1000,
        allocatable.get("memory", 0) - used.get("memory", 0),
    )


@lru_cache(maxsize=1024)
def site(kubelet: Kubelet, allocatable: Amounts) -> Site:
    """The kind of machine that a node is."""
    fresh = Node.fresh(kubelet.hardware, kubelet.config)
    return Site(
        room(fresh, {}, dict(allocatable), {}),
        tuple(numa.distances for numa in kubelet.hardware.numa),
        _SPANS.get(kubelet.config.topology_policy, "freely"),
        ("cpus",) * bool(kubelet.cpus) + ("memory",) * bool(kubelet.memory)
        if kubelet.config.topology_policy == "restricted"
        else (),
    )


@lru_cache(maxsize=1024)
def empty_whole(site: Site) -> NumaRoom:
    """Such a machine as if it were one zone, when nothing runs."""
    return site.empty.whole


def gpu_resource(node: Node) -> str | None:
    """The device resource that counts as the node's GPUs: the first by name that has `gpu` in it."""
    return _gpu_resource(node.kubelet)


@lru_cache(maxsize=1024)
def _gpu_resource(kubelet: Kubelet) -> str | None:
    return next((name for name in sorted(kubelet.devices.inventories) if "gpu" in name), None)


def numa_rooms(node: Node, shares: Mapping[int, int]) -> tuple[NumaRoom, ...]:
    """The zones of a node; `shares` is what is left of devices in shared use (device index -> thousandths)."""
    kubelet = node.kubelet
    cpus, memory, name = free_cpus(node), free_memory(node), _gpu_resource(kubelet)
    inventory, free = None, 0
    if name is not None:
        inventory, free = kubelet.devices.inventories[name], free_devices(node, name)
    parts = []
    for position, members in enumerate(kubelet.layout.node_cpus):
        gpus = (WHOLE,) * (free & inventory.on_node[position]).bit_count() if inventory else ()
        parts.append(NumaRoom((cpus & members).bit_count(), memory[position], gpus))
    if inventory and (shares or free & ~inventory.placed):
        _add_others(parts, inventory, free, shares)
    return tuple(parts)


def _add_others(parts: list[NumaRoom], inventory: Inventory, free: int, shares: Mapping[int, int]) -> None:
    """What is left of shared devices; devices without topology count with the first zone: they are as near to any."""
    unplaced = ~inventory.placed
    for position, on in enumerate(inventory.on_node):
        mine = on if position else on | unplaced
        left = [amount for device, amount in shares.items() if amount and mine >> device & 1]
        if not position:
            left += [WHOLE] * (free & unplaced).bit_count()
        if left:
            part = parts[position]
            parts[position] = NumaRoom(part.cpus, part.memory, tuple(sorted((*left, *part.gpus))))
