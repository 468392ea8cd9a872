"""What a publisher of NodeResourceTopology objects tells of a twin: counts per NUMA node, and little else."""

from __future__ import annotations

from numaware.machine.node_topology import ZoneCounts
from numaware.schedule.published_counts import Counts
from numaware.twin.node import Node
from numaware.workload.demand import Amounts


def published(node: Node, *, devices: bool = False) -> Counts:
    """The counts of a node as its kubelet would tell them; with `devices` also how many there are in all."""
    kubelet = node.kubelet
    return Counts(
        tuple(_zone(node, position) for position in range(len(kubelet.layout.ids))),
        policy=kubelet.config.topology_policy,
        scope=kubelet.config.topology_scope,
        version=kubelet.config.version,
        devices=tuple((name, len(inventory.ids)) for name, inventory in kubelet.devices.inventories.items())
        if devices
        else (),
    )


def are_plain(node: Node, counts: Counts) -> bool:
    """Whether the devices are what the counts say: a device on two nodes cannot make up for one on none."""
    return all(
        not counts.knows_devices(name)
        or (inventory.single and inventory.healthy == inventory.placed == (1 << len(inventory.ids)) - 1)
        for name, inventory in node.kubelet.devices.inventories.items()
    )


def _zone(node: Node, position: int) -> ZoneCounts:
    kubelet, state = node.kubelet, node.state
    cpus = kubelet.layout.node_cpus[position]
    capacity = {"cpu": cpus.bit_count()}
    allocatable = {"cpu": 0}
    available = {"cpu": 0}
    if kubelet.cpus:
        allocatable["cpu"] = (cpus & ~kubelet.cpus.reserved).bit_count()
        available["cpu"] = (cpus & node.effective_shared() & ~kubelet.cpus.reserved).bit_count()
    if kubelet.memory:
        for index, kind in enumerate(kubelet.memory.kinds):
            if kind in kubelet.memory.totals[position]:
                capacity[kind] = kubelet.memory.totals[position][kind]
                allocatable[kind] = kubelet.memory.allocatable[position][index]
                available[kind] = state.memory.nodes[position].free[index]
    for name, inventory in kubelet.devices.inventories.items():
        on = inventory.on_node[position]
        if on & inventory.healthy:
            capacity[name] = allocatable[name] = (on & inventory.healthy).bit_count()
            available[name] = (on & kubelet.devices.free(state.device, name)).bit_count()
    return ZoneCounts(
        kubelet.layout.ids[position],
        _amounts(capacity),
        _amounts(allocatable),
        _amounts(available),
        kubelet.hardware.numa[position].distances,
    )


def _amounts(amounts: dict[str, int]) -> Amounts:
    return tuple(sorted(amounts.items()))
