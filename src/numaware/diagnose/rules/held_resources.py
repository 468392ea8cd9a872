"""What pods hold by the log and the state files, joined to the findings that `diagnosis` made from a log.

An admitted pod is told with what it got; a refused one with how many CPUs its node has left where, and who holds the others.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.kubelet_facts import KubeletFacts
from numaware.diagnose.evidence.logs.journal import NodeLog
from numaware.diagnose.finding import Evidence, Finding
from numaware.machine.cpuset import CpuSet
from numaware.twin.state.cpu import CpuCheckpoint
from numaware.twin.state.device import DeviceCheckpoint

_MOST_HOLDERS = 5
_REFUSED = ("topology-affinity-error", "topology-affinity-error-disjoint-hints", "not-enough-exclusive-cpus")
_ADMITTED = ("unaligned-under-best-effort", "cpu-spread-over-nodes-under-best-effort", "aligned")


def with_held(bundle: Bundle, admitted: Finding) -> Finding:
    """A finding about an admitted pod, with the CPUs and devices it was given; a pod that holds them was admitted."""
    uid = admitted.subject.uid
    if admitted.code not in _ADMITTED or not uid:
        return admitted
    facts: dict[str, Any] = {}
    files: list[str] = []
    for piece in bundle.states:
        checkpoint = piece.content.checkpoint
        if isinstance(checkpoint, CpuCheckpoint) and uid in checkpoint.entries:
            files.append(piece.file)
            facts.setdefault("cpus", ",".join(checkpoint.entries[uid].values()))
        elif isinstance(checkpoint, DeviceCheckpoint):
            devices = _devices(checkpoint, uid)
            if devices:
                files.append(piece.file)
                facts["devices"] = devices
    if not facts:
        return admitted
    nodes = {int(node) for counts in facts.get("devices", {}).values() for node in counts if node != "-1"}
    if nodes and admitted.code == "unaligned-under-best-effort":
        facts["nodes"] = sorted(nodes | set(admitted.facts.get("nodes", ())))
    return msgspec.structs.replace(
        admitted,
        confidence="certain",
        facts={**facts, **admitted.facts, **({"nodes": facts["nodes"]} if "nodes" in facts else {})},
        evidence=(*admitted.evidence, *(Evidence(file) for file in files)),
    )


def with_holders(bundle: Bundle, log: NodeLog, kubelet: KubeletFacts, refused: Finding) -> Finding:
    """A finding about a pod that was refused over CPUs, with the most it could have and the pods that hold the rest."""
    if refused.code not in _REFUSED or not kubelet.numa_of_cpus:
        return refused
    held = _held(bundle, log, refused.subject.uid)
    free = kubelet.exclusive_per_node()
    holders: list[dict[str, Any]] = []
    for pod, cpus in held.items():
        nodes = Counter(
            kubelet.numa_of_cpus[cpu] for cpu in CpuSet.parse(cpus) if cpu in kubelet.numa_of_cpus
        )
        free.subtract(nodes)
        holders += [{"pod": pod, "cpus": count, "nodes": [node]} for node, count in sorted(nodes.items())]
    wanted = {
        node for one in refused.facts.get("room", ()) if one["resource"] == "cpu" for node in one["nodes"]
    }
    near = [one for one in holders if not wanted or one["nodes"][0] in wanted]
    # Where other resources are to be had on some nodes only, CPUs elsewhere do not help.
    left = {node: count for node, count in free.items() if not wanted or node in wanted}
    most = max(left.values(), default=0)
    asked, about_cpus = _asked_cpus(refused), refused.facts.get("resource", "cpu") == "cpu"
    facts = {
        "askedCpus": asked,
        # Who asks for less than there is was not refused for it.
        "mostCpus": most if about_cpus and asked is not None and asked > most > 0 else None,
        "freestNode": max(left, key=lambda node: (left[node], -node)) if most > 0 else None,
        "holders": sorted(near, key=lambda one: -one["cpus"])[:_MOST_HOLDERS] or None,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    return msgspec.structs.replace(refused, facts={**known, **refused.facts})


def _held(bundle: Bundle, log: NodeLog, refused_uid: str) -> dict[str, str]:
    """CPUs by pod: as the state file has them, or else as the log saw them given."""
    names: dict[str, str] = {}
    given: dict[str, str] = {}
    for case in log.cases.values():
        pod = case.first.pod
        name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
        if name and pod.uid:
            names[pod.uid] = name
        cpus = ",".join(part.given for part in case.first.parts.values() if part.given)
        if name and cpus and case.first.verdict is None and pod.uid != refused_uid:
            given[name] = cpus
    for piece in bundle.workloads:
        workload = piece.content
        if workload.pod.uid:
            names[workload.pod.uid] = f"{workload.namespace}/{workload.pod.name}"
    states = [
        piece.content.checkpoint
        for piece in bundle.states
        if isinstance(piece.content.checkpoint, CpuCheckpoint)
    ]
    if len(states) != 1:
        return given
    return {names.get(uid, uid): ",".join(parts.values()) for uid, parts in states[0].entries.items()}


def _asked_cpus(refused: Finding) -> int | None:
    """The CPUs of the container that decided, as the log or the manifest says."""
    if isinstance(refused.facts.get("requestedCpus"), int):
        return int(refused.facts["requestedCpus"])
    requests = refused.facts.get("requests", {})
    listed = requests.get(refused.facts.get("container", ""), {}).get("cpu", "")
    return int(listed) if str(listed).isdecimal() else None


def _devices(checkpoint: DeviceCheckpoint, uid: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for entry in checkpoint.entries:
        if entry.pod_uid == uid:
            for node, ids in sorted(entry.devices.items()):
                held = counts.setdefault(entry.resource, {})
                held[str(node)] = held.get(str(node), 0) + len(ids)
    return counts
