"""The cluster as schedulers see it: nodes that are twins, what their pods ask for in total, who is where, a way back.

Nodes come, change and go, pods too, and every change touches one node. A plan can be tried and taken back exactly: see
`mark` and `undo`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from numaware.schedule.filters.placed_pods import PlacedPods
from numaware.schedule.node_facts import NodeFacts, pod_requests
from numaware.schedule.node_images import NodeImages
from numaware.schedule.pod_kinds import owns_something
from numaware.schedule.replica_selectors import ReplicaSelectors
from numaware.schedule.room import WHOLE
from numaware.schedule.shares import Remainders, Share, device_for, settled, wanted_share, with_shared
from numaware.schedule.storage import Storage
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node, Verdict
from numaware.twin.rules import NEWEST_MINOR, release_of
from numaware.workload.demand import Amounts
from numaware.workload.dra.known import DraObjects
from numaware.workload.pod import Pod

# Changes remembered for readers that lag behind; one that lags further looks at every member.
_MOST_CHANGES = 1 << 17


class Load(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a member carries: its twin, total requests, remainders of shared GPUs, and which pod sits on which of them.

    A load is equal to itself alone, so that answers can be kept by it as long as the node stays as it is.
    `astray` are pods of which nobody knows what they hold of the node (see `Cluster.place`). As long as there are any,
    the twin's books are too good to be true, and nothing that would own a part of the node goes there.
    """

    node: Node
    used: Mapping[str, int]
    shares: Remainders
    sharers: Mapping[str, int]
    astray: frozenset[str] = frozenset()


class Member:
    """One node of the cluster. Its `load` is replaced, never changed; `version` is another after every change."""

    __slots__ = ("allocatable", "facts", "load", "name", "version")

    def __init__(self, facts: NodeFacts, load: Load) -> None:
        self.name = facts.name
        self.facts = facts
        self.allocatable = dict(facts.allocatable)
        self.load = load
        self.version = 0

    @property
    def not_requested(self) -> dict[str, int]:
        """What of each resource no pod has asked for: what a scheduler that counts per node would still give away."""
        used = self.load.used
        return {name: amount - used.get(name, 0) for name, amount in self.allocatable.items()}

    @property
    def node(self) -> Node:
        return self.load.node

    @property
    def pods(self) -> dict[str, Pod]:
        return self.load.node.state.pods


_by_name = attrgetter("name")


