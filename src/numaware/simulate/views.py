"""What agents would tell other schedulers about a node: amounts per NUMA node, and Volcano's list of CPUs.

In the lab agents never fail and report at once; where a scheduler's own cache lags behind, its rule sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from numaware.schedule.peers.volcano import NumaInfo
from numaware.schedule.peers.volcano_cpus import Cpu
from numaware.schedule.peers.zones import PeerZone, Policy, Scope, Topology, TopologyManager
from numaware.twin.account import free_cpus, free_devices, free_memory, shared_cpus
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Resources


def topology_of(node: Node) -> Topology:
    """The node's NodeResourceTopology."""
    empty = _empty(node.kubelet)
    return Topology(
        tuple(
            PeerZone(zone.id, free, zone.allocatable, zone.costs)
            for zone, free in zip(empty.zones, _free(node), strict=True)
        ),
        empty.manager,
    )


def numa_info_of(node: Node) -> NumaInfo:
    """The node's Numatopology: all CPUs that nobody owns are listed as free, reserved ones too."""
    kubelet = node.kubelet
    reserved = kubelet.reservation.get("cpu")
    return NumaInfo(
        _cpus(kubelet),
        shared_cpus(node),
        kubelet.config.cpu_policy,
        kubelet.config.topology_policy,
        reserved.nano if reserved else None,
    )


@lru_cache(maxsize=1024)
def _empty(kubelet: Kubelet) -> Topology:
    config = kubelet.config
    amounts = _free(Node.fresh(kubelet.hardware, config))
    zones = tuple(
        PeerZone(numa.id, free, free, tuple(zip(kubelet.layout.ids, numa.distances, strict=False)))
        for numa, free in zip(kubelet.hardware.numa, amounts, strict=True)
    )
    manager = TopologyManager(cast("Policy", config.topology_policy), cast("Scope", config.topology_scope))
    return Topology(zones, manager)


def _free(node: Node) -> list[Resources]:
    """What nobody owns of each NUMA node; CPUs and memory that no manager looks after are always free."""
    kubelet, cpus = node.kubelet, free_cpus(node)
    kinds = kubelet.memory.kinds if kubelet.memory else ("memory",)
    columns: list[tuple[str, Sequence[int]]] = [
        ("cpu", [(cpus & members).bit_count() for members in kubelet.layout.node_cpus]),
        *[(kind, free_memory(node, kind)) for kind in kinds],
    ]
    for name, inventory in kubelet.devices.inventories.items():
        if inventory.has_topology:
            free = free_devices(node, name)
            columns.append((name, [(free & on).bit_count() for on in inventory.on_node]))
    columns.sort()
    return [
        tuple([(name, column[position] * NANO) for name, column in columns])
        for position in range(len(kubelet.layout.ids))
    ]


@lru_cache(maxsize=1024)
def _cpus(kubelet: Kubelet) -> tuple[Cpu, ...]:
    return tuple(
        Cpu(cpu.id, numa.id, cpu.socket, cpu.core) for numa in kubelet.hardware.numa for cpu in numa.cpus
    )
