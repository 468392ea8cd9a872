"""What each NUMA node has of a resource, what is left, and who holds the rest."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.machine.cpuset import iter_bits
from numaware.twin.node import Node
from numaware.workload.demand import is_memory


class Holder(msgspec.Struct, frozen=True):
    """A container that holds some of a resource on a NUMA node."""

    pod: str
    container: str
    amount: int


class Zone(msgspec.Struct, frozen=True):
    """One resource on one NUMA node: `free` is what a new container could still get of `total`."""

    numa: int
    total: int
    free: int
    reserved: int
    holders: tuple[Holder, ...]


def zones(node: Node, resource: str) -> tuple[Zone, ...]:
    """The resource on every NUMA node of the machine; empty when no manager looks after it."""
    if resource == "cpu":
        return tuple(_cpu_zones(node))
    if is_memory(resource):
        return tuple(_memory_zones(node, resource))
    return tuple(_device_zones(node, resource))


def resources(node: Node) -> tuple[str, ...]:
    """All that the node's managers look after, CPUs first."""
    kubelet = node.kubelet
    kinds = kubelet.memory.kinds if kubelet.memory else ()
    return (
        *(("cpu",) if kubelet.cpus else ()),
        *sorted(kinds, key=lambda kind: (kind != "memory", kind)),
        *sorted(kubelet.devices.inventories),
    )


def pod_name(node: Node, uid: str) -> str:
    """How people call a pod; one known only from a state file has nothing but its uid."""
    pod = node.state.pods.get(uid)
    return f"{pod.namespace}/{pod.name}" if pod is not None and pod.namespace else uid


def _cpu_zones(node: Node) -> Iterator[Zone]:
    cpus = node.kubelet.cpus
    if cpus is None:
        return
    free = cpus.available(node.state.cpu)
    for number, members in zip(node.kubelet.layout.ids, node.kubelet.layout.node_cpus, strict=True):
        holders = tuple(
            Holder(pod_name(node, uid), container, (held & members).bit_count())
            for uid, containers in node.state.cpu.owned.items()
            for container, held in containers.items()
            if held & members
        )
        reserved = (cpus.reserved & members).bit_count()
        yield Zone(number, members.bit_count(), (free & members).bit_count(), reserved, holders)


def _memory_zones(node: Node, kind: str) -> Iterator[Zone]:
    memory = node.kubelet.memory
    if memory is None or kind not in memory.kinds:
        return
    index = memory.kinds.index(kind)
    for position, number in enumerate(node.kubelet.layout.ids):
        # A block over several nodes is charged to all of them together; the files do not say how much to each.
        holders = tuple(
            Holder(pod_name(node, uid), container, block.size)
            for uid, containers in node.state.memory.blocks.items()
            for container, blocks in containers.items()
            for block in blocks
            if block.kind == kind and block.nodes >> position & 1 and block.size
        )
        yield Zone(
            number,
            memory.totals[position].get(kind, 0),
            node.state.memory.nodes[position].free[index],
            memory.system.get((position, kind), 0),
            holders,
        )


def _device_zones(node: Node, resource: str) -> Iterator[Zone]:
    inventory = node.kubelet.devices.inventories.get(resource)
    if inventory is None:
        return
    free = node.kubelet.devices.free(node.state.device, resource)
    for position, number in enumerate(node.kubelet.layout.ids):
        on = inventory.on_node[position]
        holders = tuple(
            Holder(pod_name(node, uid), container, len(list(iter_bits(held[resource] & on))))
            for uid, containers in node.state.device.owned.items()
            for container, held in containers.items()
            if held.get(resource, 0) & on
        )
        yield Zone(number, on.bit_count(), (free & on).bit_count(), 0, holders)
