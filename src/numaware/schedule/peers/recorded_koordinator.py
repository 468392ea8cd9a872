"""Recorded calls of Koordinator's NodeNUMAResource: read some, answer them, and say whether Koordinator did the same.

The format is described in tests/vectors/koordinator/README.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import Quantity
from numaware.schedule.peers import koordinator
from numaware.schedule.peers.nrt import zone_id
from numaware.schedule.peers.placement import UNJUDGED
from numaware.schedule.peers.recorded_pod import Amounts, RecordedPod, amounts, pod
from numaware.schedule.peers.requests import pod_request
from numaware.schedule.peers.zones import PeerZone, Policy, Topology, TopologyManager
from numaware.workload.pod import NANO, Resources, amount

_POLICY_LABEL = "node.koordinator.sh/numa-topology-policy"
_BIND_LABEL = "node.koordinator.sh/cpu-bind-policy"
_QOS_LABEL = "koordinator.sh/qosClass"
_BIND_SPEC = "scheduling.koordinator.sh/resource-spec"
_HELD = "scheduling.koordinator.sh/resource-status"
_OWN_POLICY = "scheduling.koordinator.sh/numa-topology-spec"
_POLICIES: dict[str, Policy] = {
    "BestEffort": "best-effort",
    "Restricted": "restricted",
    "SingleNUMANode": "single-numa-node",
}
# Of what agents publish as the kubelet's own policy these are understood; all other words are no policy.
_PUBLISHED = {
    "BestEffort": "BestEffort",
    "Restricted": "Restricted",
    "SingleNUMANodePodLevel": "SingleNUMANode",
}
_NO_MATCH = "node(s) NUMA Topology policy not match"
_NO_WHOLE_CPUS = "the requested CPUs must be integer"
_TOO_FEW = "not enough cpus available to satisfy request"
_NO_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"


class _Pod(msgspec.Struct, frozen=True):
    pod: RecordedPod
    name: str = ""


class _Zone(msgspec.Struct, frozen=True):
    name: str
    allocatable: Amounts


class _CpuManager(msgspec.Struct, frozen=True, rename={"reserved": "reservedCPUs"}):
    policy: str = ""
    options: dict[str, str] = {}
    reserved: str = ""


class _Node(
    msgspec.Struct, frozen=True, rename={"cpu_manager": "kubeletCPUManager", "policies": "topologyPolicies"}
):
    name: str
    allocatable: Amounts
    zones: tuple[_Zone, ...] = ()
    cpus: tuple[tuple[int, int, int, int], ...] = ()
    labels: dict[str, str] = {}
    policies: tuple[str, ...] = ()
    cpu_manager: _CpuManager = _CpuManager()
    pods: tuple[_Pod, ...] = ()

    @property
    def whole_cores(self) -> bool:
        """Whether nobody gets a part of a core, by Koordinator's label or else by the kubelet's own options."""
        kubelet = self.cpu_manager
        by_kubelet = kubelet.policy == "static" and kubelet.options.get("full-pcpus-only") == "true"
        return self.labels.get(_BIND_LABEL, "") == "FullPCPUsOnly" or by_kubelet


class _Weight(msgspec.Struct, frozen=True):
    name: str
    weight: int = 0


class _Args(msgspec.Struct, frozen=True, rename={"node": "scoringStrategy", "zone": "numaScoringStrategy"}):
    node: str = "LeastAllocated"
    zone: str = "LeastAllocated"
    resources: tuple[_Weight, ...] = ()


class KoordinatorCase(msgspec.Struct, frozen=True):
    """Some pods that come to a few nodes one after another, and what became of each."""

    id: str
    nodes: tuple[_Node, ...]
    tasks: tuple[_Pod, ...]
    args: _Args = _Args()
    expect: list[dict[str, Any]] | None = None


class _NumaShare(msgspec.Struct, frozen=True):
    node: int
    resources: Amounts = {}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    numa_node_resources: tuple[_NumaShare, ...] = ()
    cpuset: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    numa_topology_policy: str = ""


class _State(msgspec.Struct, frozen=True):
    """A node as Koordinator knows it: its policy's name, its zones, and of the whole node what there is and is used.

    Where only whole cores are given away `cores` says what each zone has left of them; of `whole` nano-CPUs in all
    `bound` have been given away.
    """

    policy: str
    zones: tuple[PeerZone, ...]
    allocatable: dict[str, int]
    used: dict[str, int]
    cores: koordinator.WholeCores | None = None
    whole: int = 0
    bound: int = 0


def answer(case: KoordinatorCase) -> list[dict[str, Any]]:
    """What the rule says, in the shape of a recorded result; each pod goes to the best node for the next to see."""
    states = {node.name: _state(node) for node in case.nodes}
    if len(states) < len(case.nodes):
        raise ValueError("a node is listed twice")
    strategy = _strategy(case.args)
    results = []
    for task in case.tasks:
        request = pod_request(pod(task.pod))
        wanted = _own_policy(task.pod)
        replies = {name: _reply(state, request, wanted, strategy) for name, state in states.items()}
        result: dict[str, Any] = {"nodes": {name: written for name, (written, _) in replies.items()}}
        if not any(nano for _, nano in request):
            result["preFilter"] = {"code": "Skip"}
            for written in result["nodes"].values():
                written["score"] = 0
        ready = [name for name, (_, outcome) in replies.items() if outcome is not None]
        if ready:
            bound = max(ready, key=lambda name: replies[name][0]["score"])
            result["bound"] = bound
            states[bound] = _charged(states[bound], replies[bound][1], request)
        results.append(result)
    return results


def agrees(case: KoordinatorCase, ours: list[dict[str, Any]]) -> bool:
    """Whether the answer is Koordinator's, apart from which CPUs it would take."""
    return ours == _compared(case.expect)


