"""The cluster as the engine sees it: nodes that are twins, what their pods ask for in total, and a way back.

Every change touches one node. A plan can be tried and taken back exactly: see `mark` and `undo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from numaware.schedule.facts import NodeFacts, pod_requests
from numaware.schedule.shares import Remainders, Share, device_for, wanted_share, with_shared
from numaware.schedule.zones import WHOLE
from numaware.twin.node import Node, Verdict
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod

# Changes remembered for readers that lag behind; one that lags further looks at every member.
_MOST_CHANGES = 1 << 17


class Load(NamedTuple):
    """What a member carries: its twin, total requests, remainders of shared GPUs, and which pod sits on which of them."""

    node: Node
    used: Mapping[str, int]
    shares: Remainders
    sharers: Mapping[str, int]


class Member:
    """One node of the cluster. Its `load` is replaced, never changed; `version` counts the replacements."""

    __slots__ = ("allocatable", "facts", "index", "load", "version")

    def __init__(self, index: int, facts: NodeFacts, node: Node) -> None:
        self.index = index
        self.facts = facts
        self.allocatable = dict(facts.allocatable)
        self.load = Load(node, {}, {}, {})
        self.version = 0

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def node(self) -> Node:
        return self.load.node

    @property
    def pods(self) -> dict[str, Pod]:
        return self.load.node.state.pods


class Cluster:
    """Members by position, in order of name; pods by uid. Not shared between threads."""

    def __init__(self, nodes: Iterable[tuple[NodeFacts, Node]]) -> None:
        ordered = sorted(nodes, key=lambda pair: pair[0].name)
        self.members = [Member(index, facts, node) for index, (facts, node) in enumerate(ordered)]
        self.by_name = {member.name: member for member in self.members}
        self.where: dict[str, Member] = {}
        self._changes: list[int] = []
        self._forgotten = 0
        # What to put back, while somebody may want to; None when nobody does.
        self._journal: list[tuple[Member, Load, str, bool]] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def bind(
        self, pod: Pod, name: str, known: Sequence[Hint] | None = None, share: Share | None = None
    ) -> Verdict:
        """Put the pod on the node as its kubelet would; a refusal changes nothing and is told by the verdict."""
        member = self.by_name[name]
        node, used, shares, sharers = member.load
        verdict = node.admit(pod, known=known)
        if not verdict.admitted:
            return verdict
        node = verdict.node
        if share is not None:
            device = device_for(node, shares, share)
            shares = {**shares, device: shares.get(device, WHOLE) - wanted_share(pod)}
            sharers = {**sharers, pod.uid: device}
            node = with_shared(node, shares)
        total = dict(used)
        for resource, amount in pod_requests(pod):
            total[resource] = total.get(resource, 0) + amount
        self.where[pod.uid] = member
        self._replace(member, Load(node, total, shares, sharers), pod.uid, arrived=True)
        return verdict

    def release(self, uid: str) -> Member | None:
        """The pod is gone; returns where it was."""
        member = self.where.pop(uid, None)
        if member is None:
            return None
        node, used, shares, sharers = member.load
        pod = member.pods[uid]
        node = node.release(uid)
        if uid in sharers:
            device = sharers[uid]
            left = {**shares, device: shares[device] + wanted_share(pod)}
            shares = {index: rest for index, rest in left.items() if rest < WHOLE}
            sharers = {other: index for other, index in sharers.items() if other != uid}
            node = with_shared(node, shares)
        total = dict(used)
        for resource, amount in pod_requests(pod):
            total[resource] -= amount
        self._replace(member, Load(node, total, shares, sharers), uid, arrived=False)
        return member

    def mark(self) -> int:
        """A point to come back to with `undo`; until then, or until `keep`, every change is written down."""
        if self._journal is None:
            self._journal = []
        return len(self._journal)

    def undo(self, mark: int) -> list[str]:
        """Take back everything since the mark, last change first; returns the uids of the pods concerned."""
        journal = self._journal or []
        concerned = []
        while len(journal) > mark:
            member, load, uid, arrived = journal.pop()
            if arrived:
                del self.where[uid]
            else:
                self.where[uid] = member
            member.load = load
            self._changed(member)
            concerned.append(uid)
        return concerned

    def keep(self) -> None:
        """What was done stays done: nobody will come back to an earlier mark."""
        self._journal = None

    @property
    def serial(self) -> int:
        """How many changes there have been; a reader's place in them."""
        return self._forgotten + len(self._changes)

    def changed_since(self, serial: int) -> Iterable[int]:
        """Positions of members that changed since then, ascending; all of them if that is too long ago to know."""
        if serial < self._forgotten:
            return range(len(self.members))
        return sorted(set(self._changes[serial - self._forgotten :]))

    def _replace(self, member: Member, load: Load, uid: str, *, arrived: bool) -> None:
        if self._journal is not None:
            self._journal.append((member, member.load, uid, arrived))
        member.load = load
        self._changed(member)

    def _changed(self, member: Member) -> None:
        member.version += 1
        self._changes.append(member.index)
        if len(self._changes) > _MOST_CHANGES:
            half = len(self._changes) // 2
            del self._changes[:half]
            self._forgotten += half
