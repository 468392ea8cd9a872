"""Room that other schedulers have made: nodes that pods are nominated to, and that are not to be taken from under them.

kube-scheduler evicts pods for one of higher priority, writes the node on it (`status.nominatedNodeName`) and binds it once they
have ended, which may take as long as they are given to end. Whoever takes that room meanwhile makes it evict others. So, as
kube-scheduler does, a pod is put there only if the nominated pods of its own priority or above find their places beside it as
well as they do without it, with all that is being deleted gone.

Whether a nominated pod may be on its node at all its own scheduler has judged; here only room counts.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, KeysView
from collections.abc import Set as AbstractSet

from numaware.diagnose.reason import Reason
from numaware.schedule.cluster import Load, Member, plus
from numaware.schedule.filters.node_resources import capacity_reasons
from numaware.schedule.held_room import priority_of, used_without
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.schedule.shares import wanted_share
from numaware.twin.errors import KubeletPanic
from numaware.workload.pod import Pod

NOMINATED = Reason("room-nominated")


class Nominations:
    """Pods without a node that are nominated to one.

    `leaving` are the uids of pods that are being deleted, `placed` of those that have a place, be it one that is only assumed:
    they need no other.
    """

    def __init__(self, leaving: AbstractSet[str], placed: Container[str]) -> None:
        self._leaving = leaving
        self._placed = placed
        self._on: dict[str, dict[str, Pod]] = {}
        self._where: dict[str, str] = {}
        # Whether a kind of pod of some priority leaves room, for what the node carries, who leaves it and who is to come.
        self._known: dict[tuple[str, Kind, int], tuple[Load, tuple[str, ...], list[Pod], bool]] = {}

    @property
    def nodes(self) -> KeysView[str]:
        """Those that somebody is nominated to."""
        return self._on.keys()

    def put(self, pod: Pod, node: str) -> set[str]:
        """The pod is nominated to the node; the nodes for which that is news."""
        if self._where.get(pod.uid) == node and self._on[node][pod.uid] == pod:
            return set()
        changed = self.drop(pod.uid)
        self._where[pod.uid] = node
        self._on.setdefault(node, {})[pod.uid] = pod
        self._known.clear()
        return changed | {node}

    def drop(self, uid: str) -> set[str]:
        """The pod is nominated no longer, if it was; the node for which that is news."""
        node = self._where.pop(uid, None)
        if node is None:
            return set()
        del self._on[node][uid]
        if not self._on[node]:
            del self._on[node]
        self._known.clear()
        return {node}

    def reason(self, pod: Pod, member: Member) -> Reason | None:
        """Why the pod may not take what is free on the node; None if it may."""
        if member.name not in self._on or pod.uid in self._on[member.name]:
            return None
        rank = priority_of(pod)
        first = [
            each
            for each in self._on[member.name].values()
            if priority_of(each) >= rank and each.uid not in self._placed
        ]
        gone = tuple(uid for uid in member.pods if uid in self._leaving)
        key = member.name, kind_of(pod), rank
        known = self._known.get(key)
        if known is None or known[0] is not member.load or known[1:3] != (gone, first):
            known = self._known[key] = member.load, gone, first, _leaves_room(pod, first, member, gone)
        return None if known[3] else NOMINATED


def _leaves_room(pod: Pod, first: Collection[Pod], member: Member, gone: Collection[str]) -> bool:
    """Whether as many of `first` find their places there beside the pod as without it."""
    ranked = sorted(first, key=lambda each: (-priority_of(each), each.uid))
    without = _fitting(ranked, member, gone)
    if not without or wanted_share(pod):
        # What a pod that shares a device leaves of it the twin does not tell.
        return not without
    return _fitting((pod, *ranked), member, gone) > without


def _fitting(pods: Iterable[Pod], member: Member, gone: Collection[str]) -> int:
    """How many of the pods the node takes, one after the other, with some others gone."""
    used = used_without(member, [member.pods[uid] for uid in gone])
    node = member.node.release(*gone)
    found = 0
    for pod in pods:
        requests = pod_requests(pod)
        if capacity_reasons(requests, member.allocatable, used):
            continue
        try:
            verdict = node.admit(pod)
        except KubeletPanic:
            continue
        if verdict.admitted:
            found, node, used = found + 1, verdict.node, plus(used, requests)
    return found
