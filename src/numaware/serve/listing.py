"""The cluster as people look at it: one row for each node and each pod, from what the cluster cache knows."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.ledger import Placement
from numaware.schedule.partial_node import PartialNode, foreseen
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.prediction_audit import observation_of, prediction_of
from numaware.simulate.measure import numa_nodes
from numaware.twin.account import account, is_aligned, resources


class ZoneRow(msgspec.Struct, frozen=True, rename="camel"):
    """One NUMA node: of each resource that is given to pods as their own, how much there is and how much is free to pin."""

    numa: int
    capacity: dict[str, int]
    free_to_pin: dict[str, int]


class DraDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device that a DRA driver reports of the node, and the claims that have it; `numa_node` is None where it does not say."""

    driver: str
    device: str
    numa_node: int | None
    pcie_roots: tuple[str, ...]
    claims: tuple[str, ...]


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node: its kubelet's policies, how it is known, and its NUMA nodes. None is unknown.

    `not_requested` is what a scheduler that counts per node has left to give away, CPUs in thousandths.
    """

    name: str
    topology_policy: str | None
    topology_scope: str | None
    cpu_policy: str | None
    memory_policy: str | None
    known: str
    source: str
    generation: int | None
    current: bool
    pods: int
    waiting: int
    problem: str
    not_requested: dict[str, int]
    zones: tuple[ZoneRow, ...]
    dra: tuple[DraDevice, ...] = ()


class PodRow(msgspec.Struct, frozen=True, rename="camel"):
    """One pod: where it is or will be. `aligned` is None where it owns nothing of a NUMA node, or nobody can tell.

    `outcome` holds the prediction against what was seen: empty until something was seen.
    """

    namespace: str
    name: str
    node: str
    phase: str
    reason: str
    numa: tuple[int, ...]
    cpus: str
    aligned: bool | None
    predicted: tuple[int, ...] | None
    observed: tuple[int, ...] | None
    outcome: str


def node_rows(cache: ClusterCache) -> Iterator[NodeRow]:
    """All nodes, by name."""
    for member in cache.engine.cluster:
        yield _node_row(cache, member)


def _node_row(cache: ClusterCache, member: Member) -> NodeRow:
    node, known = member.node, cache.knowledge(member.name)
    complete = known is not None and known.level == "complete"
    config = node.kubelet.config
    return NodeRow(
        name=member.name,
        topology_policy=member.facts.topology_policy,
        topology_scope=config.topology_scope if complete else None,
        cpu_policy=member.facts.cpu_policy,
        memory_policy=config.memory_policy if complete else None,
        known=known.level if known else "none",
        source=known.source if known else "",
        generation=known.generation if known else None,
        current=bool(known and known.current),
        pods=len(member.pods),
        waiting=len(known.waiting) if known else 0,
        problem=known.problem if known else "",
        not_requested=member.not_requested,
        zones=() if known is None or known.level == "none" else zone_rows(member),
        dra=tuple(dra_devices(cache.engine.cluster, member.name)),
    )


def dra_devices(cluster: Cluster, name: str) -> Iterator[DraDevice]:
    """What DRA drivers report of a node."""
    for one in cluster.dra.devices_on(name):
        claims = tuple(f"{namespace}/{claim}" for namespace, claim in one.claims)
        yield DraDevice(one.driver, one.device.name, one.device.home, one.device.pcie_roots, claims)


def zone_rows(member: Member) -> tuple[ZoneRow, ...]:
    """The NUMA nodes of a node, by the account of its twin."""
    node = member.node
    rows = [ZoneRow(numa, {}, {}) for numa in node.kubelet.layout.ids]
    for name in resources(node):
        for row, part in zip(rows, account(node, name), strict=True):
            row.capacity[name] = part.total
            row.free_to_pin[name] = part.free
    return tuple(rows)


def pod_rows(cache: ClusterCache) -> Iterator[PodRow]:
    """All pods that have a node, or want one, by namespace and name."""
    for live in sorted(cache.pods, key=lambda one: (one.namespace, one.name)):
        yield pod_row(cache, live)


def pod_row(cache: ClusterCache, live: LivePod) -> PodRow:
    """One pod."""
    member = cache.engine.cluster.where.get(live.uid)
    placement = foreseen(member.node, live.pod) if member and live.uid in member.pods else None
    zones_of = placement.zones if placement else ()
    return PodRow(
        namespace=live.namespace,
        name=live.name,
        node=live.node,
        phase=live.phase,
        reason=live.reason,
        numa=tuple(zone.numa for zone in zones_of),
        cpus=",".join(zone.cpus for zone in zones_of if zone.cpus),
        aligned=_aligned(member, live) if member else None,
        predicted=_numa(ledger.read(live.predicted, ledger.PREDICTED)),
        observed=_numa(ledger.read(live.observed, ledger.OBSERVED)),
        outcome=_outcome(live),
    )


def _aligned(member: Member, live: LivePod) -> bool | None:
    """Whether the pod lies on no more NUMA nodes than it must."""
    if isinstance(member.node, PartialNode) or live.uid in member.load.astray:
        return None
    used = numa_nodes(member, live.pod)
    return is_aligned(member.node, live.pod, used) if used else None


def _numa(placement: Placement | None) -> tuple[int, ...] | None:
    return None if placement is None else tuple(zone.numa for zone in placement.zones)


def _outcome(live: LivePod) -> str:
    """How the prediction turned out, as far as the pod itself tells."""
    prediction, observation = prediction_of(live), observation_of(live)
    if observation is None or (prediction is None and not live.refused):
        return ""
    return ledger.compare(prediction, observation)
