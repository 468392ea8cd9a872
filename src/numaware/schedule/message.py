"""A refusal over many nodes, in the form that users of Kubernetes know, with the nearest miss named.

`0/120 nodes are available: 40 Insufficient cpu, 80 node(s) could not align the pod on NUMA nodes (restricted).` is how
kube-scheduler puts it (FitError.Error, v1.35): each reason with its count before it, sorted as texts, and whatever else
there is to say after the full stop.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import combinations, islice
from typing import NamedTuple

from numaware.diagnose.explain.causes import causes, requested_by
from numaware.diagnose.finding import Message
from numaware.diagnose.reason import Code, nodes_available
from numaware.diagnose.texts import Words
from numaware.schedule.cluster import Member
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.filters import GATED
from numaware.schedule.held_room import Hold
from numaware.schedule.partial_node import class_of
from numaware.twin.account import account, fewest_nodes, free_in_all, resources
from numaware.twin.node import Merge, Node, Verdict
from numaware.workload.pod import Pod

# Kinds of nodes, and sets of NUMA nodes of each, that are searched for the nearest miss.
_MOST_CLASSES = 512
_MOST_SETS = 4096
_MOST_NAMES = 3
# What keeps a pod off every node, whatever the node is: kube-scheduler says it without a number of nodes.
_OF_THE_POD: frozenset[Code] = frozenset(
    {
        "claims",
        "allocations",
        "pod-group",
        "claim-missing",
        "claim-awaited",
        "claim-lost",
        "claim-deleted",
        "claim-foreign",
        "claims-unbound",
        "volume-missing",
        "volumes-unknown",
    }
)


def refusal(
    decision: Decision, nodes: int, nearest: Message | None = None, room: Message | None = None
) -> Words:
    """Why the pod of a decision goes nowhere, out of `nodes` nodes; empty if it goes somewhere."""
    if decision.node is not None:
        return ""
    first = decision.reasons[0][0] if decision.reasons else None
    if first == GATED:
        return first
    shared = first is not None and first.code in _OF_THE_POD
    return nodes_available(0, nodes, first if first and shared else decision.reasons, nearest, room)


def room_wanted(hold: Hold, member: Member, *, kept: bool) -> Message:
    """Who would have to go for the pod to fit, and whether what they leave is kept for it."""
    names = sorted(f"{other.namespace}/{other.name}" for uid in hold.gone if (other := member.pods.get(uid)))
    pods = [*names[:_MOST_NAMES], *["…"][: len(names) > _MOST_NAMES]]
    return Message("room-kept" if kept else "room-wanted", {"node": hold.node, "pods": pods})


class _Miss(NamedTuple):
    """How far a node is from taking the pod; the least is the nearest. Amounts are thousandths of what was asked for."""

    structural: bool
    short: int
    share: int
    name: str
    text: Message


def nearest_miss(engine: Engine, pod: Pod) -> Message | None:
    """The node that only its NUMA nodes keep from taking the pod, and that is nearest to it; None if there is none."""
    misses = islice(_misses(engine, pod), _MOST_CLASSES)
    best = min(misses, default=None, key=lambda miss: miss[:-1])
    return best.text if best else None


def _misses(engine: Engine, pod: Pod) -> Iterator[_Miss]:
    seen: set[Hashable] = set()
    for member, answer in zip(engine.cluster, engine.ask(pod), strict=True):
        if id(answer) in seen or not any(reason.is_kubelets for reason in answer.reasons):
            continue
        key = class_of(member.node)
        if key not in seen:
            merges: list[Merge] = []
            verdict = member.node.admit(pod, merges.append)
            yield _miss(member, pod, verdict, merges)
        seen |= {id(answer), key}


def _miss(member: Member, pod: Pod, verdict: Verdict, merges: list[Merge]) -> _Miss:
    node = Node(member.node.kubelet, verdict.held)
    requested = requested_by(node.kubelet.demand(pod), verdict.container)
    wanted = {name: requested[name] for name in resources(node) if requested.get(name)}
    # Devices of which nobody says where they are come with every NUMA node.
    inventories = node.kubelet.devices.inventories
    for name in inventories.keys() & wanted.keys():
        if not inventories[name].has_topology and free_in_all(node, name, pod.uid) >= wanted[name]:
            del wanted[name]
    width = max((fewest_nodes(node, name, number) for name, number in wanted.items()), default=1)
    free = {name: {part.numa: part.free for part in account(node, name, pod.uid)} for name in wanted}
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
        cause = _cause(node, pod, verdict, merges)
        text = Message("nearest-cause", {"node": member.name, "cause": cause})
        return _Miss(True, 0, 0, member.name, text)
    short, share, nodes, missing = best
    facts = {"node": member.name, "missing": list(missing.items()), "nodes": nodes}
    return _Miss(False, short, share, member.name, Message("nearest-short", facts))


def _cause(node: Node, pod: Pod, verdict: Verdict, merges: list[Merge]) -> Words:
    """Nothing is short, so amounts are not the cause: the first thing that stands in the way."""
    standing_in_the_way = causes(node, pod, verdict, merges)
    return standing_in_the_way[0].text if standing_in_the_way else verdict.message
