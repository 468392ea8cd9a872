"""Recorded scheduling cycles of KAI-Scheduler: read one, answer it, and say whether KAI answered the same.

The format is described in tests/vectors/kai/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from numaware.machine import node_topology
from numaware.machine.node_topology import NUMA_ZONE, OLD_POLICIES, POLICY, SCOPE, Amount, NodeTopology
from numaware.machine.quantity import Quantity
from numaware.schedule.peers import kai
from numaware.schedule.peers.nrt import exact
from numaware.schedule.peers.placement import UNJUDGED, PeerPlacement
from numaware.schedule.peers.recorded_pod import Amounts, RecordedPod, amounts, pod
from numaware.schedule.peers.zones import PeerZone, Policy, Topology, TopologyManager
from numaware.workload.pod import NANO, Pod
from numaware.workload.qos import qos_class

_RECORDS = ("kai.scheduler/numa-placement-observed", "kai.scheduler/numa-placement-predicted")
_POLICIES: tuple[Policy, ...] = get_args(Policy)
_NUMBER = re.compile(r"[0-9]+$")


class _Pod(msgspec.Struct, frozen=True):
    pod: RecordedPod
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    name: str
    allocatable: Amounts
    nrt: dict[str, Any] | None = None
    pods: tuple[_Pod, ...] | None = None


class _Arguments(msgspec.Struct, frozen=True, rename="camel"):
    ignore_list: str = ""
    reconstruct_available: str = "true"


class KaiCase(msgspec.Struct, frozen=True):
    """One cycle: tasks that come to a few nodes one after another, and what became of each."""

    id: str
    nodes: tuple[_Node, ...]
    tasks: tuple[_Pod, ...]
    arguments: _Arguments = _Arguments()
    expect: list[dict[str, Any]] | None = None


class _Share(msgspec.Struct, frozen=True):
    """What a pod has of one zone, as its annotation says."""

    zone: str
    amount: Amounts


class _State(msgspec.Struct, frozen=True):
    """A node as KAI knows it in the cycle: `zones` by name, and of the whole node what there is and what is idle."""

    zones: tuple[str, ...]
    topology: Topology | None
    room: dict[str, int]
    idle: dict[str, int]

    def free(self, resource: str) -> int:
        """What is unallocated of a resource; -1 where the node has none of it at all."""
        return self.idle.get(resource, 0) if self.room.get(resource) else -1


class _Verdict(msgspec.Struct, frozen=True):
    placement: PeerPlacement
    idle: bool
    numa: float
    score: float

    @property
    def takes(self) -> bool:
        return self.idle and self.placement.admitted


def answer(case: KaiCase) -> list[dict[str, Any]]:
    """What the rule says, in the shape of a recorded result; each task goes to the best node for the next to see."""
    named = {name for node in case.nodes for name, _ in amounts(node.allocatable)}
    known = set(kai.folded((name, 0) for name in named))
    states = {node.name: _state(node, known, case.arguments) for node in case.nodes}
    if len(states) < len(case.nodes):
        raise ValueError("a node is listed twice")
    ignored = frozenset(name.strip() for name in case.arguments.ignore_list.split(","))
    gpu = kai.GPU if kai.GPU in named else min(filter(kai.is_gpu, named), default="")
    results = []
    for task in case.tasks:
        asking = pod(task.pod)
        verdicts = _verdicts(states, asking, ignored)
        ranked = sorted(verdicts, key=lambda name: (-verdicts[name].score, name))
        result: dict[str, Any] = {
            "nodes": {name: _written(verdict, states[name], gpu) for name, verdict in verdicts.items()}
        }
        if len(verdicts) > 1:
            scores = dict.fromkeys(verdicts[name].score for name in ranked)
            result["order"] = [[name for name in ranked if verdicts[name].score == score] for score in scores]
        bound = next((name for name in ranked if verdicts[name].takes), None)
        if bound is not None:
            result["bound"] = bound
            states[bound] = _charged(states[bound], verdicts[bound].placement, asking)
        results.append(result)
    return results


def agrees(case: KaiCase, ours: list[dict[str, Any]]) -> bool:
    """Whether the answer is KAI's, apart from what it held as available before."""
    return ours == _compared(case.expect)


def _compared(recorded: object) -> object:
    if isinstance(recorded, dict):
        return {key: _compared(value) for key, value in recorded.items() if key != "available"}
    return list(map(_compared, recorded)) if isinstance(recorded, list) else recorded


def _verdicts(states: Mapping[str, _State], asking: Pod, ignored: frozenset[str]) -> dict[str, _Verdict]:
    request = _request(asking)
    wants_gpus = bool(request.get(kai.GPU))
    packed = kai.GPU if wants_gpus else "cpu"
    frees = [free for state in states.values() if (free := state.free(packed)) >= 0]
    least, most = min(frees, default=0), max(frees, default=0)
    widest = max(len(state.zones) for state in states.values())
    scored = qos_class(asking) == "Guaranteed" or any(
        kai.asks_for_devices(request, kai.reported_by(state.topology, ignored))
        for state in states.values()
        if state.topology is not None and state.topology.manager.policy != "none"
    )
    verdicts = {}
    for name, state in states.items():
        placement = UNJUDGED if state.topology is None else kai.place(state.topology, asking, ignored=ignored)
        idle = all(nano <= state.idle.get(resource, 0) for resource, nano in request.items())
        numa = kai.numa_score(placement, len(state.zones) or widest) if scored else 0
        free = state.free(packed)
        score = (
            numa
            + kai.idle_score(idle=idle)
            + kai.type_score(wants_gpus=wants_gpus, has_gpus=bool(state.room.get(kai.GPU)))
            + (0 if free < 0 else kai.packing_score(free, least, most))
        )
        verdicts[name] = _Verdict(placement, idle, numa, score)
    return verdicts