def _compared(recorded: object) -> object:
    if isinstance(recorded, dict):
        return {key: _compared(value) for key, value in recorded.items() if key != "cpuset"}
    return list(map(_compared, recorded)) if isinstance(recorded, list) else recorded


def binds_cpus(case: KoordinatorCase) -> bool:
    """Whether somebody in the case asks for CPUs of his own, or a node spreads them, which the rule leaves out.

    A node of whole cores is none of these: what it refuses and scores is known, if not which CPUs it takes.
    """
    pods = [task.pod for task in case.tasks] + [held.pod for node in case.nodes for held in node.pods]
    return any(map(_is_bound, pods)) or any(
        node.labels.get(_BIND_LABEL, "") not in ("", "None", "FullPCPUsOnly") for node in case.nodes
    )


def _is_bound(recorded: RecordedPod) -> bool:
    metadata = recorded.metadata
    return (
        metadata.labels.get(_QOS_LABEL) in ("LSE", "LSR")
        or _BIND_SPEC in metadata.annotations
        or bool(_held_by(recorded).cpuset)
    )


def _held_by(recorded: RecordedPod) -> _Status:
    return msgspec.json.decode(recorded.metadata.annotations.get(_HELD, "{}"), type=_Status)


def _reply(
    state: _State, request: Resources, wanted: str, strategy: koordinator.Strategy
) -> tuple[dict[str, Any], koordinator.Outcome | None]:
    """What is written of one node, and the outcome where the pod could be bound there."""
    if wanted and state.policy and wanted != state.policy:
        return {"filter": {"code": "UnschedulableAndUnresolvable", "reasons": [_NO_MATCH]}}, None
    cpu = amount(request, "cpu")
    cores = state.cores if cpu else None
    if cores and cpu % cores.core:
        reason = _NO_WHOLE_CPUS if cpu % NANO else _NO_WHOLE_CORES
        return {"filter": {"code": "UnschedulableAndUnresolvable", "reasons": [reason]}}, None
    policy = _POLICIES.get(state.policy or wanted, "none")
    few = cores is not None and cpu > state.whole - state.bound
    too_few = {"code": "Unschedulable", "reasons": [_TOO_FEW]}
    if few and policy == "none":
        return {"filter": too_few}, None
    topology = Topology(state.zones, TopologyManager(policy, "pod"))
    outcome = koordinator.place(topology, request, strategy, cores)
    if outcome.filtered:
        reasons = list(koordinator.refusal(topology, request, cores))
        return {"filter": {"code": "Unschedulable", "reasons": reasons}}, None
    bound = state.bound if cores and policy != "none" else None
    totals = state.allocatable, state.used
    score = koordinator.score(outcome, topology, request, lambda: totals, strategy, bound)
    written: dict[str, Any] = {
        "filter": {"code": "Success"},
        **({"scoreStatus": too_few} if few else {"score": score}),
        "reserve": {"code": "Success"},
    }
    if outcome.affinity is not None:
        written["affinity"] = list(outcome.affinity)
    if few or not outcome.placement.admitted:
        reasons = [f"Insufficient NUMA {name}" for name in outcome.short] or [_TOO_FEW]
        return {**written, "reserve": {"code": "Unschedulable", "reasons": reasons}}, None
    if outcome.placement.zones:
        written["reserve"]["numaNodeResources"] = [
            {"node": zone, "resources": {name: str(Quantity(nano)) for name, nano in given}}
            for zone, given in outcome.placement.zones
        ]
    return written, outcome


