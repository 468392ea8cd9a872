"""One node in full: its machine, who holds what, how its kubelet is told to behave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from numaware.machine.cpuset import list_form
from numaware.schedule.cluster import Member
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.room import gpu_resource
from numaware.serve.console.views.strips import Largest, largest_by_numa
from numaware.serve.console.views.summary import Summary
from numaware.serve.console.views.wall_model import WallModel
from numaware.serve.console.world import Event
from numaware.serve.listing import DraDevice, dra_devices
from numaware.simulate.measure import numa_nodes
from numaware.twin.account import (
    Holding,
    account,
    device_owners,
    free_cpus,
    free_devices,
    free_memory,
    held_by,
    owners,
    pod_name,
    shared_cpus,
)
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.hardware import Hardware
from numaware.twin.links import MOST_DEVICES
from numaware.twin.node import Node
from numaware.twin.readmission import lost_at_restart
from numaware.twin.rules import named_version
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class

_MOST_EVENTS = 20


class Core(msgspec.Struct, frozen=True, array_like=True):
    """A core and its threads, as the kernel numbers them, with their socket and last-level cache (None: not told)."""

    cpus: tuple[int, ...]
    socket: int
    cache: int | None


class NodeDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device, on which NUMA nodes it is, and the pod that holds it."""

    id: str
    resource: str
    numa: tuple[int, ...]
    healthy: bool
    pod: str = ""
    # Thousandths left of a device in shared use.
    left: int | None = None


class Held(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod holds of one NUMA node: CPUs, bytes, devices."""

    pod: str
    size: int
    cpus: str
    devices: tuple[str, ...]


class NumaView(msgspec.Struct, frozen=True, rename="camel"):
    """One NUMA node; sizes in bytes. `managed` tells whether the Memory Manager looks after its memory.

    Every CPU is one that `held` names, one of `reservedCpus` or one of `freeToPinCpus`, which a new pod could own.
    """

    id: int
    cores: tuple[Core, ...]
    cpus: str
    reserved_cpus: str
    free_to_pin_cpus: str
    memory: int
    free_to_pin_memory: int
    memory_reserved: int
    managed: bool
    held: tuple[Held, ...]
    gpus: int
    free_to_pin_devices: tuple[str, ...]
    hugepages: dict[str, tuple[int, int]]
    distances: tuple[int, ...]


class PodOnNode(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the node. `gpus` counts those of its devices that are GPUs. `slot` is its letter (0 is A) as long as it lives there, None for one that owns nothing.

    `lostAtRestart` is what the kubelet would say to it if it were started again now, empty if the pod would stay.
    """

    pod: str
    uid: str
    slot: int | None
    qos: str
    cpus: str
    cpu_milli: int
    memory: int
    devices: dict[str, tuple[str, ...]]
    gpus: int
    numa: tuple[int, ...]
    aligned: bool
    since: int
    predicted: bool | None
    lost_at_restart: str


class Kubelet(msgspec.Struct, frozen=True, rename="camel"):
    """What the node's kubelet is told; `version` says beside it what a release nobody knows is modelled as."""

    version: str
    topology_policy: str
    topology_scope: str
    topology_options: dict[str, str]
    cpu_policy: str
    cpu_options: dict[str, str]
    memory_policy: str
    reserved_cpus: str


class NodeView(msgspec.Struct, frozen=True, rename="camel"):
    """All that is known of a node.

    `caches` are the bytes of each last-level cache, 0 if nobody told, by the number that cores have.
    `poolCpus` counts the CPUs that pods share, `linksKnown` tells whether more is known of devices than their NUMA nodes.
    `links` has a row for each of `devices` and says how close it is to each of them, in nvidia-smi's words: X is the device
    itself, the empty word not known. It is empty where there are too many devices for a table. `dra` are devices that DRA drivers
    report of the node, which are none of its kubelet's.
    """

    summary: Summary
    kubelet: Kubelet
    labels: dict[str, str]
    taints: tuple[str, ...]
    unschedulable: bool
    numa: tuple[NumaView, ...]
    caches: tuple[int, ...]
    shared_cpus: str
    pool_cpus: int
    devices: tuple[NodeDevice, ...]
    links: tuple[tuple[str, ...], ...]
    links_known: bool
    pods: tuple[PodOnNode, ...]
    largest: tuple[Largest, ...]
    events: tuple[Event, ...]
    dra: tuple[DraDevice, ...]
    time: int


class Letters:
    """Which letter each pod of a node has: the first that was free when it came, kept until it leaves."""

    def __init__(self, slots: Mapping[str, dict[str, int]] | None = None) -> None:
        self._slots: dict[str, dict[str, int]] = dict(slots or {})

    def of(self, member: Member) -> dict[str, int]:
        known = self._slots.get(member.name, {})
        owning = [uid for uid, pod in member.pods.items() if numa_nodes(member, pod)]
        slots = {uid: known[uid] for uid in owning if uid in known}
        taken = set(slots.values())
        free = (slot for slot in range(len(owning) + 1) if slot not in taken)
        for uid in owning:
            if uid not in slots:
                slots[uid] = next(free)
        self._slots[member.name] = slots
        return slots


def view_of(wall_model: WallModel, letters: Letters, member: Member) -> NodeView:
    """Everything about the node."""
    node, world = member.node, wall_model.world
    kubelet, config = node.kubelet, node.kubelet.config
    slots, lost = letters.of(member), _lost_at_restart(node)
    recent = (event for event in reversed(world.events) if event.node == member.name and event.kind != "left")
    devices = tuple(_devices(member))
    return NodeView(
        summary=wall_model.summaries([member])[0],
        kubelet=Kubelet(
            named_version(config.version),
            config.topology_policy,
            config.topology_scope,
            dict(config.topology_options),
            config.cpu_policy,
            dict(config.cpu_options),
            config.memory_policy,
            list_form(kubelet.cpus.reserved) if kubelet.cpus else "",
        ),
        labels=dict(member.facts.labels),
        taints=tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in member.facts.taints),
        unschedulable=member.facts.unschedulable,
        numa=tuple(_numa(node, position) for position in range(len(kubelet.layout.ids))),
        caches=tuple(cache.size for cache in kubelet.hardware.caches),
        shared_cpus=list_form(shared_cpus(node)),
        pool_cpus=free_cpus(node).bit_count(),
        devices=devices,
        links=_links(kubelet.hardware, devices),
        links_known=bool(kubelet.hardware.links),
        pods=tuple(
            _pod(wall_model, member, pod, slots.get(uid), lost.get(uid, ""))
            for uid, pod in member.pods.items()
        ),
        largest=tuple(largest_on(member)),
        events=tuple(islice(recent, _MOST_EVENTS)),
        dra=tuple(dra_devices(world.cluster, member.name)),
        time=world.now,
    )


