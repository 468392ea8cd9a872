"""The account of a node: what each NUMA node has of a resource, what is free to pin, and who holds the rest.

Scores, published topologies, explanations, the lab and the console all count here, so that they cannot differ. What counts
is what the kubelet would give to the next pod, in its release: from v1.22.1 to v1.31 a pod that is gone may still be in the
state of the CPU Manager, but the next one that is asked about finds its CPUs free (`Rules.keeps_pending`).

Free *to pin* is one notion: what a container could have for itself. What pods have not *requested* of the node as a whole is
another, which kubelets do not know; `schedule/room.py` puts the two side by side.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import msgspec

from numaware.machine.cpuset import iter_bits, list_form
from numaware.twin.files import devices_by_node
from numaware.twin.kubelet import Kubelet
from numaware.twin.memory.state import Block
from numaware.twin.node import Node, NodeState
from numaware.workload.demand import is_memory
from numaware.workload.pod import Pod

_UINT64 = (1 << 64) - 1


class NumaAccount(msgspec.Struct, frozen=True, gc=False):
    """One resource on one NUMA node: `total` = `free` + `held` + `reserved` + `unpinnable`.

    `free` is what the next container could still get for itself, `held` what containers have, `reserved` what is kept for
    the system. `unpinnable` no container can have: of memory the bytes in huge pages, of devices the broken ones. An empty
    node could give `allocatable`; `counted` is what the kubelet believes it could when it decides how many NUMA nodes a
    request ought to need (CPUs of the system and broken devices count, memory of the system does not).
    """

    numa: int
    total: int
    allocatable: int
    counted: int
    free: int
    held: int
    reserved: int
    unpinnable: int


class Holder(msgspec.Struct, frozen=True, gc=False):
    """A container that holds some of a resource on a NUMA node; memory can be charged to several `nodes` at once."""

    uid: str
    container: str
    amount: int
    nodes: tuple[int, ...]


class Holding(msgspec.Struct, frozen=True, gc=False):
    """What somebody has for himself: a mask of CPUs, blocks of memory, and a mask of devices for each resource."""

    cpus: int
    memory: tuple[Block, ...]
    devices: dict[str, int]


class ContainerPlacement(msgspec.Struct, frozen=True):
    """What one container has for itself, by numbers: a list of CPUs, blocks of memory as (NUMA nodes, kind, size), devices.

    Devices are (resource, ((NUMA node, count), ...)); -1 stands for none.
    """

    name: str
    cpus: str
    memory: tuple[tuple[tuple[int, ...], str, int], ...]
    devices: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]

    def to_builtins(self) -> dict[str, Any]:
        """CPUs and memory, as recordings and explanations write them."""
        blocks = [
            {"numaAffinity": list(nodes), "type": kind, "size": size} for nodes, kind, size in self.memory
        ]
        return {"name": self.name, "cpuset": self.cpus or None, "memory": blocks}


def resources(node: Node) -> tuple[str, ...]:
    """All that the node's managers look after, CPUs first."""
    kubelet = node.kubelet
    kinds = kubelet.memory.kinds if kubelet.memory else ()
    return (
        *(("cpu",) if kubelet.cpus else ()),
        *sorted(kinds, key=lambda kind: (kind != "memory", kind)),
        *sorted(kubelet.devices.inventories),
    )


def account(node: Node, resource: str, uid: str = "") -> tuple[NumaAccount, ...]:
    """The resource on every NUMA node of the machine; empty when no manager looks after it.

    With a pod's `uid` it is seen with that pod's eyes: what its finished init containers leave to it is free.
    """
    parts, state = _fixed_parts(node.kubelet, resource), node.state
    if not parts:
        return ()
    accounts = []
    if is_memory(resource):
        again = state.memory.reusable(uid)
        for position, left in enumerate(free_memory(node, resource)):
            numa, _, total, could, reserved, pages = parts[position]
            if again:
                left += again.get((1 << position, resource), 0)  # noqa: PLW2901 - what is free with the pod's eyes
            held = (could - left) & _UINT64
            accounts.append(NumaAccount(numa, total, could, could, left, held, reserved, pages))
        return tuple(accounts)
    is_cpu = resource == "cpu"
    free = free_cpus(node, uid) if is_cpu else free_devices(node, resource, uid)
    taken = 0 if is_cpu else state.device.taken.get(resource, 0) & ~free
    for numa, mask, total, could, reserved, _ in parts:
        left = (free & mask).bit_count()
        held = could - left if is_cpu else (taken & mask).bit_count()
        broken = total - left - held - reserved
        accounts.append(NumaAccount(numa, total, could, total, left, held, reserved, broken))
    return tuple(accounts)


