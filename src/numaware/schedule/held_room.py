"""Room that is kept for a pod of higher priority, so that small pods do not overtake it for ever.

A large pod needs several small ones to end; while it waits, others of low priority would take each gap as it opens. So one
node is chosen where the fewest pods of lower priority stand in its way, and until it is placed no pod of lower priority is
put there that would keep it from fitting once those have gone. Nobody is evicted: it is a nomination and no more. Whoever
fits there beside it still may come.

`serve/stuck_pods.py` asks where a pod would fit (`room_for`), holds it (`HeldRoom.hold`) and lets go; the engine asks
`HeldRoom.reason` of the nodes concerned, which are few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from numaware.diagnose.reason import Code, Reason
from numaware.schedule.answer import Answer
from numaware.schedule.cluster import Load, Member, plus
from numaware.schedule.filters.node_resources import capacity_reasons
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.schedule.shares import wanted_share
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node
from numaware.workload.pod import Pod

KEPT = Reason("room-held")
# What goes away when pods do.
_ROOM: frozenset[Code] = frozenset(
    {
        "insufficient",
        "too-many-pods",
        "numa-alignment",
        "smt-alignment",
        "numa-memory",
        "exclusive-cpus",
        "devices",
    }
)
# Nodes that are looked at for one pod, nearest first, and pods of each that are tried to be left where they are.
_MOST_NODES = 8
_MOST_PODS = 32


class Hold(msgspec.Struct, frozen=True):
    """The pod would fit on the node if the pods with these uids were gone."""

    pod: Pod
    node: str
    gone: tuple[str, ...]


def priority_of(pod: Pod) -> int:
    """The pod's priority; one that names none has none."""
    return pod.scheduling.priority or 0


class HeldRoom:
    """The holds of pods that wait, by their uid."""

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        # Whether a kind of pod leaves enough room for whom a node is held, as long as the node carries the same.
        self._known: dict[tuple[str, Kind], tuple[Load, bool]] = {}

    def hold(self, hold: Hold) -> None:
        """Keep room for the pod, there and nowhere else."""
        self.holds[hold.pod.uid] = hold
        self._known.clear()

    def let_go(self, uid: str) -> Hold | None:
        """The pod needs it no longer; what was held."""
        self._known.clear()
        return self.holds.pop(uid, None)

    def reason(self, pod: Pod, member: Member) -> Reason | None:
        """Why the pod may not take what is free on the node; None if it may."""
        for hold in self.holds.values():
            if hold.node == member.name and priority_of(hold.pod) > priority_of(pod):
                key = hold.pod.uid, kind_of(pod)
                known = self._known.get(key)
                if known is None or known[0] is not member.load:
                    known = self._known[key] = member.load, _leaves_room(member, pod, hold)
                if not known[1]:
                    return KEPT
        return None


def room_for(
    pod: Pod, members: Sequence[Member], answers: Sequence[Answer], avoid: Collection[str]
) -> Hold | None:
    """The node where the least important, and then the fewest, pods of lower priority are in the pod's way.

    `answers` are what the members say to it. None where lower priorities are not what keeps it off; a bounded search.
    """
    holds = [
        Hold(pod, member.name, gone)
        for member in _nearest(pod, members, answers, avoid)
        if (gone := _in_the_way(member, pod)) is not None
    ]
    pods = {member.name: member.pods for member in members}

    def cost(hold: Hold) -> tuple[int, int, str]:
        return max(priority_of(pods[hold.node][uid]) for uid in hold.gone), len(hold.gone), hold.node

    return min(holds, key=cost, default=None)


def is_open(hold: Hold, member: Member) -> bool:
    """Whether the pod would still fit there once the others have gone."""
    return _fits(member, member.load.node, hold.pod, hold.gone)


def _nearest(
    pod: Pod, members: Sequence[Member], answers: Sequence[Answer], avoid: Collection[str]
) -> list[Member]:
    """Those that only room keeps from taking the pod, and least of it, as far as totals tell."""
    requests, priority = pod_requests(pod), priority_of(pod)
    distances = []
    for member, answer in zip(members, answers, strict=True):
        if member.name in avoid or not answer.reasons or member.load.astray:
            continue
        if all(reason.code in _ROOM for reason in answer.reasons):
            used, room = member.load.used, member.allocatable
            lower = [other for other in member.pods.values() if priority_of(other) < priority]
            if lower and not capacity_reasons(requests, room, used_without(member, lower)):
                short = [
                    1000 * (used.get(name, 0) + wanted - room.get(name, 0)) // wanted
                    for name, wanted in requests
                    if wanted
                ]
                distances.append((max(0, *short, 0), member.name, member))
    distances.sort(key=lambda one: one[:2])
    return [member for _, _, member in distances[:_MOST_NODES]]


def _in_the_way(member: Member, pod: Pod) -> tuple[str, ...] | None:
    """The pods of lower priority that would have to go, as few as is found; None if that would not help."""
    priority = priority_of(pod)
    lower = sorted(
        (other for other in member.pods.values() if priority_of(other) < priority),
        key=lambda other: (-priority_of(other), other.uid),
    )
    gone = [other.uid for other in lower]
    if not _fits(member, member.load.node, pod, gone):
        return None
    # The most important ones stay if they can.
    for other in lower[:_MOST_PODS]:
        fewer = [uid for uid in gone if uid != other.uid]
        if _fits(member, member.load.node, pod, fewer):
            gone = fewer
    return tuple(gone) or None


def _leaves_room(member: Member, pod: Pod, hold: Hold) -> bool:
    """Whether the waiting pod would fit after this one came as well as it does now; where it does not, nothing is held."""
    if not is_open(hold, member):
        return True
    if wanted_share(pod):
        return False
    try:
        verdict = member.load.node.admit(pod)
    except KubeletPanic:
        return True
    return not verdict.admitted or _fits(member, verdict.node, hold.pod, hold.gone, pod)


def _fits(member: Member, node: Node, pod: Pod, gone: Collection[str], *beside: Pod) -> bool:
    """Whether the member takes the pod with these gone, its twin being `node`, and others `beside` who are new there."""
    left = [node.state.pods[uid] for uid in gone if uid in node.state.pods]
    used = used_without(member, left)
    for other in beside:
        used = plus(used, pod_requests(other))
    if capacity_reasons(pod_requests(pod), member.allocatable, used):
        return False
    try:
        return node.release(*(other.uid for other in left)).admit(pod).admitted
    except KubeletPanic:
        return False


def used_without(member: Member, pods: Collection[Pod]) -> dict[str, int]:
    used = dict(member.load.used)
    for resource, amount in _requests(pods):
        used[resource] = used.get(resource, 0) - amount
    return used


def _requests(pods: Collection[Pod]) -> Iterator[tuple[str, int]]:
    return (request for pod in pods for request in pod_requests(pod))
