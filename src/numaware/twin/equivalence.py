"""When two nodes are as good as one: the part of a node's state that decides every answer and every next state.

`Node.key` compares exact CPU numbers. But packing takes whole units before parts and ties by position, so which of
several equally free cores is taken changes nothing that a later pod could notice. `node_class` therefore counts, per
NUMA node and socket, the cores by how many of their threads are free, and the devices in use, not which. Fresh machines
that took and lost different pods in different orders fall into few classes, and one evaluation serves them all.
"""

from __future__ import annotations

from collections.abc import Hashable

from numaware.twin.cpu.static import StaticCpus
from numaware.twin.device.manager import Inventory
from numaware.twin.node import Node


def node_class(node: Node) -> Hashable:
    """Nodes of one class give any new pod the same verdict and end up in one class again."""
    state = node.state
    cpus = node.kubelet.cpus
    return (
        node.kubelet.number,
        _cpu_class(cpus, node) if cpus else 0,
        tuple([(part.assignments > 0, part.cells, part.free) for part in state.memory.nodes]),
        tuple(
            [
                (name, _device_class(node.kubelet.devices.inventories[name], taken))
                for name, taken in sorted(state.device.taken.items())
            ]
        ),
    )


def _device_class(inventory: Inventory, taken: int) -> Hashable:
    if inventory.groups is None:
        return taken
    return tuple([(taken & group).bit_count() for group in inventory.groups])


def _cpu_class(cpus: StaticCpus, node: Node) -> Hashable:
    shared = node.effective_shared()
    if cpus.by_number:
        return shared
    free = shared & ~cpus.reserved
    counts = tuple([_core_counts(layout, cores, free) for layout, cores in cpus.layout.threads_of_node])
    if cpus.options.full_pcpus_only:
        return counts, (shared & ~cpus.reserved_cores).bit_count()
    return counts


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
