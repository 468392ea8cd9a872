"""The machine as the kubelet sees it (through cAdvisor and the device plugins), and the tables the managers use.

`Hardware` is the plain value, and as JSON a part of the format of `node_codec.py`: new fields come last. `Layout` holds
what follows from it: bit masks of CPUs per NUMA node, socket, core and last-level cache. Inside the twin a NUMA mask has
bit p for the p-th NUMA node in ascending id order, so that sparse ids cost nothing and comparing masks as integers still
orders them as the kubelet does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import msgspec

from numaware.machine.cpuset import MAX_ID, iter_bits
from numaware.machine.words import printable
from numaware.workload.requirements import is_extended

# The most a Linux kernel can be built for, and the most Kubernetes can count to.
_MAX_NODE = 1023
_INT64 = (1 << 63) - 1
_LONGEST_LINK = 8


class CpuPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where one CPU sits. `core` is unique inside its socket; `uncore` is the last-level cache, None if unknown."""

    id: int
    core: int
    socket: int
    uncore: int | None = None


class NumaHardware(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One NUMA node: memory includes the huge pages, which are (resource name, bytes) pairs."""

    id: int
    cpus: tuple[CpuPlace, ...] = ()
    memory_bytes: int = 0
    hugepages: tuple[tuple[str, int], ...] = ()
    distances: tuple[int, ...] = ()


class PluginDevice(msgspec.Struct, frozen=True, array_like=True):
    """One device as its plugin announced it; no `numa` means the plugin gave no topology."""

    id: str
    numa: tuple[int, ...] = ()
    healthy: bool = True


class PluginResource(msgspec.Struct, frozen=True, omit_defaults=True):
    """All devices of one resource; `prefers` when the plugin offers GetPreferredAllocation."""

    name: str
    devices: tuple[PluginDevice, ...]
    prefers: bool = False


class DeviceLink(msgspec.Struct, frozen=True, array_like=True):
    """Two devices, each as (resource, id), that are closer than their NUMA nodes tell: PIX, PXB, PHB, or NV4 and the like."""

    a: tuple[str, str]
    b: tuple[str, str]
    kind: str


class LastCache(msgspec.Struct, frozen=True, array_like=True):
    """A last-level cache: the mask of the CPUs that share it, and its bytes, 0 if nobody told."""

    cpus: int
    size: int = 0


class Hardware(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that the kubelet is told; the managers see it as `checked` leaves it, everything ascending by id or name.

    Of `links` and `caches` no kubelet hears; they are kept for those who look at the machine.
    """

    numa: tuple[NumaHardware, ...]
    resources: tuple[PluginResource, ...] = ()
    links: tuple[DeviceLink, ...] = ()
    caches: tuple[LastCache, ...] = ()


def checked(hardware: Hardware) -> Hardware:
    """The machine in the order the twin counts on; ValueError if it cannot exist, as no verdict on it would mean anything."""
    nodes = [node.id for node in hardware.numa]
    if not nodes:
        raise ValueError("the machine has no NUMA nodes")
    _check_ids("NUMA node", nodes, _MAX_NODE)
    cpus = [cpu for node in hardware.numa for cpu in node.cpus]
    if not cpus:
        raise ValueError("the machine has no CPUs")
    _check_ids("CPU", [cpu.id for cpu in cpus], MAX_ID)
    for cpu in cpus:
        for place, number in (("core", cpu.core), ("socket", cpu.socket), ("cache", cpu.uncore)):
            if number is not None and not 0 <= number <= _INT64:
                raise ValueError(f"CPU {cpu.id} is on {place} {number}, which is no {place} number")
    for node in hardware.numa:
        for what, size in (("memory", node.memory_bytes), *node.hugepages):
            if not 0 <= size <= _INT64:
                raise ValueError(f"NUMA node {node.id} has {size} bytes of {what}, which no machine has")
        if not all(0 <= distance <= _INT64 for distance in node.distances):
            raise ValueError(f"NUMA node {node.id} has a distance below zero or beyond 2^63-1")
    if sum(node.memory_bytes for node in hardware.numa) > _INT64:
        raise ValueError("the memory of all NUMA nodes together is beyond 2^63-1 bytes")
    if len({resource.name for resource in hardware.resources}) < len(hardware.resources):
        raise ValueError("a device resource is listed twice")
    for resource in hardware.resources:
        _check_resource(resource)
    _check_neighbours(hardware, mask_of(cpu.id for cpu in cpus))
    return Hardware(
        tuple(sorted(hardware.numa, key=lambda node: node.id)),
        tuple(
            msgspec.structs.replace(
                resource, devices=tuple(sorted(resource.devices, key=lambda device: device.id))
            )
            for resource in sorted(hardware.resources, key=lambda resource: resource.name)
        ),
        hardware.links,
        hardware.caches,
    )


def _check_resource(resource: PluginResource) -> None:
    name = printable(resource.name, 80)
    if not is_extended(resource.name):
        raise ValueError(f"{name!r} is no name for devices (expected a form such as vendor.example/gpu)")
    seen = set()
    for device in resource.devices:
        if device.id in seen:
            raise ValueError(f"device {printable(device.id, 80)!r} of {name} is listed twice")
        seen.add(device.id)
        # A node that the machine does not have is the plugin's mistake, and the kubelet takes the device all the same.
        for node in device.numa:
            if not 0 <= node <= _MAX_NODE:
                raise ValueError(
                    f"device {printable(device.id, 80)!r} of {name} is on NUMA node {node}, which is no NUMA node's number"
                )


def _check_neighbours(hardware: Hardware, cpus: int) -> None:
    """Links are between devices of the machine, caches of its CPUs."""
    if hardware.links:
        devices = {
            (resource.name, device.id) for resource in hardware.resources for device in resource.devices
        }
        for link in hardware.links:
            if not {link.a, link.b} <= devices or len(link.kind) > _LONGEST_LINK:
                raise ValueError("a link to a device that is not listed, or of a kind that is none")
    for cache in hardware.caches:
        if cache.cpus & ~cpus or not 0 <= cache.size <= _INT64:
            raise ValueError("a cache of CPUs that are not listed, or of a size that is none")


def _check_ids(kind: str, ids: Sequence[int], largest: int) -> None:
    for number in ids:
        if not 0 <= number <= largest:
            raise ValueError(f"{kind} {number} is outside 0 to {largest}")
    for number, after in pairwise(sorted(ids)):
        if number == after:
            raise ValueError(f"{kind} {number} is listed twice")


class Layout:
    """Bit masks and counts of one machine, computed once and shared by every node of that kind."""

    def __init__(self, numa: tuple[NumaHardware, ...]) -> None:
        self.ids = tuple(node.id for node in numa)
        self.full = (1 << len(numa)) - 1
        self.node_cpus = tuple(mask_of(cpu.id for cpu in node.cpus) for node in numa)
        self.cpu_nodes = mask_of(p for p, cpus in enumerate(self.node_cpus) if cpus)
        self.all_cpus = 0
        sockets: dict[int, int] = {}
        uncores: dict[int, int] = {}
        cores: dict[tuple[int, int, int], int] = {}
        for position, node in enumerate(numa):
            for cpu in node.cpus:
                bit = 1 << cpu.id
                self.all_cpus |= bit
                sockets[cpu.socket] = sockets.get(cpu.socket, 0) | bit
                # KUBELET: hardware that reports no last-level cache counts as one cache per socket.
                uncore = cpu.socket if cpu.uncore is None else cpu.uncore
                uncores[uncore] = uncores.get(uncore, 0) | bit
                key = (position, cpu.socket, cpu.core)
                cores[key] = cores.get(key, 0) | bit
        self.sockets = tuple(sorted(sockets.items()))
        self.uncores = tuple(sorted(uncores.items()))
        # The kubelet names a core by its lowest CPU.
        self.cores = tuple(sorted(cores.values(), key=lambda core: core & -core))
        self.numas = tuple((node.id, cpus) for node, cpus in zip(numa, self.node_cpus, strict=True) if cpus)
        self.cores_in_node = {
            node: tuple(core for core in self.cores if core & cpus) for node, cpus in self.numas
        }
        self.cores_in_socket = {
            socket: tuple(core for core in self.cores if core & cpus) for socket, cpus in self.sockets
        }
        # Cores that nothing but their number tells apart: those of one size on one NUMA node and socket.
        alike: dict[tuple[int, int, int], list[int]] = {}
        for (position, socket, _), core in sorted(cores.items()):
            alike.setdefault((position, socket, core.bit_count()), []).append(core)
        self.threads_of_node = tuple(
            (_planes(tuple(group)), tuple(group)) for _, group in sorted(alike.items())
        )
        self.cpu_count = self.all_cpus.bit_count()
        # KUBELET: sizes are integer divisions of totals, wrong on asymmetric machines, and used all the same.
        self.cpus_per_core = self.cpu_count // len(self.cores) if self.cores else 0
        self.cpus_per_socket = self.cpu_count // len(self.sockets) if self.sockets else 0
        self.cpus_per_uncore = self.cpu_count // len(self.uncores) if self.uncores else 0
        self.numa_first = len(self.sockets) >= len(self.numas)
        # One kind of core, sockets of one size, no NUMA node in two of them: what nearly every machine is.
        self.planes = tuple(
            (node, planes)
            for (_, node), (planes, _) in zip(self.numas, self.threads_of_node, strict=False)
            if len(planes) in (1, 2)
        )
        self.regular = (
            len(self.planes) == len(self.numas) == len(self.threads_of_node)
            and len({core.bit_count() for core in self.cores}) == 1
            and len({cpus.bit_count() for _, cpus in self.sockets}) == 1
        )
        self.sockets_of_node = tuple(
            mask_of(index for index, (_, cpus) in enumerate(self.sockets) if cpus & node)
            for node in self.node_cpus
        )

    def cpus_in(self, nodes: int) -> int:
        """The CPUs of a NUMA mask."""
        cpus = 0
        for position in iter_bits(nodes):
            cpus |= self.node_cpus[position]
        return cpus

    def nodes_of(self, cpus: int) -> int:
        """The NUMA nodes, as a mask, that have some of these CPUs."""
        nodes = 0
        if cpus:
            for position, members in enumerate(self.node_cpus):
                if cpus & members:
                    nodes |= 1 << position
        return nodes

    def siblings(self, cpus: int) -> int:
        """The CPUs together with all threads of their cores."""
        for core in self.cores:
            if core & cpus:
                cpus |= core
        return cpus

    def node_ids(self, nodes: int) -> tuple[int, ...]:
        """A NUMA mask as NUMA ids."""
        return tuple(self.ids[position] for position in iter_bits(nodes))


@lru_cache(maxsize=256)
def layout(numa: tuple[NumaHardware, ...]) -> Layout:
    return Layout(numa)


@lru_cache(maxsize=1024)
def positions(nodes: int) -> tuple[int, ...]:
    """The positions of the nodes in a mask, ascending: `iter_bits`, for the few masks that come again and again."""
    return tuple(iter_bits(nodes))


@lru_cache(maxsize=64)
def mask_order(count: int) -> tuple[int, ...]:
    """All non-empty masks over `count` nodes in the kubelet's order: by size, then lexicographic by node."""
    masks: list[list[int]] = [[] for _ in range(count + 1)]

    def extend(mask: int, size: int, start: int) -> None:
        for position in range(start, count):
            longer = mask | 1 << position
            masks[size + 1].append(longer)
            extend(longer, size + 1, position + 1)

    extend(0, 0, 0)
    return tuple(mask for group in masks for mask in group)


def sums(values: tuple[int, ...] | list[int]) -> list[int]:
    """The sum of `values` over every mask: entry m adds the values of the nodes in m.

    Doubling the list once per node costs one addition per mask, against one per node and mask when each mask is
    summed on its own.
    """
    table = [0]
    for value in values:
        table += [entry + value for entry in table] if value else table
    return table


def _planes(cores: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The threads of equal cores layer by layer: (mask of all nth threads, distance from the first ones).

    Empty when the cores differ in threads or in how they are numbered.
    """
    offsets = {tuple(thread - _low(core) for thread in iter_bits(core)) for core in cores}
    if len(offsets) != 1:
        return ()
    return tuple((mask_of(_low(core) + offset for core in cores), offset) for offset in offsets.pop())


def _low(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def lowest(mask: int, count: int) -> int:
    """The `count` lowest bits, all of them if there are fewer."""
    taken = 0
    while count > 0 and mask:
        low = mask & -mask
        taken |= low
        mask ^= low
        count -= 1
    return taken


def mask_of(numbers: Iterable[int]) -> int:
    """The mask with these bits; a number that comes twice counts once."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
