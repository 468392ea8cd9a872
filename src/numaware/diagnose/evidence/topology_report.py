"""What a node's topology object says: its policy, and what each NUMA node has left.

NodeResourceTopology (all versions) and Volcano's Numatopology. Such an object is a report, and may be older than what it
is held against.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from numaware.diagnose.evidence.bundle import Bundle, Reported
from numaware.diagnose.finding import Evidence, Finding
from numaware.machine import node_topology
from numaware.machine.node_topology import TOPOLOGY_MANAGER_POLICY, NodeTopology, read_numatopology
from numaware.machine.quantity import Quantity
from numaware.workload.pod import Pod
from numaware.workload.yamlfile import Node


def read(node: Node) -> Reported | None:
    """The report in an object, None where it is no such object; what is wrong with it is passed over."""
    kind = node.get("kind").text
    name = node.get("metadata", "name").text or ""
    if kind == "NodeResourceTopology":
        topology = node_topology.read(node.plain()).topology
        return Reported(name, topology.policy or "", topology.scope or "", _available(topology))
    if kind == "Numatopology":
        numatopology = read_numatopology(node.plain()).topology
        policy = numatopology.policies.get(TOPOLOGY_MANAGER_POLICY, "")
        details = numatopology.cpu_detail.items()
        cpus = {int(cpu): place.numa for cpu, place in details if cpu.isdecimal() and len(cpu) < 6}
        return Reported(name, policy, "", {}, cpus)
    return None


def _available(topology: NodeTopology) -> dict[int, dict[str, int]]:
    """Nano-units available by NUMA node and resource."""
    available: dict[int, dict[str, int]] = {}
    for zone in topology.zones:
        for resource in zone.resources if zone.numa is not None else ():
            with suppress(ValueError):
                nano = Quantity.parse(resource.available).nano
                available.setdefault(zone.numa or 0, {})[resource.name] = nano
    return available


def with_report(bundle: Bundle, finding: Finding, pod: Pod | None) -> Finding:
    """A refusal without hints, with what its node reported to have: is there a resource that no NUMA node has enough of?"""
    if (finding.code, finding.variant) != ("topology-affinity-error", "event-only") or pod is None:
        return finding
    for piece in bundle.reports:
        if piece.content.node == finding.subject.node:
            facts = _shortage(piece.content, pod)
            if facts:
                return msgspec.structs.replace(
                    finding,
                    variant="reported",
                    confidence="likely",
                    facts={**finding.facts, **facts},
                    evidence=(*finding.evidence, Evidence(piece.file)),
                )
    return finding


def _shortage(report: Reported, pod: Pod) -> dict[str, Any]:
    for container in pod.in_order:
        for resource, asked in container.requests:
            free = {node: amounts[resource] for node, amounts in report.zones.items() if resource in amounts}
            if free and max(free.values()) < asked:
                return {
                    "container": container.name,
                    "resource": resource,
                    "asked": str(Quantity(asked)),
                    "free": {str(node): str(Quantity(amount)) for node, amount in sorted(free.items())},
                    "most": str(Quantity(max(free.values()))),
                    "policy": report.policy or None,
                }
    return {}
