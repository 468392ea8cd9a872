"""What pods hold by the log and the state files, joined to the findings that `diagnosis` made from a log.

An admitted pod is told with what it got; a refused one with how much its node has left where of what it was refused over, CPUs,
memory or devices, and who holds the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.kubelet_facts import KubeletFacts
from numaware.diagnose.evidence.logs.journal import NodeLog
from numaware.diagnose.finding import Evidence, Finding
from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import Quantity
from numaware.twin.state.cpu import CpuCheckpoint
from numaware.twin.state.device import DeviceCheckpoint
from numaware.twin.state.memory import MemoryCheckpoint
from numaware.workload.demand import is_memory
from numaware.workload.pod import NANO

_MOST_HOLDERS = 5
_REFUSED = ("topology-affinity-error", "topology-affinity-error-disjoint-hints", "not-enough-exclusive-cpus")
C = TypeVar("C", CpuCheckpoint, MemoryCheckpoint, DeviceCheckpoint)
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


class _Stock(NamedTuple):
    """One resource of a node: what each NUMA node has left, empty where nothing tells, and who holds how much where."""

    left: Mapping[int, int]
    held: Sequence[tuple[str, int, int]]


_NOTHING = _Stock({}, ())


def with_holders(bundle: Bundle, log: NodeLog, kubelet: KubeletFacts, refused: Finding) -> Finding:
    """A finding about a refused pod, with the most it could have of what it was refused over, and the pods that hold the rest."""
    if refused.code not in _REFUSED:
        return refused
    names = _names(bundle, log)
    room = {one["resource"]: one["nodes"] for one in refused.facts.get("room", ())}
    decided = refused.facts.get("resource")
    facts: dict[str, Any] = {}
    holders: list[dict[str, Any]] = []
    for resource in [decided] if decided else list(room) or ["cpu"]:
        stock = _stock(bundle, log, kubelet, names, resource, refused.subject.uid)
        # Where other resources are to be had on some nodes only, more of this one elsewhere does not help.
        near = set(room.get(resource, ()))
        facts = facts or _at_most(stock, near, resource, refused)
        holders += [
            {"pod": pod, "amount": (resource, amount), "nodes": [node]}
            for pod, node, amount in sorted(stock.held, key=lambda one: -one[2])
            if not near or node in near
        ]
    if holders:
        facts["holders"] = holders[:_MOST_HOLDERS]
    return msgspec.structs.replace(refused, facts={**facts, **refused.facts})


def _at_most(stock: _Stock, near: Collection[int], resource: str, refused: Finding) -> dict[str, Any]:
    """What the pod could ask for instead; who asks for less than there is was not refused for it."""
    left = {node: amount for node, amount in stock.left.items() if not near or node in near}
    most, asked = max(left.values(), default=0), _asked(refused, resource)
    if asked is None or not asked > most > 0:
        return {}
    freest = max(left, key=lambda node: (left[node], -node))
    return {"askedFor": (resource, asked), "atMost": (resource, most), "freestNode": freest}


def _names(bundle: Bundle, log: NodeLog) -> dict[str, str]:
    """The pods that the log or a manifest names, by uid."""
    pods = [case.first.pod for case in log.cases.values()]
    names = {pod.uid: pod.full_name for pod in pods if pod.name and pod.uid}
    workloads = [piece.content for piece in bundle.workloads if piece.content.pod.uid]
    return names | {one.pod.uid: f"{one.namespace}/{one.pod.name}" for one in workloads}


def _stock(
    bundle: Bundle,
    log: NodeLog,
    kubelet: KubeletFacts,
    names: Mapping[str, str],
    resource: str,
    refused_uid: str,
) -> _Stock:
    """By the state files; of CPUs also by the log, which tells what was given."""
    if resource == "cpu":
        return _cpus(bundle, log, kubelet, names, refused_uid)
    if is_memory(resource):
        return _memory(_only(bundle, MemoryCheckpoint), names, resource)
    counts: Counter[tuple[str, int]] = Counter()
    checkpoint = _only(bundle, DeviceCheckpoint)
    for entry in checkpoint.entries if checkpoint else ():
        if entry.resource == resource:
            for node, ids in entry.devices.items():
                counts[names.get(entry.pod_uid, entry.pod_uid), node] += len(ids)
    return _Stock({}, [(pod, node, amount) for (pod, node), amount in sorted(counts.items()) if node >= 0])


def _cpus(
    bundle: Bundle, log: NodeLog, kubelet: KubeletFacts, names: Mapping[str, str], refused_uid: str
) -> _Stock:
    if not kubelet.numa_of_cpus:
        return _NOTHING
    checkpoint = _only(bundle, CpuCheckpoint)
    if checkpoint is not None:
        given = {names.get(uid, uid): ",".join(parts.values()) for uid, parts in checkpoint.entries.items()}
    else:
        given = {
            case.first.pod.full_name: ",".join(part.given for part in case.first.parts.values() if part.given)
            for case in log.cases.values()
            if case.first.pod.name and case.first.verdict is None and case.first.pod.uid != refused_uid
        }
    left = kubelet.exclusive_per_node()
    held = []
    for pod, cpus in given.items():
        known = (kubelet.numa_of_cpus.get(cpu) for cpu in CpuSet.parse(cpus))
        nodes = Counter(node for node in known if node is not None)
        left.subtract(nodes)
        held += [(pod, node, count) for node, count in sorted(nodes.items())]
    return _Stock(left, held)


def _memory(checkpoint: MemoryCheckpoint | None, names: Mapping[str, str], kind: str) -> _Stock:
    """A block on several NUMA nodes is told by the first of them."""
    if checkpoint is None:
        return _NOTHING
    left = {
        node: int(entry.memory_map[kind].free)
        for node, entry in checkpoint.machine_state.items()
        if kind in entry.memory_map
    }
    counts: Counter[tuple[str, int]] = Counter()
    for uid, containers in checkpoint.entries.items():
        for block in (block for blocks in containers.values() for block in blocks):
            if block.type == kind and block.numa_affinity:
                counts[names.get(uid, uid), block.numa_affinity[0]] += int(block.size)
    return _Stock(left, [(pod, node, size) for (pod, node), size in sorted(counts.items())])


def _only(bundle: Bundle, kind: type[C]) -> C | None:
    """The state file of a kind, where there is one of it; of several nobody knows which was there."""
    files = [piece.content.checkpoint for piece in bundle.states]
    states = [one for one in files if isinstance(one, kind)]
    return states[0] if len(states) == 1 else None


def _asked(refused: Finding, resource: str) -> int | None:
    """What the container that decided asks for, as the log or the manifest says."""
    if resource == "cpu" and isinstance(refused.facts.get("requestedCpus"), int):
        return int(refused.facts["requestedCpus"])
    requests = refused.facts.get("requests", {})
    listed = requests.get(refused.facts.get("container", ""), {}).get(resource)
    if listed is None:
        return None
    nano = Quantity.parse(str(listed)).nano
    return nano // NANO if nano % NANO == 0 else None


def _devices(checkpoint: DeviceCheckpoint, uid: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for entry in checkpoint.entries:
        if entry.pod_uid == uid:
            for node, ids in sorted(entry.devices.items()):
                held = counts.setdefault(entry.resource, {})
                held[str(node)] = held.get(str(node), 0) + len(ids)
    return counts