def largest_on(member: Member) -> Iterator[Largest]:
    """Per NUMA node what one pod could have of it, for every number of free GPUs worth telling; the best first."""
    most = -1
    for one in sorted(largest_by_numa(member), key=lambda one: (-one.cpus, -one.gpus, one.numa)):
        if one.gpus > most:
            most = one.gpus
            yield one


def name_of(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}" if pod.namespace else pod.uid


def held_on(node: Node, position: int, pod: str, holding: Holding) -> Held:
    """The part of what a pod has that is on one NUMA node."""
    blocks = [block for block in holding.memory if block.kind == "memory" and block.nodes >> position & 1]
    inventories = node.kubelet.devices.inventories
    return Held(
        pod,
        sum(block.size // block.nodes.bit_count() for block in blocks),
        list_form(holding.cpus & node.kubelet.layout.node_cpus[position]),
        tuple(
            device
            for name, mask in holding.devices.items()
            for device in inventories[name].names(mask & inventories[name].on_node[position])
        ),
    )


def _numa(node: Node, position: int) -> NumaView:
    kubelet, state = node.kubelet, node.state
    hardware = kubelet.hardware.numa[position]
    caches = kubelet.hardware.caches
    cores: dict[tuple[int, int | None, int], list[int]] = {}
    for cpu in hardware.cpus:
        cache = next((index for index, one in enumerate(caches) if one.cpus >> cpu.id & 1), None)
        cores.setdefault((cpu.socket, cache, cpu.core), []).append(cpu.id)
    memory = account(node, "memory")
    inside = kubelet.layout.node_cpus[position]
    held = [held_on(node, position, pod_name(node, uid), held_by(state, uid)) for uid in owners(state)]
    inventories, gpu = kubelet.devices.inventories, gpu_resource(node)
    return NumaView(
        id=hardware.id,
        cores=tuple(
            Core(tuple(sorted(cpus)), socket, cache)
            for (socket, cache, _), cpus in sorted(cores.items(), key=lambda item: min(item[1]))
        ),
        cpus=list_form(inside),
        reserved_cpus=list_form(kubelet.cpus.reserved & inside) if kubelet.cpus else "",
        free_to_pin_cpus=list_form(free_cpus(node) & inside),
        memory=hardware.memory_bytes,
        free_to_pin_memory=free_memory(node)[position],
        memory_reserved=memory[position].reserved if memory else 0,
        managed=bool(memory),
        held=tuple(one for one in held if one.size or one.cpus or one.devices),
        gpus=inventories[gpu].on_node[position].bit_count() if gpu else 0,
        free_to_pin_devices=tuple(
            device
            for name, inventory in inventories.items()
            for device in inventory.names(free_devices(node, name) & inventory.on_node[position])
        ),
        hugepages={name: (total, free_memory(node, name)[position]) for name, total in hardware.hugepages},
        distances=hardware.distances,
    )


def _devices(member: Member) -> Iterator[NodeDevice]:
    node = member.node
    layout = node.kubelet.layout
    for name, inventory in sorted(node.kubelet.devices.inventories.items()):
        owner = device_owners(node, name)
        for index, device in enumerate(inventory.ids):
            yield NodeDevice(
                device,
                name,
                layout.node_ids(inventory.nodes[index]),
                bool(inventory.healthy >> index & 1),
                pod_name(node, owner[index]) if index in owner else "",
                member.load.shares.get(index) if "gpu" in name else None,
            )


def _links(hardware: Hardware, devices: Sequence[NodeDevice]) -> tuple[tuple[str, ...], ...]:
    if len(devices) > MOST_DEVICES:
        return ()
    kinds = {frozenset((link.a, link.b)): link.kind for link in hardware.links}

    def word(one: NodeDevice, other: NodeDevice) -> str:
        if one is other:
            return "X"
        link = kinds.get(frozenset(((one.resource, one.id), (other.resource, other.id))))
        if link is not None or not one.numa or not other.numa:
            return link or ""
        return "NODE" if set(one.numa) & set(other.numa) else "SYS"

    return tuple(tuple(word(one, other) for other in devices) for one in devices)


@lru_cache(maxsize=16)
def _lost_at_restart(node: Node) -> dict[str, str]:
    """What the kubelet would say to each pod that it would refuse after a restart, by uid; to all if it stayed down."""
    try:
        return {lost.uid: f"{lost.reason}: {lost.message}" for lost in lost_at_restart(node)}
    except StartError as error:
        return dict.fromkeys(node.state.pods, error.message)
    except (KubeletPanic, ValueError):
        return {}


def _pod(wall_model: WallModel, member: Member, pod: Pod, slot: int | None, lost: str) -> PodOnNode:
    node = member.node
    held = held_by(node.state, pod.uid)
    requests = dict(pod_requests(pod))
    story = wall_model.world.stories.get(pod.uid)
    mask = numa_nodes(member, pod)
    return PodOnNode(
        pod=name_of(pod),
        uid=pod.uid,
        slot=slot,
        qos=qos_class(pod),
        cpus=list_form(held.cpus),
        cpu_milli=requests.get("cpu", 0),
        memory=requests.get("memory", 0),
        devices=device_ids(node, held),
        gpus=held.devices.get(gpu_resource(node) or "", 0).bit_count(),
        numa=node.kubelet.layout.node_ids(mask),
        aligned=wall_model.is_aligned(member, pod, mask),
        since=story.since if story else 0,
        predicted=None if story is None or story.predicted is None else story.predicted == story.observed,
        lost_at_restart=lost,
    )


def device_ids(node: Node, held: Holding) -> dict[str, tuple[str, ...]]:
    """Resource -> the devices that somebody holds."""
    return {name: node.kubelet.devices.inventories[name].names(mask) for name, mask in held.devices.items()}
