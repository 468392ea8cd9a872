"""One node estimated from its reports: its twin, how well it is known, by whom, and which pods are already counted.

Called by `cluster_cache.py` whenever something about the node has changed. Our own agent reports everything, and names every
pod its kubelet has taken. Other publishers count; whom they have counted follows from the fingerprint they add, or, where they
add none, from how long ago pods came. Of a node that nobody reports only totals are known: pods that own nothing can go there,
and nothing can be predicted for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from numaware.diagnose.reason import Code
from numaware.kube.nodes import LiveNode
from numaware.kube.pods import KAI_OBSERVED, KAI_PREDICTED, LivePod
from numaware.kube.topology.fingerprint import fingerprint
from numaware.kube.topology.report import Report
from numaware.machine.cpuset import MAX_ID
from numaware.machine.node_topology import ZoneCounts
from numaware.machine.words import printable
from numaware.schedule import ledger
from numaware.schedule.candidate_twins import CandidateTwin
from numaware.schedule.ledger import Placement
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.partial_node import PartialNode, partial_node
from numaware.schedule.pod_kinds import owns_something
from numaware.schedule.published_counts import Counts
from numaware.twin.account import owners
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.errors import StartError
from numaware.twin.node import Node
from numaware.twin.resize import resize_is_infeasible
from numaware.workload.demand import demand, is_memory
from numaware.workload.pod import Pod
from numaware.workload.requirements import is_extended

Level = Literal["complete", "counts", "none"]

# Moments in the past that a fingerprint is looked for in; publishers lag behind by a minute at most.
_MOST_MOMENTS = 64
NO_TOPOLOGY: Code = "no-topology"


class PodOnNode:
    """A pod on a node: when it came and when it went, as places in the order of all events, and by the clock."""

    __slots__ = ("came", "came_at", "confirmed", "gone", "gone_at", "live")

    def __init__(self, live: LivePod, came: int, came_at: float, *, confirmed: bool) -> None:
        self.live = live
        self.came = came
        self.came_at = came_at
        self.confirmed = confirmed
        self.gone: int | None = None
        self.gone_at = 0.0

    def is_there(self, moment: int) -> bool:
        """Whether it was on the node right after that event."""
        return self.came <= moment and (self.gone is None or self.gone > moment)


class ReceivedReport(NamedTuple):
    """A report, and when it came."""

    report: Report
    at: float


class NodeEstimate(NamedTuple):
    """A node by its reports: its twin with all pods that are counted in it, and who they are.

    `settles` is when more will be known without any news, None if only news can help. `problem` is what is wrong with
    the reports.
    """

    level: Level
    source: str
    node: Node
    counted: frozenset[str]
    current: bool = True
    settles: float | None = None
    problem: str = ""


def facts_of(live: LiveNode, received: Iterable[ReceivedReport]) -> NodeFacts:
    """What the API server says of a node, and the policies that its publishers tell."""
    reports = [one.report for one in received if not problem_of(one.report, live)]
    configs = [report.complete.node.kubelet.config for report in reports if report.complete]
    policies = [config.topology_policy for config in configs] + [report.policy for report in reports]
    cpu_policies = [config.cpu_policy for config in configs] + [report.cpu_policy for report in reports]
    return NodeFacts(
        name=live.name,
        labels=live.labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in live.taints),
        unschedulable=live.unschedulable,
        allocatable=live.allocatable,
        topology_policy=next((policy for policy in policies if policy), None),
        cpu_policy=next((policy for policy in cpu_policies if policy), None),
        features=live.features,
    )


def problem_of(report: Report, live: LiveNode) -> str:
    """Why a report cannot be used for the node, empty if it can."""
    if report.problem:
        return report.problem
    if report.owner and live.uid and report.owner != live.uid:
        return "tells of an earlier node of this name"
    return ""


def estimate_node(
    live: LiveNode,
    received: Iterable[ReceivedReport],
    held: Mapping[str, PodOnNode],
    now: float,
    settle: float,
) -> NodeEstimate:
    """The estimate that follows from all reports; `settle` is how far publishers without a fingerprint may lag."""
    problems = []
    usable = []
    for one in received:
        problem = problem_of(one.report, live)
        if problem:
            problems.append(f"{one.report.publisher}: {problem}")
        else:
            usable.append(one)
    problem = "; ".join(problems)
    for one in usable:
        if one.report.complete is not None:
            node = one.report.complete.node
            counted = _owners(node)
            return NodeEstimate(
                "complete", "numaware", _with_pods(node, held, counted), counted, problem=problem
            )
    for one in usable:
        others = [other.report for other in usable if other is not one]
        try:
            return _counted(live, one, others, held, now, settle)._replace(problem=problem)
        except (StartError, ValueError) as error:
            problem = "; ".join(filter(None, (problem, f"{one.report.publisher}: {error}")))
    try:
        node = partial_node(_totals(live))
    except (StartError, ValueError) as error:
        problem = "; ".join(filter(None, (problem, f"the node's own status makes no sense: {error}")))
        node = partial_node(
            _totals(msgspec.structs.replace(live, allocatable=(), capacity=(), kubelet_version=""))
        )
    alive = frozenset(uid for uid, one in held.items() if one.gone is None)
    return NodeEstimate("none", "", _with_pods(node, held, alive), alive, problem=problem)


def _owners(node: Node) -> frozenset[str]:
    """All pods that a kubelet has taken: also those that only hold something."""
    return frozenset((*owners(node.state), *node.state.pods))


def _with_pods(node: Node, held: Mapping[str, PodOnNode], counted: Iterable[str]) -> Node:
    """The node with its pods as the API server describes them; one that it has not shown yet holds what it holds."""
    pods = {uid: counted_pod(held[uid].live.pod, node) for uid in sorted(counted) if uid in held}
    if isinstance(node, PartialNode):
        candidate_twins = tuple(
            CandidateTwin(
                candidate.assumed, _described(candidate.node, {**candidate.node.state.pods, **pods})
            )
            for candidate in node.candidate_twins
        )
        return PartialNode(node.counts, candidate_twins, exact=node.exact)
    return _described(node, {**node.state.pods, **pods})


def counted_pod(pod: Pod, node: Node) -> Pod:
    """The pod as it counts on the node: without what it is to be resized to, where its kubelet will refuse that."""
    known = pod.resizing and not isinstance(node, PartialNode)
    return replace(pod, resizing=()) if known and resize_is_infeasible(node.kubelet.config, pod) else pod


def unread_pods(held: Mapping[str, PodOnNode]) -> Iterator[str]:
    """What could not be read of the pods that are there."""
    for one in sorted(held.values(), key=lambda one: one.live.full_name):
        if one.gone is None and one.live.unread:
            yield unread_text(one.live)


def unread_text(live: LivePod) -> str:
    return f"pod {printable(live.full_name, 320)} cannot be read in full: {live.unread}"


def _described(node: Node, pods: dict[str, Pod]) -> Node:
    return Node(node.kubelet, replace(node.state, pods=pods))


# Counts


def _counted(
    live: LiveNode,
    received: ReceivedReport,
    others: Iterable[Report],
    held: Mapping[str, PodOnNode],
    now: float,
    settle: float,
) -> NodeEstimate:
    report = received.report
    settles = None
    if report.fingerprint:
        counted, current = _named(report, held)
    else:
        # Who came before the report and long enough ago is in it; whoever came later is counted on top, twice at worst.
        current = True
        counted = {
            uid
            for uid, one in held.items()
            if one.came_at <= received.at and one.came_at + settle <= now and one.gone is None
        }
        waiting = [
            one.came_at + settle for uid, one in held.items() if one.gone is None and uid not in counted
        ]
        settles = min((when for when in waiting if when > now), default=None)
    zones = report.zones
    for uid, one in held.items():
        if uid not in counted and one.gone is None:
            after = _without(zones, _placement(one.live))
            if after is not None:
                zones = after
                counted.add(uid)
    counts = _counts(live, msgspec.structs.replace(report, zones=zones), others, current=current)
    alive = frozenset(counted)
    node = _with_pods(partial_node(counts), held, alive)
    return NodeEstimate("counts", report.publisher, node, alive, current, settles)


def _named(report: Report, held: Mapping[str, PodOnNode]) -> tuple[set[str], bool]:
    """The pods that a report with a fingerprint has counted, and whether there was a moment at which it was right.

    Whoever it does not name and who owns nothing makes no difference. A pod that owns something while it starts only
    makes one, and is not named: such a pod is taken to be not counted, that is, counted twice at worst.
    """
    there = {uid: one for uid, one in held.items() if one.gone is None}
    named = {
        uid: one
        for uid, one in held.items()
        if report.method == "all" or _is_exclusive(one.live.pod, report.zones)
    }
    moments = sorted({event for one in named.values() for event in (one.came, one.gone) if event is not None})
    for moment in (*reversed(moments[-_MOST_MOMENTS:]), 0):
        then = {uid: one.live for uid, one in named.items() if one.is_there(moment)}
        if fingerprint((pod.namespace, pod.name) for pod in then.values()) == report.fingerprint:
            idle = {
                uid for uid, one in there.items() if uid not in named and not owns_something(one.live.pod)
            }
            return {*then, *idle}, True
    return set(there), False


def _is_exclusive(pod: Pod, zones: tuple[ZoneCounts, ...]) -> bool:
    """Whether a publisher finds something of a NUMA node that is the pod's own, in containers that stay."""
    could = {name for zone in zones for name, amount in zone.allocatable if amount}
    return any(
        ("cpu" in could and part.cpus > 0)
        or any(kind in could for kind, _ in part.memory)
        or any(name in could and is_extended(name) for name, _ in part.devices)
        for part in demand(pod).containers
        if not part.ends
    )


