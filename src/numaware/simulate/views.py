"""What agents would tell other schedulers about a node: amounts per NUMA node, and Volcano's list of CPUs.

In the lab agents never fail and report at once; where a scheduler's own cache lags behind, its rule sees to that.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from numaware.schedule.peers.volcano import NumaInfo
from numaware.schedule.peers.volcano_cpus import Cpu
from numaware.schedule.peers.zones import Policy, Scope, Topology, TopologyManager, Zone
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Resources


def topology_of(node: Node) -> Topology:
    """The node's NodeResourceTopology."""
    empty = _empty(node.kubelet)
    return Topology(
        tuple(
            Zone(zone.id, _free(node, position), zone.allocatable, zone.costs)
            for position, zone in enumerate(empty.zones)
        ),
        empty.manager,
    )


def numa_info_of(node: Node) -> NumaInfo:
    """The node's Numatopology: all CPUs that nobody owns are listed as free, reserved ones too."""
    kubelet = node.kubelet
    reserved = kubelet.reservation.get("cpu")
    return NumaInfo(
        _cpus(kubelet),
        node.effective_shared() if kubelet.cpus else kubelet.layout.all_cpus,
        kubelet.config.cpu_policy,
        kubelet.config.topology_policy,
        reserved.nano if reserved else None,
    )


@lru_cache(maxsize=1024)
def _empty(kubelet: Kubelet) -> Topology:
    node = Node.fresh(kubelet.hardware, kubelet.config)
    config = kubelet.config
    zones = []
    for position, numa in enumerate(kubelet.hardware.numa):
        free = _free(node, position)
        costs = tuple(zip(kubelet.layout.ids, numa.distances, strict=False))
        zones.append(Zone(numa.id, free, free, costs))
    manager = TopologyManager(cast("Policy", config.topology_policy), cast("Scope", config.topology_scope))
    return Topology(tuple(zones), manager)


def _free(node: Node, position: int) -> Resources:
    """What nobody owns of one NUMA node; memory that no manager looks after is always free."""
    kubelet, state = node.kubelet, node.state
    free_cpus = kubelet.cpus.available(state.cpu) if kubelet.cpus else kubelet.layout.all_cpus
    amounts = {"cpu": (free_cpus & kubelet.layout.node_cpus[position]).bit_count()}
    if kubelet.memory:
        amounts |= dict(zip(kubelet.memory.kinds, state.memory.nodes[position].free, strict=True))
    else:
        amounts["memory"] = kubelet.hardware.numa[position].memory_bytes
    for name, inventory in kubelet.devices.inventories.items():
        if inventory.has_topology:
            free = kubelet.devices.free(state.device, name)
            amounts[name] = (free & inventory.on_node[position]).bit_count()
    return tuple((name, amount * NANO) for name, amount in sorted(amounts.items()))


@lru_cache(maxsize=1024)
def _cpus(kubelet: Kubelet) -> tuple[Cpu, ...]:
    return tuple(
        Cpu(cpu.id, numa.id, cpu.socket, cpu.core) for numa in kubelet.hardware.numa for cpu in numa.cpus
    )
