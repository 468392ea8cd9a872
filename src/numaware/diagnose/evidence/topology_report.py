"""What a node's topology object says: its policy, and what each NUMA node has left.

NodeResourceTopology (all versions) and Volcano's Numatopology. Such an object is a report, and may be older than what it
is held against.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from numaware.diagnose.evidence.bundle import Bundle, Reported
from numaware.diagnose.finding import Evidence, Finding
from numaware.machine.quantity import Quantity
from numaware.workload.pod import Pod
from numaware.workload.yamlfile import Node

_ZONE = re.compile(r"\D*(\d{1,3})")
_POLICIES = {
    "none": "none",
    "besteffort": "best-effort",
    "restricted": "restricted",
    "singlenumanode": "single-numa-node",
}


def read(node: Node) -> Reported | None:
    """The report in an object, None where it is no such object."""
    kind = node.get("kind").text
    name = node.get("metadata", "name").text or ""
    if kind == "NodeResourceTopology":
        policy, scope = _policy(node)
        return Reported(name, policy, scope, _zones(node))
    if kind == "Numatopology":
        given = node.get("spec", "policies", "TopologyManagerPolicy").text or ""
        return Reported(name, given, "", {}, _cpus(node.get("spec", "cpuDetail")))
    return None


def _policy(node: Node) -> tuple[str, str]:
    """Attributes in newer objects, one word for policy and scope in older ones (`SingleNUMANodePodLevel`)."""
    told = {item.get("name").text: item.get("value").text or "" for item in node.get("attributes").items}
    policy, scope = told.get("topologyManagerPolicy", ""), told.get("topologyManagerScope", "")
    for item in node.get("topologyPolicies").items:
        word = (item.text or "").lower()
        level = next((one for one in ("container", "pod") if word.endswith(f"{one}level")), "")
        policy = policy or _POLICIES.get(word.removesuffix(f"{level}level"), "")
        scope = scope or level
    return policy, scope


def _zones(node: Node) -> dict[int, dict[str, int]]:
    """Nano-units available by NUMA node and resource."""
    zones: dict[int, dict[str, int]] = {}
    for zone in node.get("zones").items:
        number = _ZONE.fullmatch(zone.get("name").text or "")
        if number is None:
            continue
        for entry in zone.get("resources").items:
            try:
                amount = Quantity.parse(str(entry.get("available").value)).nano
            except ValueError:
                continue
            zones.setdefault(int(number[1]), {})[entry.get("name").text or ""] = amount
    return zones


def _cpus(details: Node) -> dict[int, int]:
    found = {}
    for cpu, place in details.mapping.items():
        numa = place.get("numa").value
        if cpu.isdecimal() and len(cpu) < 6 and isinstance(numa, int) and not isinstance(numa, bool):
            found[int(cpu)] = numa
    return found


def with_report(bundle: Bundle, found: Finding, pod: Pod | None) -> Finding:
    """A refusal without hints, with what its node reported to have: is there a resource that no NUMA node has enough of?"""
    if (found.code, found.variant) != ("topology-affinity-error", "event-only") or pod is None:
        return found
    for piece in bundle.reports:
        if piece.content.node == found.subject.node:
            facts = _shortage(piece.content, pod)
            if facts:
                return msgspec.structs.replace(
                    found,
                    variant="reported",
                    confidence="likely",
                    facts={**found.facts, **facts},
                    evidence=(*found.evidence, Evidence(piece.file)),
                )
    return found


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
