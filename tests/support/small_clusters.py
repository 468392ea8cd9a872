"""Clusters for tests of the engine, each in one line: equal machines with a few GPUs, called n0, n1, ..."""

from __future__ import annotations

from msgspec.structs import replace

from numaware.schedule.cluster import Cluster
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.room import SHARE_RESOURCE
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod
from numaware.workload.scheduling import Labels, Owner, Scheduling
from support.twin_nodes import GPU, config, machine


def gpu_node(
    policy: str = "restricted", *, cpus: int = 8, scope: str = "container", memory: bool = False
) -> Node:
    """Two NUMA nodes of `cpus` CPUs and two GPUs each; CPU 0 is the system's."""
    gpus = {f"g{number}": (number // 2,) for number in range(4)}
    return Node.fresh(machine(2, cpus, devices={GPU: gpus}), config(policy, scope=scope, memory=memory))


def facts_of(
    name: str, node: Node, *, labels: Labels = (), taints: tuple[Taint, ...] = (), unschedulable: bool = False
) -> NodeFacts:
    hardware = node.kubelet.hardware
    devices = {name: len(inventory.ids) for name, inventory in node.kubelet.devices.inventories.items()}
    amounts = {
        "cpu": 1000 * (sum(len(numa.cpus) for numa in hardware.numa) - 1),
        "memory": sum(numa.memory_bytes for numa in hardware.numa),
        "pods": 20,
        SHARE_RESOURCE: 1000 * devices.get(GPU, 0),
        **devices,
    }
    return NodeFacts(
        name,
        labels=labels,
        taints=taints,
        unschedulable=unschedulable,
        allocatable=tuple(sorted(amounts.items())),
        topology_policy=node.kubelet.config.topology_policy,
        cpu_policy=node.kubelet.config.cpu_policy,
    )


def cluster_of(*nodes: Node) -> Cluster:
    return Cluster((facts_of(f"n{number}", node), node) for number, node in enumerate(nodes))


def share_pod(uid: str, milli: int) -> Pod:
    """A pod that wants a part of a GPU and nothing else."""
    amounts = ((SHARE_RESOURCE, milli * NANO),)
    return Pod(uid, uid=uid, containers=(Container("app", amounts, amounts),))


def owned(pod: Pod, kind: str, name: str) -> Pod:
    """The pod as one that a controller made."""
    return replace(pod, scheduling=Scheduling(owners=(Owner(kind, name, controller=True),)))
