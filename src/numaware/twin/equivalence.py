"""When two nodes are as good as one: the part of a node's state that decides every answer and every next state.

Nodes of one kind with the same CPUs, memory and devices free answer alike, whoever holds the rest. But packing takes whole
units before parts and ties by position, so which of several equally free cores is taken changes nothing that a later pod could
notice. `node_class` therefore counts, per NUMA node and socket, the cores by how many of their threads are free, and the
devices in use, not which. Fresh machines that took and lost different pods in different orders fall into few classes, and one
evaluation serves them all.
"""

from __future__ import annotations

from collections.abc import Hashable

from numaware.twin.cpu.static import StaticCpus
from numaware.twin.node import Node


def node_class(node: Node) -> Hashable:
    """Nodes of one class give any new pod the same verdict and end up in one class again.

    One flat row of numbers, whose places mean the same for all nodes with the same kubelet.
    """
    kubelet, state = node.kubelet, node.state
    row: list[Hashable] = [kubelet.number]
    if kubelet.cpus is not None:
        _add_cpus(row, kubelet.cpus, node.effective_shared())
    for part in state.memory.nodes:
        row += part.assignments > 0, part.cells, part.free
    if not kubelet.rules.reuse_per_pod:
        row.append(state.memory.haunted or bool(state.memory.reuse[1]))
    taken = state.device.taken
    for name in sorted(taken) if len(taken) > 1 else taken:
        row.append(name)
        devices, groups = taken[name], kubelet.devices.inventories[name].groups
        if groups is None:
            row.append(devices)
        else:
            for group in groups:
                row.append((devices & group).bit_count())
    return tuple(row)


def _add_cpus(row: list[Hashable], cpus: StaticCpus, shared: int) -> None:
    if cpus.by_number:
        row.append(shared)
        return
    free = shared & ~cpus.reserved
    for planes, cores in cpus.layout.threads_of_node:
        row.append(_core_counts(planes, cores, free))
    if cpus.options.full_pcpus_only:
        row.append((shared & ~cpus.reserved_cores).bit_count())


def _core_counts(planes: tuple[tuple[int, int], ...], cores: tuple[int, ...], free: int) -> int:
    """How many cores have how many free threads, in one number: 16 bits for each number of free threads.

    Where all cores number their threads alike (`planes`), counting is a few operations on whole masks.
    """
    if len(planes) == 1:
        return (free & planes[0][0]).bit_count()
    if len(planes) == 2:
        first = free & planes[0][0]
        second = free >> planes[1][1] & planes[0][0]
        return (first ^ second).bit_count() | (first & second).bit_count() << 16
    total = 0
    for core in cores:
        left = (core & free).bit_count()
        if left:
            total += 1 << 16 * (left - 1)
    return total
