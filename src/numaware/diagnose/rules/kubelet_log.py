"""Findings about a kubelet as a whole, from its log: that it does not start, lost a device plugin, or runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from numaware.diagnose.evidence import log_evidence
from numaware.diagnose.evidence.logs.journal import NodeLog
from numaware.diagnose.finding import Finding, Message, Subject, finding
from numaware.diagnose.rules.memory_sum import apart, split
from numaware.machine.quantity import Quantity
from numaware.machine.topology import Machine

# Devices that sit on the bus of a NUMA node; of others (fuse, kvm, shares) nobody expects one.
_NEAR_A_NODE = re.compile(r"gpu|npu|ascend|tpu|rdma|roce|hca|sriov|nic\b", re.IGNORECASE)


def node_findings(log: NodeLog, machine: Machine | None = None) -> Iterator[Finding]:
    """What one kubelet's log says of it; with its machine, what to write into its configuration."""
    subject = Subject("Kubelet", name=log.node, node=log.node)
    for meaning, seen, count in log.failures.values():
        facts: dict[str, Any] = {**meaning.facts, "count": count if count > 1 else None}
        if meaning.code == "memory-manager-reserved-memory-mismatch":
            facts |= _sum(facts, machine)
        if meaning.code == "too-many-numa-nodes":
            facts["policy"] = log.facts.get("policy")
        evidence = [log_evidence.line(seen, log_evidence.quoted(seen, meaning.quote), Message("stopped"))]
        yield finding(meaning.code, subject, facts, evidence, variant=meaning.variant)
    for resource, seen in log.lost_plugins.items():
        yield finding(
            "device-plugin-error",
            subject,
            {"resource": resource, "error": seen.message or None, "call": "ListAndWatch"},
            [log_evidence.line(seen, resource)],
            severity="warning",
            confidence="likely",
            variant="gone",
        )
    for resource, seen in log.without_topology.items():
        if _NEAR_A_NODE.search(resource):
            evidence = [log_evidence.line(seen, resource)]
            facts = {"resource": resource, "nodes": [log.node] if log.node else None}
            yield finding("devices-without-topology", subject, facts, evidence, confidence="likely")
    if not log.failures:
        yield from _started(log, subject)


def _started(log: NodeLog, subject: Subject) -> Iterator[Finding]:
    policies = {manager: str(seen.facts.get("policy", "")) for manager, seen in log.started.items()}
    lines = dict(log.started)
    if log.facts.get("policy"):
        policies["Topology Manager"] = str(log.facts["policy"])
        lines["Topology Manager"] = log.fact_lines["policy"]
    managers = [{"manager": manager, "policy": policy} for manager, policy in policies.items() if policy]
    if managers:
        facts = {
            "managers": managers,
            "policy": log.facts.get("policy"),
            "reserved": log.facts.get("reserved"),
            "version": log.facts.get("version"),
        }
        evidence = [log_evidence.line(seen, str(seen.facts.get("policy", ""))) for seen in lines.values()]
        yield finding("healthy", subject, facts, evidence, variant="started")


def _sum(facts: dict[str, Any], machine: Machine | None) -> dict[str, Any]:
    """How far reservedMemory is from what it should be, and a reservation of the right sum, on the machine where it is known."""
    try:
        found, wanted = Quantity.parse(str(facts["found"])), Quantity.parse(str(facts["wanted"]))
    except (KeyError, ValueError):
        return {}
    nodes = [node.id for node in machine.numa if node.memory_bytes] if machine else []
    return {**apart(found, wanted), "example": split(str(facts.get("resource", "memory")), wanted, nodes)}
