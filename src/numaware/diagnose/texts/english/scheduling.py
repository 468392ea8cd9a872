"""Why pods have no node, in English: kube-scheduler's own words, as people know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaware.diagnose.texts.template import Specs
from numaware.machine.words import count

# As FitError.Error of kube-scheduler has it (v1.35); what it leaves out where all nodes fit is left out here.
LABELS: Mapping[str, str] = {
    "unavailable": "0/{nodes} nodes are available:[[ {reasons:reasons}.]][[ nearest miss: {nearest}.]]",
    "available": "{fitting}/{nodes} nodes are available[[: {reasons:reasons}]].",
    "all-available": "{nodes}/{nodes} nodes are available.",
    "nearest-short": "node {node} is {missing:amounts} short on {nodes:set}",
    "nearest-cause": "node {node}: {cause:clause}",
}

REASONS: Mapping[str, str] = {
    "gpu-share": "Insufficient GPU share",
    "insufficient": "Insufficient {resource:named}",
    "scheduling-gates": "Scheduling is blocked due to non-empty scheduling gates",
    "too-many-pods": "Too many pods",
    "quoted": "{text}",
    "pod-unreadable": "cannot be judged: the pod cannot be read in full: {problem}",
    "claims": "cannot be judged: the pod waits for {claims:and}, and those decide about the node too",
    "volcano-cpu-policy": "cpu manager policy isn't static",
    "not-aligned": "node(s) could not align the pod",
    "numa-alignment": "node(s) could not align the pod on NUMA nodes ({policy})",
    "smt-alignment": "node(s) could not give whole cores (SMTAlignmentError)",
    "host-ports": "node(s) didn't have free ports for the requested pod ports",
    "node-affinity": "node(s) didn't match Pod's node affinity/selector",
    "pod-affinity": "node(s) didn't match pod affinity rules",
    "pod-anti-affinity": "node(s) didn't match pod anti-affinity rules",
    "topology-spread": "node(s) didn't match pod topology spread constraints",
    "topology-spread-label": "node(s) didn't match pod topology spread constraints (missing required label)",
    "node-name": "node(s) didn't match the requested node name",
    "existing-anti-affinity": "node(s) didn't satisfy existing pods anti-affinity rules",
    "devices": "node(s) had too few devices",
    "exclusive-cpus": "node(s) had too few exclusive CPUs",
    "numa-memory": "node(s) had too little memory on any usable set of NUMA nodes",
    "untolerated-taint": "node(s) had untolerated taint {{{key}: {value}}}",
    "pods-astray": "node(s) have pods of which nobody knows what they hold",
    "namespaces-unknown": "node(s) not judged: the pod's rules select namespaces by labels that could not be read yet",
    "held-back": "node(s) refused this template before and have not changed since",
    "node-unknown": "node(s) that nothing is known of",
    "unschedulable": "node(s) were unschedulable",
    "outcome-unknown": "node(s) where the outcome depends on what is not known ({unknowns:sorted})",
    "no-nodes": "no nodes",
    "volcano-no-numa-info": "numa info is empty",
    "volcano-policy": "task topology policy[{task}] is different with node[{node}]",
    "kubelet-crash": "the kubelet would crash: {error}",
    "kubelet-start": "the kubelet would not start with this policy",
    "workload-class": "unknown workload class {value} (numaware.io/workload-class is high, medium or low)",
    "volume-claims": "{number:volume_claims} ({names:list}) to be bound",
    "resource-claims": "{number:resource_claims} ({names:list}) (DRA) to be allocated",
    "setting": "{name}",
    "core-siblings": "which CPUs share a core",
    "memory-groups": "groups of the Memory Manager",
    "shares": "shares of GPUs",
    "device-nodes": "NUMA nodes of {resource}",
    "devices-on-several": "devices of {resource} on several NUMA nodes",
    "cuts": "how CPUs and devices are cut between NUMA nodes",
    "changes": "what has changed since the last report",
    "unhealthy-devices": "devices that are not healthy",
    "volcano-counts": "memory and devices of the NUMA nodes, of which Volcano does not tell",
    "no-topology": "the NUMA nodes, of which nobody tells",
}


def _reasons(reasons: str | Sequence[tuple[int, str]]) -> str:
    """As texts they are sorted, numbers and all: so does FitError.Error (v1.35)."""
    if isinstance(reasons, str):
        return reasons
    return ", ".join(sorted(f"{number} {text}" for number, text in reasons))


SPECS: Specs = {
    "reasons": _reasons,
    "named": str,
    "clause": lambda sentence: sentence.removesuffix("."),
    "sorted": lambda texts: ", ".join(sorted(texts)),
    "volume_claims": lambda number: count(number, "volume claim"),
    "resource_claims": lambda number: count(number, "resource claim"),
}