def _written(verdict: _Verdict, state: _State, gpu: str) -> dict[str, Any]:
    placement = verdict.placement
    written: dict[str, Any] = {
        "fit": placement.admitted,
        "idle": verdict.idle,
        "numa": verdict.numa,
        "score": verdict.score,
    }
    if placement.verdict == "unplaced":
        written["unplaced"] = True
    if placement.zones:
        written["placement"] = [
            {
                "zone": state.zones[zone],
                "amount": {gpu if name == kai.GPU else name: str(Quantity(nano)) for name, nano in given},
            }
            for zone, given in placement.zones
        ]
    return written


# The books of the cycle


def _state(node: _Node, known: set[str], arguments: _Arguments) -> _State:
    room = kai.room_of(amounts(node.allocatable))
    running = [recorded.pod for recorded in node.pods or ()]
    idle = dict(room)
    for recorded in running:
        _subtract(idle, _request(pod(recorded)))
    nrt = NodeTopology() if node.nrt is None else node_topology.read(node.nrt).sound()
    zones = sorted((zone for zone in nrt.zones if zone.type == NUMA_ZONE), key=lambda zone: _place(zone.name))
    if not zones:
        return _State((), None, room, idle)
    names = tuple(zone.name for zone in zones)
    published = [
        (
            _known({entry.name: entry.allocatable for entry in zone.resources}, known),
            _known({entry.name: entry.available for entry in zone.resources}, known),
        )
        for zone in zones
    ]
    # A zone has all resources that the others have, if none of them.
    none = dict.fromkeys((name for there, _ in published for name in there), 0)
    allocatable = [none | there for there, _ in published]
    available = [none | left for _, left in published]
    if arguments.reconstruct_available != "false":
        available = _reconstructed(names, allocatable, running)
    peers = tuple(
        PeerZone(position, tuple(sorted(left.items())), tuple(sorted(there.items())))
        for position, (left, there) in enumerate(zip(available, allocatable, strict=True))
    )
    return _State(names, Topology(peers, _manager(nrt)), room, idle)


def _known(texts: Mapping[str, Amount], known: set[str]) -> dict[str, int]:
    return {name: nano for name, nano in kai.folded(exact(texts)).items() if name in known}


def _reconstructed(
    names: Sequence[str], allocatable: Sequence[Mapping[str, int]], running: Sequence[RecordedPod]
) -> list[dict[str, int]]:
    """What zones could hold, less what running pods are said to have; one word of an unknown zone voids a record."""
    left = [dict(there) for there in allocatable]
    for recorded in running:
        annotations = recorded.metadata.annotations
        text = next((annotations[key] for key in _RECORDS if key in annotations), "[]")
        shares = msgspec.json.decode(text, type=tuple[_Share, ...])
        if all(share.zone in names for share in shares):
            for share in shares:
                _subtract(left[names.index(share.zone)], kai.folded(amounts(share.amount)))
    return left


def _manager(nrt: NodeTopology) -> TopologyManager:
    if nrt.attribute(POLICY):
        words = nrt.attribute(POLICY), nrt.attribute(SCOPE)
    else:
        old = nrt.topology_policies[0] if nrt.topology_policies else ""
        # The one bare word that KAI does not know.
        words = (None, None) if old == "SingleNUMANode" else OLD_POLICIES.get(old, (None, None))
    policy: Policy = next((known for known in _POLICIES if known == words[0]), "none")
    return TopologyManager(policy, "pod" if words[1] == "pod" else "container")


def _place(name: str) -> tuple[bool, int, str]:
    """Where a zone stands among others: by the number at its end, those without one last."""
    number = _NUMBER.search(name)
    return number is None, int(number[0]) if number else 0, name


def _request(asking: Pod) -> dict[str, int]:
    return {**kai.request_of(asking), "pods": NANO}


def _charged(state: _State, placement: PeerPlacement, asking: Pod) -> _State:
    idle = dict(state.idle)
    _subtract(idle, _request(asking))
    topology = state.topology
    if topology is not None:
        given = {zone: dict(amounts) for zone, amounts in placement.zones}
        zones = []
        for zone in topology.zones:
            left = dict(zone.available)
            _subtract(left, given.get(zone.id, {}))
            zones.append(msgspec.structs.replace(zone, available=tuple(sorted(left.items()))))
        topology = msgspec.structs.replace(topology, zones=tuple(zones))
    return msgspec.structs.replace(state, topology=topology, idle=idle)


def _subtract(left: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nano in amounts.items():
        if name in left:
            left[name] -= nano
