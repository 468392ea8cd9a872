"""What a machine should keep back for the system: which CPUs, how much memory, and of which NUMA nodes.

CPUs are kept as whole cores, since a pod should share no core with the system's work. They come from NUMA nodes whose
CPUs pods need least: those without GPUs, those with the network card first. Where all are alike they come from each in
turn, so that no NUMA node is smaller than the others. Memory is kept in whole mebibytes that add up exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numaware.machine.topology import DeviceKind, Machine
from numaware.twin.hardware import Hardware, Layout

_MEBI = 1 << 20
_GIBI = 1 << 30
# Shares of memory kept for the kubelet and the runtime, as the large providers do it: (up to, percent).
_KUBE_SHARES = ((4 * _GIBI, 25), (8 * _GIBI, 20), (16 * _GIBI, 10), (128 * _GIBI, 6))
_KUBE_REST = 2


class KeptMemory(NamedTuple):
    """Bytes for the kubelet, for the system, and below which pods are evicted; and their sum by NUMA node."""

    kube: int
    system: int
    eviction: int
    split: tuple[tuple[int, int], ...]

    @property
    def total(self) -> int:
        return self.kube + self.system + self.eviction


def kept_cores(cores: int, nodes: int, *, generous: bool, even: bool) -> int:
    """How many cores to keep: one in 32, one in 16 where latency counts; a multiple of the nodes if it shall be even."""
    wanted = max(1, -(-cores // (16 if generous else 32)))
    most = max(1, cores // 4)
    if even and -(-wanted // nodes) * nodes <= most:
        wanted = -(-wanted // nodes) * nodes
    return min(wanted, most)


def kept_cpus(machine: Machine, layout: Layout, *, generous: bool) -> int:
    """The CPUs to keep, as a mask of whole cores."""
    nodes = _least_needed_first(machine, layout)
    gpus = nodes_with(machine, "gpu")
    even = not gpus or gpus >= set(nodes)
    number = kept_cores(len(layout.cores), len(nodes), generous=generous, even=even)
    isolated = machine.isolated.mask
    queues = {
        # Isolated CPUs were taken from the system on purpose.
        node: sorted(layout.cores_in_node[node], key=lambda core: (bool(core & isolated), core & -core))
        for node in nodes
    }
    # The kernel cannot take all of its work off the CPU it started on; but the only core beside a GPU is worth more.
    boot = next(core for core in layout.cores if core & layout.all_cpus & -layout.all_cpus)
    alone = any(queue == [boot] for queue in queues.values())
    first = queues[nodes[0]][0] if alone else boot
    kept = [first]
    for queue in queues.values():
        if first in queue:
            queue.remove(first)
    begin = next((place for place, node in enumerate(nodes) if first in layout.cores_in_node[node]), 0)
    turns = (
        [*nodes[begin + 1 :], *nodes[: begin + 1]] if even else [node for node in nodes if node not in gpus]
    )
    while len(kept) < number:
        for node in turns:
            # The last core of a NUMA node is not worth taking: its memory would be nobody's.
            if len(queues[node]) > 1 and len(kept) < number:
                kept.append(queues[node].pop(0))
        if all(len(queues[node]) <= 1 for node in turns):
            break
    mask = 0
    for core in kept:
        mask |= core
    return mask


def nodes_with(machine: Machine, kind: DeviceKind) -> set[int]:
    """The NUMA nodes that have devices of a kind."""
    return {device.numa for device in machine.devices if device.kind == kind and device.numa is not None}


def _least_needed_first(machine: Machine, layout: Layout) -> list[int]:
    gpus, nics = nodes_with(machine, "gpu"), nodes_with(machine, "nic")
    return sorted((node for node, _ in layout.numas), key=lambda node: (node in gpus, node not in nics, node))


def kept_memory(hardware: Hardware) -> KeptMemory | None:
    """Memory to keep; None where the machine's memory is not known, or too little to keep any."""
    # Huge pages are not there for anything else.
    plain = [(node.id, node.memory_bytes - sum(size for _, size in node.hugepages)) for node in hardware.numa]
    plain = [(node, size // _MEBI) for node, size in plain if size >= _MEBI]
    total = sum(size for _, size in plain)
    if total < 64:
        return None
    kube = _share(total)
    system = min(1024, total // 16)
    eviction = max(1, min(1024, total // 100))
    return KeptMemory(kube * _MEBI, system * _MEBI, eviction * _MEBI, _split(plain, kube + system + eviction))


def _share(total: int) -> int:
    """Mebibytes for the kubelet and the runtime."""
    kept = 0
    below = 0
    for limit, percent in _KUBE_SHARES:
        upto = min(total, limit // _MEBI)
        kept += max(0, upto - below) * percent
        below = limit // _MEBI
    kept += max(0, total - below) * _KUBE_REST
    return max(1, min(kept // 100, total // 4))


def _split(plain: Sequence[tuple[int, int]], wanted: int) -> tuple[tuple[int, int], ...]:
    """The sum over the NUMA nodes by their size; what does not divide goes to the largest."""
    total = sum(size for _, size in plain)
    parts = {node: wanted * size // total for node, size in plain}
    largest = max(plain, key=lambda part: (part[1], -part[0]))[0]
    parts[largest] += wanted - sum(parts.values())
    return tuple((node, size * _MEBI) for node, size in sorted(parts.items()) if size)