class Cluster:
    """Members in order of name; pods by uid. Not shared between threads.

    Who watches the labels of namespaces says so with `knows_namespaces=False`, until all are told of (`placed_pods`). Without
    `storage` nothing is known of claims and volumes, and pods that have claims wait.
    """

    def __init__(
        self,
        nodes: Iterable[tuple[NodeFacts, Node]],
        *,
        knows_namespaces: bool = True,
        storage: Storage | None = None,
    ) -> None:
        self.members: list[Member] = []
        self.by_name: dict[str, Member] = {}
        self.where: dict[str, Member] = {}
        self.placed_pods = PlacedPods(knows_namespaces=knows_namespaces)
        self.storage = storage
        # Whose kube-scheduler is followed where releases score differently: the newest, until somebody says.
        self.minor = NEWEST_MINOR
        if storage is not None:
            storage.follow(self.where)
        # Devices and claims of DRA, for whoever knows of them.
        self.dra = DraObjects()
        # What only scores look at, for whoever knows it.
        self.images = NodeImages()
        self.selectors = ReplicaSelectors()
        # How many changes there have been, a reader's place in them; and how many of them described a node anew.
        self.serial = self.described = 0
        self._changes, self._descriptions = _Changes(), _Changes()
        # What to put back, while somebody may want to; None when nobody does.
        self._journal: list[tuple[Member, Load, str, bool]] | None = None
        for facts, node in sorted(nodes, key=lambda pair: pair[0].name):
            self.put(facts, node)
        # Nobody has seen the cluster without its first nodes: they are no news.
        self.serial = self.described = 0
        self._changes, self._descriptions = _Changes(), _Changes()
        for member in self.members:
            member.version = 0

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def follow_release(self, version: str) -> None:
        """Score as the kube-scheduler of this version of Kubernetes; as the newest one where it is no release of it."""
        try:
            self.minor, _ = release_of(version)
        except ValueError:
            self.minor = NEWEST_MINOR

    # Nodes

    def put(self, facts: NodeFacts, node: Node | None = None) -> Member:
        """A node is new, or is known anew: `facts` replaces its description, `node` its twin.

        The pods on the new twin are those that are on the node from now on. Without a twin the one it has stays.
        """
        self._no_way_back()
        known = member = self.by_name.get(facts.name)
        if member is None:
            if node is None:
                raise KeyError(facts.name)
            member = self.by_name[facts.name] = Member(facts, Load(node, {}, {}, {}))
            insort(self.members, member, key=_by_name)
        member.facts = facts
        member.allocatable = dict(facts.allocatable)
        self.placed_pods.set_node(facts)
        if node is not None:
            before = member.pods if known else {}
            for uid in before:
                self.where.pop(uid, None)
                if uid not in node.state.pods:
                    self.placed_pods.remove(uid)
            for uid, pod in node.state.pods.items():
                # A pod is on one node only: the one that was heard of last.
                self.release(uid)
                self.where[uid] = member
                if before.get(uid) != pod:
                    self.placed_pods.place(pod, facts.name)
            member.load = _load_of(node, member.load)
        self.described = self._descriptions.add(member.name)
        self._changed(member)
        return member

    def drop(self, name: str) -> None:
        """A node is gone, and its pods with it."""
        self._no_way_back()
        member = self.by_name.pop(name)
        del self.members[bisect_left(self.members, name, key=_by_name)]
        for uid in member.pods:
            del self.where[uid]
        self.placed_pods.drop_node(name)
        self.images.set_node(name, ())
        self.described = self._descriptions.add(member.name)
        self._changed(member)

    def changed_around(self) -> None:
        """What all nodes say may be another, though they are as they were: something beside them is known anew."""
        for member in self.members:
            self._changed(member)

    def _no_way_back(self) -> None:
        if self._journal:
            raise ValueError("nodes cannot change while what happened on them may be undone")

    # Pods

    def bind(
        self, pod: Pod, name: str, share: Share | None = None, *, known: Verdict | None = None
    ) -> Verdict:
        """Put the pod on the node if its kubelet takes it: the kubelet's own verdict. A refusal changes nothing.

        `known` is what this very node has just said to this very pod.
        """
        verdict = known or self.by_name[name].node.admit(pod)
        if verdict.admitted:
            self.reserve(pod, name, verdict.node, share)
        return verdict

    def reserve(
        self, pod: Pod, name: str, after: Node, share: Share | None = None, requests: Amounts | None = None
    ) -> None:
        """The pod is on the node, which is `after` by that; no kubelet is asked.

        `requests` is what the pod takes in all, where somebody has it at hand.
        """
        member = self.by_name[name]
        load = member.load
        shares, sharers = load.shares, load.sharers
        if share is not None:
            device = device_for(after, shares, share)
            shares = {**shares, device: shares.get(device, WHOLE) - wanted_share(pod)}
            sharers = {**sharers, pod.uid: device}
            after = with_shared(after, shares)
        total = plus(load.used, pod_requests(pod) if requests is None else requests)
        self._arrive(member, pod, Load(after, total, shares, sharers, load.astray))

    def place(self, pod: Pod, name: str) -> bool:
        """The pod is on the node, whoever put it there; whether it is known what it holds of the node.

        It holds what the twin would give it. Where the twin would refuse, where the pod cannot be read in full, and where a
        part of a GPU is asked for (who bound the pod knows which), the pod is counted but `astray`, and so is every later one
        that owns something: with the books wrong, nobody can tell what that one gets. When the last of them has left the
        books are right again.
        """
        member = self.by_name[name]
        if self.where.get(pod.uid) is member and _alike(member.pods[pod.uid], pod):
            # The same pod under another description.
            member.load = replace(member.load, node=member.node.with_pod(pod))
            self.placed_pods.place(pod, name)
            return pod.uid not in member.load.astray
        self.release(pod.uid)
        load = member.load
        node, used, shares, sharers, astray = load.node, load.used, load.shares, load.sharers, load.astray
        unclear = owns_something(pod) and (astray or wanted_share(pod))
        after = None if unclear or pod.scheduling.unread else _admitted(node, pod)
        if after is None:
            astray |= {pod.uid}
        total = plus(used, pod_requests(pod))
        load = Load(after or node.with_pod(pod), total, shares, sharers, astray)
        self._arrive(member, pod, load)
        return after is not None

    def _arrive(self, member: Member, pod: Pod, load: Load) -> None:
        self.where[pod.uid] = member
        self.placed_pods.place(pod, member.name)
        self._replace(member, load, pod.uid, arrived=True)

    def release(self, uid: str) -> Member | None:
        """The pod is gone; returns where it was."""
        member = self.where.pop(uid, None)
        if member is None:
            return None
        self.placed_pods.remove(uid)
        load = member.load
        node, used, shares, sharers, astray = load.node, load.used, load.shares, load.sharers, load.astray
        pod = member.pods[uid]
        node = node.release(uid)
        if uid in sharers:
            device = sharers[uid]
            left = {**shares, device: shares[device] + wanted_share(pod)}
            shares = {index: rest for index, rest in left.items() if rest < WHOLE}
            sharers = {other: index for other, index in sharers.items() if other != uid}
            node = with_shared(node, shares)
        if astray:
            astray -= {uid}
        self._replace(member, Load(node, _minus(used, pod), shares, sharers, astray), uid, arrived=False)
        return member

    # The way back, and news

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
            member.load = load
            if arrived:
                del self.where[uid]
                self.placed_pods.remove(uid)
            else:
                self.where[uid] = member
                self.placed_pods.place(member.pods[uid], member.name)
            self._changed(member)
            concerned.append(uid)
        return concerned

    @contextmanager
    def without(self, *uids: str) -> Iterator[None]:
        """For as long as the context lasts those of the pods that are here have never come."""
        here = [uid for uid in uids if uid in self.where]
        if not here:
            yield
            return
        journal, self._journal = self._journal, []
        try:
            for uid in here:
                self.release(uid)
            yield
        finally:
            self.undo(0)
            self._journal = journal

    def keep(self) -> None:
        """What was done stays done: nobody will come back to an earlier mark."""
        self._journal = None

    def changed_since(self, serial: int) -> Iterable[str]:
        """Names of members that changed since then, ascending; all of them if that is too long ago to know, or -1."""
        changes = self._changes.since(serial)
        return [member.name for member in self.members] if changes is None else changes

    def described_since(self, serial: int) -> Iterable[str] | None:
        """Names of members that were described anew, came or went since then; None if that is too long ago to know."""
        return self._descriptions.since(serial)

    def _replace(self, member: Member, load: Load, uid: str, *, arrived: bool) -> None:
        if self._journal is not None:
            self._journal.append((member, member.load, uid, arrived))
        member.load = load
        self._changed(member)

    def _changed(self, member: Member) -> None:
        self.serial = member.version = self._changes.add(member.name)


