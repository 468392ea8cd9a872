"""A refusal over many nodes, in the form that users of Kubernetes know, with the nearest miss named.

`0/120 nodes are available: 40 Insufficient cpu, 80 node(s) could not align the pod on NUMA nodes (restricted).` is how
kube-scheduler puts it (FitError.Error, v1.35): each reason with its count before it, sorted as texts, and whatever else
there is to say after the full stop.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import combinations, islice
from typing import NamedTuple

from numaware.diagnose.capacity import fewest_nodes, resources, zones
from numaware.diagnose.causes import causes, requested_by
from numaware.diagnose.wording import amount_of, node_list
from numaware.schedule.cluster import Member
from numaware.schedule.constraints import cannot_judge
from numaware.schedule.engine import GATED, Decision, Engine
from numaware.schedule.evaluation import numa_reason
from numaware.schedule.knowledge import UNKNOWN, class_of
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Merge, Node, Verdict
from numaware.workload.demand import demand
from numaware.workload.pod import Pod

# Kinds of nodes, and sets of NUMA nodes of each, that are searched for the nearest miss.
_MOST_CLASSES = 512
_MOST_SETS = 4096


def refusal(decision: Decision, nodes: int, nearest: str = "") -> str:
    """Why the pod of a decision goes nowhere, out of `nodes` nodes; empty if it goes somewhere."""
    if decision.node is not None:
        return ""
    scheduling = decision.pod.scheduling
    if scheduling.gates:
        return GATED
    told = cannot_judge(scheduling) or ", ".join(
        sorted(f"{number} {reason}" for reason, number in decision.reasons)
    )
    message = f"0/{nodes} nodes are available:{f' {told}.' if told else ''}"
    return f"{message} {nearest}." if nearest else message


class _Miss(NamedTuple):
    """How far a node is from taking the pod; the least is the nearest. Amounts are thousandths of what was asked for."""

    structural: bool
    short: int
    share: int
    name: str
    text: str


def nearest_miss(engine: Engine, pod: Pod) -> str:
    """The node that only its NUMA nodes keep from taking the pod, and that is nearest to it; empty if there is none."""
    misses = islice(_misses(engine, pod), _MOST_CLASSES)
    best = min(misses, default=None)
    return f"nearest miss: {best.text}" if best else ""


def _misses(engine: Engine, pod: Pod) -> Iterator[_Miss]:
    seen: set[Hashable] = set()
    for member in engine.cluster:
        reasons = engine.why_not(member, pod)
        key = class_of(member.node), reasons
        if not reasons or key in seen:
            continue
        seen.add(key)
        merges: list[Merge] = []
        try:
            verdict = member.node.admit(pod, merges.append)
        except KubeletPanic:
            continue
        if verdict.admitted or verdict.reason == UNKNOWN:
            continue
        if reasons == (numa_reason(member.node, verdict),):
            yield _miss(member, pod, verdict, merges)


def _miss(member: Member, pod: Pod, verdict: Verdict, merges: list[Merge]) -> _Miss:
    node = Node(member.node.kubelet, verdict.held)
    requested = requested_by(demand(pod, sidecars=node.kubelet.rules.sidecars), verdict.container)
    wanted = {name: requested[name] for name in resources(node) if requested.get(name)}
    width = max((fewest_nodes(node, name, number) for name, number in wanted.items()), default=1)
    free = {name: {zone.numa: zone.free for zone in zones(node, name, pod.uid)} for name in wanted}
    best: tuple[int, int, tuple[int, ...], dict[str, int]] | None = None
    for nodes in islice(combinations(node.kubelet.layout.ids, width), _MOST_SETS):
        missing = {
            name: number - sum(free[name].get(numa, 0) for numa in nodes) for name, number in wanted.items()
        }
        missing = {name: number for name, number in missing.items() if number > 0}
        share = max((1000 * number // wanted[name] for name, number in missing.items()), default=0)
        if best is None or (len(missing), share) < best[:2]:
            best = len(missing), share, nodes, missing
    if best is None or not best[3]:
        return _Miss(True, 0, 0, member.name, f"node {member.name}: {_cause(node, pod, verdict, merges)}")
    short, share, nodes, missing = best
    amounts = " and ".join(amount_of(name, number) for name, number in missing.items())
    text = f"node {member.name} is {amounts} short on {node_list(nodes)}"
    return _Miss(False, short, share, member.name, text)


def _cause(node: Node, pod: Pod, verdict: Verdict, merges: list[Merge]) -> str:
    """Nothing is short, so amounts are not the cause: the first thing that stands in the way, in words."""
    found = causes(node, pod, verdict, merges)
    return found[0].text.removesuffix(".") if found else verdict.message
