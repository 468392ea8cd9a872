"""What the lab's pods say to each other, modelled: a mix of services, as twins of kubelets send no bytes.

Front ends call back ends, these call their stores, and one pod watches all others. A pod's calls are spread over the pods
of the called service on its node, unevenly, by their names: equal nodes have equal talk. What is worked out from it is real,
the same plan that an agent makes (`affinity/plan.py`). Read by the console's lab and by `run.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from numaware.affinity.plan import Member, Plan, Zone, plan
from numaware.affinity.traffic import Pair, pair_of
from numaware.machine.cpuset import CpuSet, iter_bits
from numaware.twin.account import held_by, numa_nodes, shared_cpus
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Pod
from numaware.workload.qos import requested_in_all

_MB = 1_000_000
_WEIGHTS = 4


class Calls(NamedTuple):
    """Who calls whom, and what one calling pod says to all of them together, in bytes a second."""

    caller: str
    called: str
    rate: int


MIX = (
    Calls("services/front", "services/back", 60 * _MB),
    Calls("services/back", "services/cache", 25 * _MB),
    Calls("web/gateway", "web/checkout", 40 * _MB),
    Calls("web/checkout", "data/clickhouse", 30 * _MB),
    Calls("monitoring/prometheus", "data/vmstorage", 12 * _MB),
    Calls("ci/runner", "data/vmstorage", 20 * _MB),
    Calls("data/etl", "data/clickhouse", 15 * _MB),
)


class Talking(NamedTuple):
    """A node as the agent would see it, and what it would do."""

    zones: tuple[Zone, ...]
    members: tuple[Member, ...]
    plan: Plan


def talking(
    node: Node, placed: Mapping[str, int] | None = None, resting: Mapping[str, int] | None = None
) -> Talking:
    """`placed` are pods that were moved, by uid, and where to; `resting` those that were moved lately."""
    placed, resting = placed or {}, resting or {}
    members = tuple(_member(node, pod, placed, resting) for pod in node.state.pods.values())
    zones = _zones(node, members)
    return Talking(zones, members, plan(zones, members, talk_of(node.state.pods)))


def talk_of(pods: Mapping[str, Pod]) -> dict[Pair, int]:
    """Bytes a second between these pods of one node."""
    services: dict[str, list[str]] = {}
    for uid, pod in pods.items():
        name = f"{pod.namespace}/{pod.name}"
        for service in _SERVICES:
            if name.startswith(f"{service}-"):
                services.setdefault(service, []).append(uid)
    talk: dict[Pair, int] = {}
    for calls in MIX:
        called = services.get(calls.called, [])
        for caller in services.get(calls.caller, []):
            weights = {uid: 1 + crc32(f"{caller} {uid}".encode()) % _WEIGHTS for uid in called}
            for uid, weight in weights.items():
                pair = pair_of(caller, uid)
                talk[pair] = talk.get(pair, 0) + calls.rate * weight // sum(weights.values())
    return talk


_SERVICES = sorted({name for calls in MIX for name in (calls.caller, calls.called)})


def _member(node: Node, pod: Pod, placed: Mapping[str, int], resting: Mapping[str, int]) -> Member:
    wanted = requested_in_all(pod)
    held = held_by(node.state, pod.uid)
    ids = node.kubelet.layout.ids
    pinned = held.cpus or held.memory
    on = tuple(ids[place] for place in iter_bits(numa_nodes(node, pod.uid)))
    here = (placed[pod.uid],) if pod.uid in placed else ()
    zones = on if pinned else here
    spread = zones or ids
    return Member(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        cpu=wanted.get("cpu", 0) * 1000 // NANO,
        memory=dict.fromkeys(spread, wanted.get("memory", 0) // NANO // len(spread)),
        zones=zones,
        # A floating pod has nothing of its own but devices.
        devices=() if pinned else on,
        barred="pinned" if pinned else None,
        resting=resting.get(pod.uid, 0),
    )


def _zones(node: Node, members: tuple[Member, ...]) -> tuple[Zone, ...]:
    shared, layout = shared_cpus(node), node.kubelet.layout
    ids = layout.ids
    return tuple(
        Zone(
            numa.id,
            CpuSet(iter_bits(cpus & shared)),
            max(0, numa.memory_bytes - sum(member.memory.get(numa.id, 0) for member in members)),
            dict(zip(ids, numa.distances, strict=False)),
        )
        for numa, cpus in zip(node.kubelet.hardware.numa, layout.node_cpus, strict=True)
    )