@lru_cache(maxsize=1024)
def _fixed_parts(kubelet: Kubelet, resource: str) -> tuple[tuple[int, int, int, int, int, int], ...]:
    """What of an account no pod changes: NUMA node, its CPUs or devices as a mask, `total`, `allocatable`, `reserved`,
    bytes in huge pages. Empty when no manager looks after the resource.
    """
    layout, cpus, memory = kubelet.layout, kubelet.cpus, kubelet.memory
    if resource == "cpu" and cpus:
        kept = [(mask, (cpus.reserved & mask).bit_count()) for mask in layout.node_cpus]
        sizes = [(mask, mask.bit_count(), mask.bit_count() - count, count, 0) for mask, count in kept]
    elif memory and resource in memory.kinds:
        index = memory.kinds.index(resource)
        sizes = [
            (
                0,
                totals.get(resource, 0),
                memory.allocatable[position][index],
                memory.system.get((position, resource), 0),
                sum(size for kind, size in totals.items() if kind != resource) if resource == "memory" else 0,
            )
            for position, totals in enumerate(memory.totals)
        ]
    elif inventory := kubelet.devices.inventories.get(resource):
        sizes = [(on, on.bit_count(), (inventory.healthy & on).bit_count(), 0, 0) for on in inventory.on_node]
    else:
        return ()
    return tuple((numa, *size) for numa, size in zip(layout.ids, sizes, strict=True))


def free_cpus(node: Node, uid: str = "") -> int:
    """The CPUs that a container could get for itself; all of them where nobody hands out CPUs."""
    cpus = node.kubelet.cpus
    if cpus is None:
        return node.kubelet.layout.all_cpus
    if uid:
        return node.effective_shared(uid) & ~cpus.reserved | node.state.cpu.reusable(uid)
    return node.effective_shared() & ~cpus.reserved


def free_memory(node: Node, kind: str = "memory") -> Sequence[int]:
    """The bytes of one kind that a container could get on each NUMA node; all of them where nobody charges memory."""
    memory = node.kubelet.memory
    if memory is None:
        return _uncharged(node.kubelet, kind)
    index = memory.kinds.index(kind)
    free = []
    for part in node.state.memory.nodes:
        free.append(part.free[index])  # noqa: PERF401 - scores ask here, and this takes two thirds of the time
    return free


@lru_cache(maxsize=1024)
def _uncharged(kubelet: Kubelet, kind: str) -> tuple[int, ...]:
    return tuple(
        numa.memory_bytes if kind == "memory" else dict(numa.hugepages).get(kind, 0)
        for numa in kubelet.hardware.numa
    )


def free_devices(node: Node, resource: str, uid: str = "") -> int:
    """The devices that a container could get."""
    state = node.state.device
    free = node.kubelet.devices.inventories[resource].healthy & ~state.taken.get(resource, 0)
    return free | state.reusable(uid, resource) if uid else free


def free_in_all(node: Node, resource: str, uid: str = "") -> int:
    """What is free on the whole machine; a device on two NUMA nodes, or on none, counts once."""
    if resource in node.kubelet.devices.inventories:
        return free_devices(node, resource, uid).bit_count()
    return sum(part.free for part in account(node, resource, uid))


def cpu_owners(node: Node, uid: str = "") -> dict[str, dict[str, int]]:
    """Pod -> container -> its own CPUs, without pods whose CPUs the next one that is asked about finds free."""
    owned, pods = node.state.cpu.owned, node.state.pods
    if not node.kubelet.rules.keeps_pending:
        return owned
    return {owner: held for owner, held in owned.items() if owner in pods or owner == uid}


def holders(node: Node, resource: str, uid: str = "") -> Iterator[Holder]:
    """Who holds the resource where; a CPU or a device that goes from one container of a pod to the next counts once."""
    kubelet, state = node.kubelet, node.state
    if is_memory(resource):
        left = state.memory.reusable(uid)
        for owner, containers in state.memory.blocks.items():
            for container, blocks in containers.items():
                for block in blocks:
                    reused = left.get((block.nodes, resource), 0) if owner == uid else 0
                    if block.kind == resource and block.size > reused:
                        yield Holder(owner, container, block.size, kubelet.layout.node_ids(block.nodes))
        return
    if resource == "cpu":
        everyone, places = cpu_owners(node, uid), kubelet.layout.node_cpus
        again = state.cpu.reusable(uid)
    else:
        everyone = {
            owner: {name: held.get(resource, 0) for name, held in containers.items()}
            for owner, containers in state.device.owned.items()
        }
        places = tuple(kubelet.devices.inventories[resource].on_node)
        again = state.device.reusable(uid, resource)
    for owner, masks in everyone.items():
        counted = again
        # What an init container leaves is in the hands of the later one.
        for container, mask in reversed(masks.items()):
            for number, here in zip(kubelet.layout.ids, places, strict=True):
                if amount := (mask & here & ~counted).bit_count():
                    yield Holder(owner, container, amount, (number,))
            counted |= mask


