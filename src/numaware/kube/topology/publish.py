"""A node as the NodeResourceTopology that our agent applies: zones that any scheduler reads, and all of it for our own.

Everything is sorted and in whole numbers, so that nothing changes on the wire unless something changed on the node.
"""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.kube.decoding import OwnerReference
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES, Resource
from numaware.kube.topology import complete
from numaware.kube.topology.fingerprint import Method, fingerprint
from numaware.kube.topology.nrt import FINGERPRINT, METHOD
from numaware.machine.cpuset import list_form
from numaware.machine.node_topology import (
    NUMA_ZONE,
    OLD_POLICIES,
    POLICY,
    SCOPE,
    Attribute,
    Cost,
    NodeTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numaware.twin.account import account, free_cpus, held_by, resources
from numaware.twin.node import Node
from numaware.workload.pod import Pod

FREE_CPUS = "numaware.io/free-cpus"
RESERVED_CPUS = "numaware.io/reserved-cpus"
_LARGEST = (1 << 63) - 1
_OLD_NAMES = {scoped: name for name, scoped in OLD_POLICIES.items() if name != "SingleNUMANode"}


def encode(
    name: str,
    node: Node,
    generation: int,
    *,
    owner: OwnerReference | None = None,
    method: Method = "with-exclusive-resources",
) -> dict[str, Any]:
    """The object of the node called `name`, ready to be applied. The pods of `node` have to have their real names.

    Without the name of every pod there is no fingerprint: a wrong one would be worse.
    """
    config = node.kubelet.config
    attributes = {
        POLICY: config.topology_policy,
        SCOPE: config.topology_scope,
        **complete.encode(node, generation),
    }
    pods = node.state.pods.values()
    if all(pod.namespace for pod in pods):
        counted = (pod for pod in pods if method == "all" or _is_exclusive(node, pod))
        attributes[METHOD] = method
        attributes[FINGERPRINT] = fingerprint((pod.namespace, pod.name) for pod in counted)
    policy = config.topology_policy
    return {
        **object_head(NODE_RESOURCE_TOPOLOGIES, name, owner),
        **msgspec.to_builtins(
            NodeTopology(
                tuple(_zone(node, position, amounts) for position, amounts in enumerate(_amounts(node))),
                (_OLD_NAMES[policy, None if policy == "none" else config.topology_scope],),
                _listed(attributes),
            )
        ),
    }


def object_head(resource: Resource, name: str, owner: OwnerReference | None) -> dict[str, Any]:
    """What an object of that kind and name begins with."""
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    return {**resource.head, "metadata": metadata}


def _is_exclusive(node: Node, pod: Pod) -> bool:
    """Whether the kubelet shows something of a NUMA node that the pod has for itself: not in init containers that end."""
    kubelet = node.kubelet
    parts = kubelet.demand(pod).containers
    held = held_by(node.state, pod.uid, [part.name for part in parts if not part.ends])
    inventories = kubelet.devices.inventories
    placed = any(mask & inventories[resource].placed for resource, mask in held.devices.items())
    return bool(held.cpus or held.memory or placed)


def _zone(node: Node, position: int, resource_amounts: dict[str, tuple[int, int, int]]) -> Zone:
    kubelet = node.kubelet
    hardware = kubelet.hardware.numa[position]
    cpus = kubelet.layout.node_cpus[position]
    attributes = {}
    if kubelet.cpus:
        attributes[FREE_CPUS] = list_form(cpus & free_cpus(node))
        attributes[RESERVED_CPUS] = list_form(cpus & kubelet.cpus.reserved)
    costs = zip(kubelet.layout.ids, hardware.distances, strict=False)
    return Zone(
        zone_name(hardware.id),
        NUMA_ZONE,
        tuple(Cost(zone_name(other), distance) for other, distance in costs),
        _listed(attributes),
        tuple(
            ZoneResource(resource, *(str(min(amount, _LARGEST)) for amount in reversed(amounts)))
            for resource, amounts in sorted(resource_amounts.items())
        ),
    )


def _amounts(node: Node) -> list[dict[str, tuple[int, int, int]]]:
    """Resource -> capacity, allocatable and available of each NUMA node, as the managers could give them."""
    kubelet = node.kubelet
    amounts = [{"cpu": (cpus.bit_count(), 0, 0)} for cpus in kubelet.layout.node_cpus]
    for name in resources(node):
        for position, part in enumerate(account(node, name)):
            # A pool of huge pages may be there and empty.
            if part.total or name == "cpu" or (kubelet.memory and name in kubelet.memory.totals[position]):
                amounts[position][name] = part.total, part.allocatable, part.free
    return amounts


def _listed(attributes: dict[str, str]) -> tuple[Attribute, ...]:
    return tuple(Attribute(name, value) for name, value in sorted(attributes.items()))
