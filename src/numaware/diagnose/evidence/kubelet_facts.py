"""What is known about one kubelet, from its log, its settings, its machine and its topology object; the rules ask it."""

from __future__ import annotations

from collections import Counter

import msgspec

from numaware.diagnose.evidence.bundle import Reported
from numaware.diagnose.evidence.logs.journal import NodeLog
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine
from numaware.twin.rules import rules_for
from numaware.twin.settings import Settings

_CLOSEST = "prefer-closest-numa-nodes"


class KubeletFacts(msgspec.Struct, frozen=True):
    """Policy and scope are empty, maps empty, where nothing says them."""

    node: str = ""
    policy: str = ""
    scope: str = ""
    version: str = ""
    numa_of_cpus: dict[int, int] = {}
    reserved: str = ""
    numa_nodes: int = 0
    closest: bool = False
    whole_machine: bool = False

    @property
    def old(self) -> bool | None:
        """Whether the kubelet is older than 1.24, None if its version is not known."""
        try:
            return not rules_for(self.version).equal_masks
        except ValueError:
            return None

    def nodes_of(self, cpus: str) -> list[int]:
        """The NUMA nodes of a CPU list, none if one of its CPUs is not known."""
        listed = list(CpuSet.parse(cpus)) if cpus else []
        if not listed or any(cpu not in self.numa_of_cpus for cpu in listed):
            return []
        return sorted({self.numa_of_cpus[cpu] for cpu in listed})

    def cpus_per_node(self) -> Counter[int]:
        """How many CPUs each NUMA node has."""
        return Counter(self.numa_of_cpus.values())

    def exclusive_per_node(self) -> Counter[int]:
        """How many of them can be given away."""
        counts, reserved = self.cpus_per_node(), CpuSet.parse(self.reserved or "")
        counts.subtract(self.numa_of_cpus[cpu] for cpu in reserved if cpu in self.numa_of_cpus)
        return counts


def kubelet_facts(
    log: NodeLog | None, settings: Settings | None, machine: Machine | None, report: Reported | None = None
) -> KubeletFacts:
    """Put together what a log, a configuration, a machine and a topology object say; the log saw it running, and wins."""
    facts = log.facts if log else {}
    numa = dict(facts.get("numaOfCpus", {}))
    if machine is not None and not numa:
        numa = {cpu.id: cpu.numa for cpu in machine.cpus if cpu.numa is not None}
    settings = settings or Settings()
    report = report or Reported("")
    numa = numa or dict(report.numa_of_cpus)
    reserved = str(facts.get("reserved", "")) or settings.reserved_cpus or ""
    try:
        CpuSet.parse(reserved)
    except ValueError:
        reserved = ""
    options = str(facts.get("options", ""))
    asked = [name for name, value in settings.topology_options or () if value == "true"]
    nodes = max((number + 1 for number in numa.values()), default=0)
    if machine is not None and machine.numa:
        nodes = max(nodes, *(one.id + 1 for one in machine.numa))
    return KubeletFacts(
        node=log.node if log else "",
        policy=str(facts.get("policy", "")) or settings.topology_policy or report.policy,
        scope=str(facts.get("scope", "")) or settings.topology_scope or report.scope,
        version=str(facts.get("version", "")),
        numa_of_cpus=numa,
        reserved=reserved,
        numa_nodes=nodes,
        whole_machine=machine is not None and bool(machine.numa),
        closest='"PreferClosestNUMA":true' in options
        or "PreferClosestNUMA:true" in options
        or _CLOSEST in asked,
    )