def held_by(state: NodeState, uid: str, containers: Collection[str] | None = None) -> Holding:
    """What a pod has for itself, or these containers of it."""
    cpus, memory, devices = 0, list[Block](), dict[str, int]()
    for container, mask in state.cpu.owned.get(uid, {}).items():
        if containers is None or container in containers:
            cpus |= mask
    for container, blocks in state.memory.blocks.get(uid, {}).items():
        if containers is None or container in containers:
            memory += blocks
    for container, held in state.device.owned.get(uid, {}).items():
        if containers is None or container in containers:
            for name, mask in held.items():
                devices[name] = devices.get(name, 0) | mask
    return Holding(cpus, tuple(memory), dict(sorted(devices.items())))


def owners(state: NodeState) -> tuple[str, ...]:
    """Pods that have something for themselves, known by more than that or not."""
    return tuple(dict.fromkeys((*state.memory.blocks, *state.cpu.owned, *state.device.owned)))


def device_owners(node: Node, resource: str) -> dict[int, str]:
    """Device -> the pod that has it."""
    return {
        device: uid
        for uid in node.state.device.owned
        for device in iter_bits(held_by(node.state, uid).devices.get(resource, 0))
    }


def container_placement(kubelet: Kubelet, state: NodeState, uid: str, name: str) -> ContainerPlacement:
    """What the container of that name has."""
    held = held_by(state, uid, (name,))
    by_node = {resource: devices_by_node(kubelet, resource, mask) for resource, mask in held.devices.items()}
    return ContainerPlacement(
        name,
        list_form(held.cpus),
        tuple((kubelet.layout.node_ids(block.nodes), block.kind, block.size) for block in held.memory),
        tuple(
            (resource, tuple((numa, len(ids)) for numa, ids in nodes.items()))
            for resource, nodes in by_node.items()
        ),
    )


def shared_cpus(node: Node) -> int:
    """The CPUs that nobody has for himself; without strict reservation those of the system are among them."""
    return node.effective_shared() if node.kubelet.cpus else node.kubelet.layout.all_cpus


def numa_nodes(node: Node, uid: str) -> int:
    """The NUMA nodes, as a mask, on which a pod has CPUs, memory or devices of its own; 0 for none."""
    kubelet, held = node.kubelet, held_by(node.state, uid)
    mask = kubelet.layout.nodes_of(held.cpus)
    for block in held.memory:
        mask |= block.nodes
    for name, devices in held.devices.items():
        mask |= kubelet.devices.inventories[name].nodes_of(devices)
    return mask


def fewest_nodes(node: Node, resource: str, count: int) -> int:
    """How many NUMA nodes the kubelet believes a request needs, whatever is taken at the moment."""
    nodes = len(node.kubelet.layout.ids)
    inventory = node.kubelet.devices.inventories.get(resource)
    if inventory is not None:
        # Devices of which nobody says where they are keep no pod from one NUMA node.
        return inventory.smallest(count, nodes) if inventory.has_topology else 1
    counted = sorted([part.counted for part in account(node, resource)], reverse=True)
    return min(bisect_left(list(accumulate(counted)), count) + 1, len(counted) or 1)


def fewest_nodes_for(node: Node, pod: Pod) -> int:
    """How many NUMA nodes a pod needs on this machine, as its kubelet believes, if nothing else ran there."""
    wanted = node.kubelet.demand(pod)
    amounts = (("cpu", wanted.cpus), *wanted.memory, *wanted.devices)
    return max([fewest_nodes(node, name, count) for name, count in amounts])


def is_aligned(node: Node, pod: Pod, nodes: int) -> bool:
    """Whether a pod that lies on these NUMA nodes (a mask) needs as many."""
    return nodes.bit_count() <= 1 or nodes.bit_count() <= fewest_nodes_for(node, pod)


def tied_to(node: Node, resource: str, uid: str) -> tuple[int, ...]:
    """The NUMA nodes a pod is bound to, because its finished init containers had the resource there."""
    kubelet, state = node.kubelet, node.state
    if resource == "cpu":
        nodes = kubelet.layout.nodes_of(state.cpu.reusable(uid))
    elif resource in kubelet.devices.inventories:
        nodes = kubelet.devices.inventories[resource].nodes_of(state.device.reusable(uid, resource))
    else:
        nodes = 0
    return kubelet.layout.node_ids(nodes)


def pod_name(node: Node, uid: str) -> str:
    """How people call a pod; one known only from a state file has nothing but its uid."""
    pod = node.state.pods.get(uid)
    return f"{pod.namespace}/{pod.name}" if pod is not None and pod.namespace else uid
