"""Clusters of the lab as plain values: kinds of nodes, and how many there are of each.

A value can be sent to another process or machine; `build` makes the twins.
"""

from __future__ import annotations

import msgspec

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.cluster import Cluster
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.room import SHARE_RESOURCE, WHOLE, gpu_resource
from numaware.twin.config import KubeletConfig
from numaware.twin.errors import StartError
from numaware.twin.hardware import Hardware
from numaware.twin.node import Node
from numaware.workload.demand import Amounts
from numaware.workload.scheduling import Labels

# What kubelets allow unless told otherwise.
MOST_PODS = 110
HOSTNAME = "kubernetes.io/hostname"


class NodeSpec(msgspec.Struct, frozen=True):
    """One node: its machine, its kubelet, and what the API server says of it besides."""

    name: str
    hardware: Hardware
    config: KubeletConfig
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    most_pods: int = MOST_PODS


class ClusterSpec(msgspec.Struct, frozen=True):
    """A cluster under a name."""

    name: str
    nodes: tuple[NodeSpec, ...]


def build(spec: ClusterSpec) -> Cluster:
    """The cluster with nothing running on it; `InputError` where a kubelet would not start."""
    return Cluster(twin_of(node) for node in spec.nodes)


def machines_of(cluster: Cluster) -> ClusterSpec:
    """The machines of a cluster with nothing on them."""
    return ClusterSpec(
        "machines",
        tuple(
            NodeSpec(
                member.name,
                member.node.kubelet.hardware,
                member.node.kubelet.config,
                member.facts.labels,
                member.facts.taints,
            )
            for member in cluster
        ),
    )


def twin_of(spec: NodeSpec) -> tuple[NodeFacts, Node]:
    """One node as the scheduler and the kubelet know it."""
    try:
        node = Node.fresh(spec.hardware, spec.config)
    except StartError as error:
        problem = f"the kubelet would not start: {printable(error.message, 600)}"
        raise InputError(printable(spec.name, 80), problem) from None
    except ValueError as error:
        raise InputError(printable(spec.name, 80), printable(str(error), 600)) from None
    facts = NodeFacts(
        name=spec.name,
        labels=tuple(sorted({HOSTNAME: spec.name, **dict(spec.labels)}.items())),
        taints=spec.taints,
        allocatable=_allocatable(node, spec.most_pods),
        topology_policy=spec.config.topology_policy,
        cpu_policy=spec.config.cpu_policy,
    )
    return facts, node


def _allocatable(node: Node, most_pods: int) -> Amounts:
    """Capacity less reservations, as the kubelet reports it; what can be shared of GPUs comes on top."""
    kubelet = node.kubelet
    reserved = kubelet.reservation
    numa = kubelet.hardware.numa
    pages = {name for part in numa for name, _ in part.hugepages}
    huge = {name: sum(dict(part.hugepages).get(name, 0) for part in numa) for name in sorted(pages)}
    memory = sum(part.memory_bytes for part in numa) - sum(huge.values())
    total = {"cpu": 1000 * kubelet.layout.cpu_count, "memory": memory, **huge, "pods": most_pods}
    for name, quantity in reserved.items():
        total[name] -= quantity.milli_value if name == "cpu" else quantity.value
    for name, inventory in kubelet.devices.inventories.items():
        total[name] = len(inventory.nodes)
    gpu = gpu_resource(node)
    if gpu is not None:
        total[SHARE_RESOURCE] = WHOLE * total[gpu]
    return tuple(sorted(total.items()))
