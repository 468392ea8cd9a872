"""The ways a node may be that is known by counts only: one twin for every combination of what the managers may be.

The twins have as many CPUs, bytes and devices on every NUMA node as was published; which ones exactly is made up, and
`unknowns.py` knows when that could matter.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from numaware.machine.cpuset import list_form
from numaware.machine.quantity import Quantity
from numaware.schedule.published_counts import Counts, amount
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.device.manager import DeviceState
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware, PluginDevice, PluginResource
from numaware.twin.memory.state import NodeMemory
from numaware.twin.node import Node, NodeState
from numaware.workload.demand import is_memory
from numaware.workload.requirements import is_extended

_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
HEALTH = "unhealthyDevices"
# Whoever holds the devices that were in use when the counts were taken.
_COUNTED = "counted"


class CandidateTwin(NamedTuple):
    """One way the node may be: what is assumed, by the name of the setting, and the twin that follows from it."""

    assumed: tuple[tuple[str, str], ...]
    node: Node


def candidate_twins(counts: Counts) -> tuple[CandidateTwin, ...]:
    """Every way the node may be; only what was not told varies."""
    has_cpus = any(amount(zone.allocatable, "cpu") for zone in counts.zones)
    has_memory = any(amount for zone in counts.zones for kind, amount in zone.allocatable if is_memory(kind))
    used_cpus = any(amount(zone.available, "cpu") < amount(zone.allocatable, "cpu") for zone in counts.zones)
    names = sorted({name for zone in counts.zones for name, _ in zone.allocatable if is_extended(name)})
    broken = not all(counts.knows_devices(name) for name in names)
    settings: dict[str, tuple[str, ...]] = {
        "topologyManagerPolicy": _known(counts.policy, _POLICIES),
        "topologyManagerScope": _known(counts.scope, ("container", "pod")),
        # Publishers count what the managers could give: where that is nothing, there is no such manager.
        "cpuManagerPolicy": _known(counts.cpu_policy, ("static",) if used_cpus else ("static", "none"))
        if has_cpus
        else ("none",),
        "memoryManagerPolicy": _known(counts.memory_policy, ("Static", "None")) if has_memory else ("None",),
        HEALTH: ("some", "none") if broken else ("none",),
    }
    twins = []
    for values in product(*settings.values()):
        assumed = dict(zip(settings, values, strict=True))
        twins.append(CandidateTwin(tuple(assumed.items()), _twin(counts, names, assumed)))
    return tuple(twins)


def _known(published: str | None, possible: tuple[str, ...]) -> tuple[str, ...]:
    return possible if published is None else (published,)


def _twin(counts: Counts, names: list[str], assumed: dict[str, str]) -> Node:
    static, memory = assumed["cpuManagerPolicy"] == "static", assumed["memoryManagerPolicy"] == "Static"
    first, reserved, used = 0, 0, 0
    numa = []
    for index, zone in enumerate(counts.zones):
        total, could, left = (
            amount(part, "cpu") for part in (zone.capacity, zone.allocatable, zone.available)
        )
        total = max(total, could)
        cpus = tuple(CpuPlace(number, number, index) for number in range(first, first + total))
        # Lowest first: the system's CPUs, those in use, those that are free.
        reserved |= ((1 << total - could) - 1) << first
        used |= ((1 << max(0, could - left)) - 1) << first + total - could
        first += total
        pages = tuple(
            (kind, amount) for kind, amount in zone.allocatable if is_memory(kind) and kind != "memory"
        )
        # One byte on the first node is the system's, because the Memory Manager insists on some.
        size = amount(zone.allocatable, "memory") + sum(amount for _, amount in pages) + (index == 0)
        numa.append(NumaHardware(zone.id, cpus, size, pages, zone.distances))
    byte = Quantity.of(1)
    config = KubeletConfig(
        version=counts.version,
        topology_policy=assumed["topologyManagerPolicy"],
        topology_scope=assumed["topologyManagerScope"],
        topology_options=(("max-allowable-numa-nodes", str(len(numa))),) if len(numa) > 8 else (),
        cpu_policy="static" if static and reserved else "none",
        reserved_cpus=list_form(reserved) if static and reserved else None,
        memory_policy="Static" if memory else "None",
        kube_reserved=(("memory", byte),) if memory else (),
        reserved_memory=(MemoryReservation(counts.zones[0].id, (("memory", byte),)),) if memory else (),
    )
    resources = [_devices(counts, name, broken=assumed[HEALTH] == "some") for name in names]
    node = Node.fresh(Hardware(tuple(numa), tuple(resource for resource, _ in resources)), config)
    fresh = node.state
    taken = {resource.name: held for resource, held in resources if held}
    cpu, charged, device, pods = fresh.cpu, fresh.memory, fresh.device, fresh.pods
    owned = {_COUNTED: {"": taken}} if taken else {}
    if node.kubelet.cpus:
        cpu = replace(cpu, shared=cpu.shared & ~used)
    if node.kubelet.memory:
        kinds = node.kubelet.memory.kinds
        charged = replace(
            charged,
            nodes=tuple(
                _charged(part, tuple(amount(zone.available, kind) for kind in kinds))
                for part, zone in zip(charged.nodes, counts.zones, strict=True)
            ),
        )
    state = NodeState(cpu, charged, DeviceState(owned, owned, taken) if taken else device, pods)
    return Node(node.kubelet, state)


def _charged(part: NodeMemory, free: tuple[int, ...]) -> NodeMemory:
    return NodeMemory(int(free != part.free), part.cells, free)


def _devices(counts: Counts, name: str, *, broken: bool) -> tuple[PluginResource, int]:
    """The devices of one resource and the mask of those in use; ids are in the order of the zones."""
    devices: list[PluginDevice] = []
    held = 0
    for zone in counts.zones:
        could, left = amount(zone.allocatable, name), amount(zone.available, name)
        for number in range(could):
            if number >= left:
                held |= 1 << len(devices)
            devices.append(PluginDevice(f"{len(devices):06}", (zone.id,)))
    if broken and not counts.knows_devices(name):
        # So many on one NUMA node that any request belongs on one by the size of the machine.
        first = counts.zones[0].id
        devices += [
            PluginDevice(f"{len(devices) + n:06}", (first,), healthy=False) for n in range(len(devices))
        ]
    return PluginResource(name, tuple(devices)), held