def _placement(live: LivePod) -> Placement | None:
    """Where somebody has seen, or KAI has put, the pod; our own prediction is the twin's business."""
    return (
        ledger.read(live.observed, ledger.OBSERVED)
        or ledger.read(live.kai_observed, KAI_OBSERVED)
        or ledger.read(live.kai_predicted, KAI_PREDICTED)
    )


def _without(zones: tuple[ZoneCounts, ...], placement: Placement | None) -> tuple[ZoneCounts, ...] | None:
    """The zones without what the pod holds, None where that is not known or cannot be."""
    if placement is None:
        return None
    parts = {part.numa: dict(part.amounts) for part in placement.zones}
    if not parts.keys() <= {zone.id for zone in zones}:
        return None
    left = []
    for zone in zones:
        taken = parts.get(zone.id, {})
        available = tuple((name, amount - taken.get(name, 0)) for name, amount in zone.available)
        if any(amount < 0 for _, amount in available):
            return None
        left.append(msgspec.structs.replace(zone, available=available))
    return tuple(left)


def _counts(live: LiveNode, report: Report, others: Iterable[Report], *, current: bool) -> Counts:
    """What is published, and what another publisher of the same node adds to it."""
    known = [report, *others]
    listed = {name for zone in report.zones for name, _ in zone.capacity}
    missing: list[Code] = []
    if report.publisher == "volcano":
        # Volcano counts CPUs only: who holds what memory and devices, and by whose rules, it does not tell.
        missing.append("volcano-counts")
    return Counts(
        report.zones,
        policy=next((one.policy for one in known if one.policy), None),
        scope=next((one.scope for one in known if one.scope), None),
        version=live.kubelet_version or DEFAULT_VERSION,
        cpu_policy=next((one.cpu_policy for one in known if one.cpu_policy), None),
        threads=next((one.threads for one in known if one.threads), None),
        devices=tuple(pair for pair in live.capacity if pair[0] in listed and is_extended(pair[0])),
        current=current,
        missing=tuple(missing),
    )


def _totals(live: LiveNode) -> Counts:
    """A node of which only totals are known, as one zone whose kubelet has every manager.

    Whatever wants something of a manager is then found to do so, and what it would get is `missing`. Devices are left out
    for the same reason: some resources are counted in millions, and no twin needs them.
    """
    totals = dict(live.allocatable)
    could = {
        "cpu": min(totals.get("cpu", 0) // 1000, MAX_ID),
        **{name: amount for name, amount in totals.items() if is_memory(name)},
    }
    # The system has at least one CPU, or there would be no CPU manager.
    amounts = tuple(sorted(could.items()))
    zone = ZoneCounts(0, tuple(sorted({**could, "cpu": could["cpu"] + 1}.items())), amounts, amounts)
    return Counts(
        (zone,),
        policy="none",
        scope="container",
        version=live.kubelet_version or DEFAULT_VERSION,
        cpu_policy="static",
        memory_policy="Static",
        missing=(NO_TOPOLOGY,),
    )
