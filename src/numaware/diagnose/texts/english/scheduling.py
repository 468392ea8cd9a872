"""Why pods have no node, in English: kube-scheduler's own words, as people know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaware.diagnose.texts.template import Specs
from numaware.machine.words import count

# As FitError.Error of kube-scheduler has it (v1.35); what it leaves out where all nodes fit is left out here.
LABELS: Mapping[str, str] = {
    "unavailable": "0/{nodes} nodes are available:[[ {reasons:reasons}.]][[ nearest miss: {nearest}.]][[ {room}.]]",
    "available": "{fitting}/{nodes} nodes are available[[: {reasons:reasons}]].",
    "all-available": "{nodes}/{nodes} nodes are available.",
    "nearest-short": "node {node} is {missing:amounts} short on {nodes:set}",
    "nearest-cause": "node {node}: {cause:clause}",
    "room-wanted": "would fit on node {node} if {pods:list} made room; numaware does not preempt yet",
    "room-kept": "would fit on node {node} if {pods:list} made room; numaware does not preempt yet, but keeps what they leave",
}

REASONS: Mapping[str, str] = {
    "gpu-share": "Insufficient GPU share",
    "insufficient": "Insufficient {resource:named}",
    "claim-foreign": "PVC {claim} was not created for pod {pod} (pod is not owner)",
    "scheduling-gates": "Scheduling is blocked due to non-empty scheduling gates",
    "too-many-pods": "Too many pods",
    "volume-driver": "{driver} CSI driver is not installed on the node",
    "quoted": "{text}",
    "volumes-unknown": "cannot be judged: claims and volumes could not be read yet",
    "pod-unreadable": "cannot be judged: the pod cannot be read in full: {problem}",
    "claims": "cannot be judged: the pod waits for {claims:and}, and those decide about the node too",
    "volcano-cpu-policy": "cpu manager policy isn't static",
    "not-aligned": "node(s) could not align the pod",
    "numa-alignment": "node(s) could not align the pod on NUMA nodes ({policy})",
    "smt-alignment": "node(s) could not give whole cores (SMTAlignmentError)",
    "volume-space": "node(s) did not have enough free storage",
    "volume-binding": "node(s) didn't find available persistent volumes to bind",
    "host-ports": "node(s) didn't have free ports for the requested pod ports",
    "volume-affinity": "node(s) didn't match PersistentVolume's node affinity",
    "node-affinity": "node(s) didn't match Pod's node affinity/selector",
    "node-features": "node(s) didn't match Pod's required features",
    "pod-affinity": "node(s) didn't match pod affinity rules",
    "pod-anti-affinity": "node(s) didn't match pod anti-affinity rules",
    "topology-spread": "node(s) didn't match pod topology spread constraints",
    "topology-spread-label": "node(s) didn't match pod topology spread constraints (missing required label)",
    "node-name": "node(s) didn't match the requested node name",
    "existing-anti-affinity": "node(s) didn't satisfy existing pods anti-affinity rules",
    "volume-limit": "node(s) exceed max volume count",
    "disk-conflict": "node(s) had no available disk",
    "volume-zone": "node(s) had no available volume zone",
    "devices": "node(s) had too few devices",
    "exclusive-cpus": "node(s) had too few exclusive CPUs",
    "numa-memory": "node(s) had too little memory on any usable set of NUMA nodes",
    "untolerated-taint": "node(s) had untolerated taint {{{key}: {value}}}",
    "pods-astray": "node(s) have pods of which nobody knows what they hold",
    "room-held": "node(s) keep their room for a pod of higher priority",
    "room-nominated": "node(s) keep their room for a pod that another scheduler nominated to them",
    "dra-resources": "node(s) left to kube-scheduler, which allocates what DRA serves here ({names:list})",
    "namespaces-unknown": "node(s) not judged: the pod's rules select namespaces by labels that could not be read yet",
    "held-back": "node(s) refused this template before and have not changed since",
    "node-unknown": "node(s) that nothing is known of",
    "claim-in-use": "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    "unschedulable": "node(s) were unschedulable",
    "outcome-unknown": "node(s) where the outcome depends on what is not known ({unknowns:sorted})",
    "no-nodes": "no nodes",
    "volcano-no-numa-info": "numa info is empty",
    "volume-missing": 'persistentvolume "{name}" not found',
    "claim-lost": 'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"',
    "claim-deleted": 'persistentvolumeclaim "{name}" is being deleted',
    "claim-missing": 'persistentvolumeclaim "{name}" not found',
    "claims-unbound": "pod has unbound immediate PersistentVolumeClaims",
    "volcano-policy": "task topology policy[{task}] is different with node[{node}]",
    "kubelet-crash": "the kubelet would crash: {error}",
    "kubelet-start": "the kubelet would not start with this policy",
    "pod-group": "the pod belongs to the group {group}, and numaware does not schedule groups as a whole yet: leave it to kube-scheduler",
    "allocations": "the pod has {claims:and}: numaware leaves the allocation of claims to kube-scheduler",
    "workload-class": "unknown workload class {value} (numaware.io/workload-class is high, medium or low)",
    "claim-awaited": 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"',
    "volume-claims": "{number:volume_claims} ({names:list}) to be bound",
    "resource-claims": "{number:resource_claims} ({names:list}) (DRA)",
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