class _Changes:
    """Names in the order of what happened to them; of the oldest nobody knows any more."""

    __slots__ = ("_forgotten", "_names")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._forgotten = 0

    def add(self, name: str) -> int:
        """How many there have been with this one."""
        self._names.append(name)
        if len(self._names) > _MOST_CHANGES:
            half = len(self._names) // 2
            del self._names[:half]
            self._forgotten += half
        return self._forgotten + len(self._names)

    def since(self, serial: int) -> list[str] | None:
        """Each name once, ascending."""
        if serial < self._forgotten:
            return None
        names = self._names[serial - self._forgotten :]
        return sorted(set(names)) if len(names) > 1 else names


def plus(used: Mapping[str, int], requests: Amounts) -> dict[str, int]:
    """What is used when a pod comes."""
    total = dict(used)
    for resource, amount in requests:
        total[resource] = total.get(resource, 0) + amount
    return total


def _minus(used: Mapping[str, int], pod: Pod) -> dict[str, int]:
    """What is not requested at all any more is not mentioned either."""
    total = dict(used)
    for resource, amount in pod_requests(pod):
        total[resource] -= amount
        if not total[resource]:
            del total[resource]
    return total


def _admitted(node: Node, pod: Pod) -> Node | None:
    """The node after its kubelet took the pod, None if it would not."""
    try:
        verdict = node.admit(pod)
    except KubeletPanic:
        return None
    return verdict.node if verdict.admitted else None


def _alike(old: Pod, new: Pod) -> bool:
    return old.shape == new.shape and pod_requests(old) == pod_requests(new)


def _load_of(node: Node, before: Load) -> Load:
    """What a twin carries that replaces another: its pods, and on the same kind of machine who shares which GPU."""
    pods = node.state.pods
    used: Mapping[str, int] = {}
    for pod in pods.values():
        used = plus(used, pod_requests(pod))
    sharing = {uid: share for uid, pod in pods.items() if (share := wanted_share(pod))}
    known = before.sharers if node.kubelet is before.node.kubelet else {}
    sharers, shares = settled(with_shared(node, {}), sharing, known)
    return Load(
        with_shared(node, shares),
        used,
        shares,
        sharers,
        frozenset(uid for uid in sharing if uid not in sharers),
    )