def _strategy(args: _Args) -> koordinator.Strategy:
    weights = tuple((entry.name, entry.weight) for entry in args.resources)
    return koordinator.Strategy(
        args.node == "MostAllocated", args.zone == "MostAllocated", weights or koordinator.DEFAULT.weights
    )


def _own_policy(task: RecordedPod) -> str:
    text = task.metadata.annotations.get(_OWN_POLICY, "{}")
    return msgspec.json.decode(text, type=_Spec).numa_topology_policy


# The books


def _state(node: _Node) -> _State:
    label = node.labels.get(_POLICY_LABEL, "")
    published = next((_PUBLISHED[word] for word in node.policies if word in _PUBLISHED), "")
    kept = CpuSet.parse(node.cpu_manager.reserved).mask
    held: dict[int, dict[str, int]] = {}
    used: dict[str, int] = {}
    for recorded in node.pods:
        _add(used, pod_request(pod(recorded.pod)))
        for share in _held_by(recorded.pod).numa_node_resources:
            _add(held.setdefault(share.node, {}), amounts(share.resources))
    zones: list[PeerZone] = []
    for zone in node.zones:
        number = zone_id(zone.name)
        if number is None:
            raise ValueError(f"zone {zone.name!r} is no NUMA node")
        if any(known.id == number for known in zones):
            raise ValueError(f"zone {zone.name!r} is listed twice")
        allocatable = dict(amounts(zone.allocatable))
        reserved = sum(1 for cpu, numa, _, _ in node.cpus if numa == number and kept >> cpu & 1)
        if "cpu" in allocatable:
            allocatable["cpu"] -= reserved * NANO
        zones.append(_zone(number, allocatable, held.get(number, {})))
    state = _State(label or published, tuple(zones), dict(amounts(node.allocatable)), used)
    if not node.whole_cores or not node.cpus:
        return state
    sizes = Counter(core for *_, core in node.cpus)
    broken = {core for cpu, *_, core in node.cpus if kept >> cpu & 1}
    whole = Counter(numa for _, numa, _, core in node.cpus if core not in broken)
    free = {numa: count * NANO for numa, count in whole.items()}
    cores = koordinator.WholeCores(max(sizes.values()) * NANO, free)
    return msgspec.structs.replace(state, cores=cores, whole=sum(free.values()))


def _zone(number: int, allocatable: Mapping[str, int], held: Mapping[str, int]) -> PeerZone:
    left = {name: nano - held.get(name, 0) for name, nano in allocatable.items()}
    return PeerZone(number, tuple(sorted(left.items())), tuple(sorted(allocatable.items())))


def _charged(state: _State, outcome: koordinator.Outcome | None, request: Resources) -> _State:
    placement = outcome.placement if outcome else UNJUDGED
    given = dict(placement.zones)
    zones = []
    for zone in state.zones:
        taken = dict(given.get(zone.id, ()))
        left = tuple((name, nano - taken.get(name, 0)) for name, nano in zone.available)
        zones.append(msgspec.structs.replace(zone, available=left))
    used = dict(state.used)
    _add(used, request)
    charged = msgspec.structs.replace(state, zones=tuple(zones), used=used)
    if state.cores is None:
        return charged
    free = {zone: nano - amount(given.get(zone, ()), "cpu") for zone, nano in state.cores.free.items()}
    cores = state.cores._replace(free=free)
    return msgspec.structs.replace(charged, cores=cores, bound=state.bound + amount(request, "cpu"))


def _add(total: dict[str, int], amounts: Resources) -> None:
    for name, nano in amounts:
        total[name] = total.get(name, 0) + nano
