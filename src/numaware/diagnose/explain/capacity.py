"""What each NUMA node has of a resource, what is left for a pod, and who holds the rest."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.twin.node import Node
from numaware.workload.demand import is_memory

THIS_POD = "this pod"


class Holder(msgspec.Struct, frozen=True):
    """A container that holds some of a resource on a NUMA node; memory can be charged to several `nodes` at once."""

    pod: str
    container: str
    amount: int
    nodes: tuple[int, ...]


class Zone(msgspec.Struct, frozen=True):
    """One resource on one NUMA node.

    `free` is what a container could still get of `total`; `most` is what the kubelet believes an empty node could give,
    by which it decides how many NUMA nodes a request ought to need (CPUs of the system count, its memory does not).
    """

    numa: int
    total: int
    most: int
    free: int
    reserved: int
    holders: tuple[Holder, ...]


def zones(node: Node, resource: str, uid: str = "") -> tuple[Zone, ...]:
    """The resource on every NUMA node of the machine; empty when no manager looks after it.

    With a pod's `uid` it is seen with that pod's eyes: what its finished init containers leave to it is free.
    """
    if resource == "cpu":
        return tuple(_cpu_zones(node, uid))
    if is_memory(resource):
        return tuple(_memory_zones(node, resource, uid))
    return tuple(_device_zones(node, resource, uid))


def resources(node: Node) -> tuple[str, ...]:
    """All that the node's managers look after, CPUs first."""
    kubelet = node.kubelet
    kinds = kubelet.memory.kinds if kubelet.memory else ()
    return (
        *(("cpu",) if kubelet.cpus else ()),
        *sorted(kinds, key=lambda kind: (kind != "memory", kind)),
        *sorted(kubelet.devices.inventories),
    )


def free_in_all(node: Node, resource: str, uid: str = "") -> int:
    """What is free on the whole machine; a device on two NUMA nodes, or on none, counts once."""
    if resource in node.kubelet.devices.inventories:
        state = node.state.device
        free = node.kubelet.devices.free(state, resource) | state.reusable(uid, resource)
        return free.bit_count()
    return sum(zone.free for zone in zones(node, resource, uid))


def fewest_nodes(node: Node, resource: str, count: int) -> int:
    """How many NUMA nodes the kubelet believes a request needs, whatever is taken at the moment."""
    nodes = len(node.kubelet.layout.ids)
    inventory = node.kubelet.devices.inventories.get(resource)
    if inventory is not None:
        return inventory.smallest(count, nodes)
    together = 0
    for size, most in enumerate(sorted((zone.most for zone in zones(node, resource)), reverse=True), 1):
        together += most
        if together >= count:
            return size
    return nodes


def tied_to(node: Node, resource: str, uid: str) -> tuple[int, ...]:
    """The NUMA nodes a pod is bound to, because its finished init containers had the resource there."""
    kubelet, state = node.kubelet, node.state
    if resource == "cpu":
        left = state.cpu.reusable(uid)
        held = [bool(cpus & left) for cpus in kubelet.layout.node_cpus]
    elif resource in kubelet.devices.inventories:
        left = state.device.reusable(uid, resource)
        held = [bool(devices & left) for devices in kubelet.devices.inventories[resource].on_node]
    else:
        return ()
    return tuple(number for number, here in zip(kubelet.layout.ids, held, strict=True) if here)


def pod_name(node: Node, uid: str) -> str:
    """How people call a pod; one known only from a state file has nothing but its uid."""
    pod = node.state.pods.get(uid)
    return f"{pod.namespace}/{pod.name}" if pod is not None and pod.namespace else uid


def _cpu_zones(node: Node, own: str) -> Iterator[Zone]:
    cpus, layout = node.kubelet.cpus, node.kubelet.layout
    if cpus is None:
        return
    state = node.state.cpu
    left = state.reusable(own)
    free = cpus.available(state) | left
    for number, members in zip(layout.ids, layout.node_cpus, strict=True):
        yield Zone(
            numa=number,
            total=members.bit_count(),
            most=members.bit_count(),
            free=(free & members).bit_count(),
            reserved=(cpus.reserved & members).bit_count(),
            holders=tuple(
                Holder(_who(node, uid, own), container, (held & members & ~left).bit_count(), (number,))
                for uid, containers in state.owned.items()
                for container, held in containers.items()
                if held & members & ~left
            ),
        )


def _memory_zones(node: Node, kind: str, own: str) -> Iterator[Zone]:
    memory = node.kubelet.memory
    if memory is None or kind not in memory.kinds:
        return
    state = node.state.memory
    left = state.reusable(own)
    index = memory.kinds.index(kind)
    for position, number in enumerate(node.kubelet.layout.ids):
        yield Zone(
            numa=number,
            total=memory.totals[position].get(kind, 0),
            most=memory.allocatable[position][index],
            free=state.nodes[position].free[index] + left.get((1 << position, kind), 0),
            reserved=memory.system.get((position, kind), 0),
            holders=tuple(
                Holder(_who(node, uid, own), container, block.size, node.kubelet.layout.node_ids(block.nodes))
                for uid, containers in state.blocks.items()
                for container, blocks in containers.items()
                for block in blocks
                if block.kind == kind
                and block.nodes >> position & 1
                and block.size > (left.get((block.nodes, kind), 0) if uid == own else 0)
            ),
        )


def _device_zones(node: Node, resource: str, own: str) -> Iterator[Zone]:
    inventory = node.kubelet.devices.inventories.get(resource)
    if inventory is None:
        return
    state = node.state.device
    left = state.reusable(own, resource)
    free = node.kubelet.devices.free(state, resource) | left
    for number, on in zip(node.kubelet.layout.ids, inventory.on_node, strict=True):
        yield Zone(
            numa=number,
            total=on.bit_count(),
            most=on.bit_count(),
            free=(free & on).bit_count(),
            reserved=0,
            holders=tuple(
                Holder(_who(node, uid, own), container, (held[resource] & on & ~left).bit_count(), (number,))
                for uid, containers in state.owned.items()
                for container, held in containers.items()
                if held.get(resource, 0) & on & ~left
            ),
        )


def _who(node: Node, uid: str, own: str) -> str:
    return THIS_POD if uid == own else pod_name(node, uid)
