"""The cluster cache: nodes, pods and topology reports go in, one change after the other, and twins come out for the engine.

Fed by `watches.py`; asked by scheduler, extender, console and the commands that look at a cluster. Each change concerns one
node. A node is estimated (`node_estimate.py`) from its last report, and what the report does not count yet comes on top: pods
that came are admitted as their kubelet will, pods that went are released, in the order of the changes. A pod that is assumed
to be bound is on top like any other, until a report shows it.

A pod that a report shows holds what it holds, whether or not the API server has shown it; one that the API server says has
ended or is gone holds nothing, because its kubelet lets go of it before it takes another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from numaware.kube.nodes import LiveNode
from numaware.kube.pods import LivePod
from numaware.kube.topology.report import Report
from numaware.schedule.engine import Decision, Engine
from numaware.serve.node_estimate import (
    Level,
    NodeEstimate,
    PodOnNode,
    ReceivedReport,
    counted_pod,
    estimate_node,
    facts_of,
    unread_pods,
)
from numaware.serve.pod_events import after, unreported, waiting_since, was_beside
from numaware.twin.node import Node
from numaware.workload.scheduling import Labels

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
# How far publishers that do not say whom they have counted may lag: NFD looks once a minute.
SETTLE_SECONDS = 90.0


class NodeKnowledge(NamedTuple):
    """How a node is known: by whom, since when, whether all of its pods are accounted for, and what is wrong.

    `waiting` are pods that no report shows yet, `astray` those of which nobody knows what they hold.
    """

    level: Level
    source: str
    generation: int | None
    reported_at: float | None
    current: bool
    waiting: tuple[str, ...]
    astray: tuple[str, ...]
    problem: str


class _Place:
    """All that is known of one node, and the estimate that follows from it."""

    __slots__ = ("estimate", "held", "live", "received")

    def __init__(self) -> None:
        self.live: LiveNode | None = None
        # By the kind of object: NodeResourceTopology first, because it says more.
        self.received: dict[str, ReceivedReport] = {}
        self.held: dict[str, PodOnNode] = {}
        self.estimate: NodeEstimate | None = None

    @property
    def reports(self) -> list[ReceivedReport]:
        return [report for _, report in sorted(self.received.items())]

    @property
    def empty(self) -> bool:
        return self.live is None and not self.received and not self.held


class ClusterCache:
    """Feeds `engine`. Every method that takes news returns the names of the nodes that are not as they were."""

    def __init__(self, engine: Engine, clock: Callable[[], float], *, settle: float = SETTLE_SECONDS) -> None:
        self.engine = engine
        self._clock = clock
        self._settle = settle
        self._places: dict[str, _Place] = {}
        self._pods: dict[str, LivePod] = {}
        self._on: dict[str, str] = {}
        # Pods with claims that have no node yet.
        self.claimants: set[str] = set()
        self._order = 0
        self._settling: dict[str, float] = {}
        self._paused = False
        # Nodes that news has come of since the pause.
        self._stale: set[str] = set()

    # News

    def put_node(self, live: LiveNode) -> set[str]:
        """A node is new, or its description is."""
        place = self._place(live.name)
        before, place.live = place.live, live
        self.engine.cluster.images.set_node(live.name, live.images)
        member = self.engine.cluster.by_name.get(live.name)
        if before is None or member is None or _matters(before, live):
            return self._rebuild(live.name)
        facts = facts_of(live, place.reports)
        if facts == member.facts:
            return set()
        self.engine.cluster.put(facts)
        return {live.name}

    def drop_node(self, name: str) -> set[str]:
        """A node is gone. Its pods are remembered: it may come back."""
        place = self._place(name)
        place.live = place.estimate = None
        self._rebuild(name)
        if name not in self.engine.cluster.by_name:
            return set()
        self.engine.cluster.drop(name)
        return {name}

    def put_report(self, report: Report) -> set[str]:
        """A topology object is new, or says something else; one of each kind counts."""
        self._place(report.node).received[_kind(report)] = ReceivedReport(report, self._clock())
        return self._rebuild(report.node)

    def drop_report(self, report: Report) -> set[str]:
        """A topology object is gone."""
        if self._place(report.node).received.pop(_kind(report), None) is None:
            return set()
        return self._rebuild(report.node)

    def put_pod(self, live: LivePod) -> set[str]:
        """A pod is new, or something about it is."""
        return self._nominated(live.uid, live) | self._heard_of(live)

    def _heard_of(self, live: LivePod) -> set[str]:
        self._pods[live.uid] = live
        self.engine.cluster.placed_pods.set_leaving(live.uid, leaving=live.deletion is not None)
        waits = bool(live.pod.scheduling.claims) and not live.node
        (self.claimants.add if waits else self.claimants.discard)(live.uid)
        name = self._on.get(live.uid)
        if not live.node:
            # Not bound yet: what is assumed of it stays assumed.
            return set()
        if not live.holds:
            return self._ended(live) if name is not None else set()
        changed: set[str] = set()
        if name is not None and name != live.node:
            # It was assumed to go elsewhere and never came there.
            changed = self._never_was(live.uid)
        if live.uid in self._on:
            return changed | self._described(live)
        return changed | self._came(live)

    def drop_pod(self, uid: str) -> set[str]:
        """A pod is gone."""
        self._pods.pop(uid, None)
        self.claimants.discard(uid)
        self.engine.cluster.placed_pods.set_leaving(uid, leaving=False)
        changed = self._nominated(uid)
        name = self._on.get(uid)
        if name is None:
            return changed
        return changed | (self._went(uid) if self._places[name].held[uid].confirmed else self._never_was(uid))

    def put_namespace(self, name: str, labels: Labels | None) -> set[str]:
        """A namespace is new, has other labels, or is gone (None)."""
        return self._if_rules_differ(self.engine.cluster.placed_pods.set_namespace(name, labels))

    def know_namespaces(self) -> set[str]:
        """Every namespace there is has been listed: pods that could not be judged before can be now."""
        self.engine.cluster.placed_pods.know_namespaces()
        return set(self.engine.cluster.by_name)

    def _if_rules_differ(self, differ: bool) -> set[str]:
        """Rules about other pods may open or close any node."""
        return set(self.engine.cluster.by_name) if differ else set()

    def refresh(self) -> set[str]:
        """Time has passed: what reports without a fingerprint must have counted by now, they have."""
        now = self._clock()
        due = [name for name, when in self._settling.items() if when <= now]
        return {changed for name in due for changed in self._rebuild(name)}

    def pause(self) -> None:
        """Much is coming at once (all objects are listed): take it in, and leave the engine as it is until `resume`."""
        self._paused = True

    def resume(self) -> set[str]:
        """Everything has come. Lists have no order, so pods that came with them are taken in the order of their binding."""
        self._paused = False
        stale, self._stale = self._stale, set()
        for name in stale & self._places.keys():
            held = sorted((one for one in self._places[name].held.values() if one.gone is None), key=_binding)
            for order, one in zip(sorted(one.came for one in held), held, strict=True):
                one.came = order
        return {changed for name in sorted(stale & self._places.keys()) for changed in self._rebuild(name)}

    # Acting

    def assume(self, live: LivePod, decision: Decision) -> None:
        """The pod is about to be bound as was just decided; from now on it is on its node."""
        self.engine.reserve(decision)
        if decision.node is not None:
            self._note(live, decision.node, confirmed=False)

    def assume_blindly(self, live: LivePod, node: str) -> None:
        """The pod is about to be bound to a node where nobody can tell what it will get."""
        self._note(live, node, confirmed=False)
        if node in self.engine.cluster.by_name:
            self.engine.cluster.place(live.pod, node)

    def forget(self, uid: str) -> set[str]:
        """The pod was not bound after all; unless the API server says that it was."""
        name = self._on.get(uid)
        if name is None or self._places[name].held[uid].confirmed:
            return set()
        return self._never_was(uid)

    # Asking

    def pod(self, uid: str) -> LivePod | None:
        """A pod as the API server last showed it."""
        return self._pods.get(uid)

    @property
    def pods(self) -> Iterable[LivePod]:
        """All pods that the API server has shown."""
        return self._pods.values()

    def is_bound(self, uid: str) -> bool:
        """Whether the API server has said that the pod has a node."""
        live = self._pods.get(uid)
        return live is not None and bool(live.node)

    def estimate(self, name: str) -> NodeEstimate | None:
        """What a node was last worked out to be. While it is the same object, what a pod was given there is its own."""
        place = self._places.get(name)
        return place.estimate if place is not None else None

    def place_of(self, uid: str) -> str:
        """The node that the pod is on, or was sent to and nobody has denied it since; empty if there is none."""
        return self._on.get(uid, "")

    def knowledge(self, name: str) -> NodeKnowledge | None:
        """How a node is known; None if the API server has no such node."""
        place = self._places.get(name)
        if place is None or place.estimate is None:
            return None
        estimate = place.estimate
        used = [one for one in place.reports if one.report.publisher == estimate.source]
        complete = used[0].report.complete if used else None
        alive = [uid for uid, held in place.held.items() if held.gone is None]
        member = self.engine.cluster.by_name[name]
        return NodeKnowledge(
            level=estimate.level,
            source=estimate.source,
            generation=complete.generation if complete else None,
            reported_at=used[0].at if used else None,
            current=estimate.current,
            waiting=tuple(sorted(uid for uid in alive if uid not in estimate.counted)),
            astray=tuple(sorted(member.load.astray)),
            problem="; ".join(filter(None, (estimate.problem, *unread_pods(place.held)))),
        )

    @property
    def unread_pods(self) -> int:
        """Pods of which a part could not be read."""
        return sum(1 for live in self._pods.values() if live.unread)

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong with reports, by node."""
        return {
            name: place.estimate.problem
            for name, place in sorted(self._places.items())
            if place.estimate is not None and place.estimate.problem
        }

    # Pods

    def _nominated(self, uid: str, live: LivePod | None = None) -> set[str]:
        """Whether the pod is nominated to a node, and to which, may be news."""
        nominations = self.engine.nominations
        if live is None or not live.nominated or live.node or live.finished or live.deletion is not None:
            changed = nominations.drop(uid)
        else:
            changed = nominations.put(live.pod, live.nominated)
        return changed & self.engine.cluster.by_name.keys()

    def _note(self, live: LivePod, name: str, *, confirmed: bool) -> None:
        self._order += 1
        self._place(name).held[live.uid] = PodOnNode(live, self._order, self._clock(), confirmed=confirmed)
        self._on[live.uid] = name

    def _came(self, live: LivePod) -> set[str]:
        """Somebody else has bound the pod. Its kubelet takes pods in the order in which they were bound, and so do watches tell
        of them: those of ours that are assumed to be there and not confirmed come after it.
        """
        name = live.node
        self._note(live, name, confirmed=True)
        place = self._places[name]
        later = [one for one in place.held.values() if not one.confirmed]
        for one in sorted(later, key=lambda one: one.came):
            self._order += 1
            one.came = self._order
        estimate = place.estimate
        known = estimate is not None and estimate.level == "complete" and live.uid not in estimate.counted
        if later or not known or self._paused:
            return self._rebuild(name)
        self._count(live, name)
        return {name}

    def _count(self, live: LivePod, name: str) -> None:
        """The pod is on the node, whoever put it there."""
        cluster = self.engine.cluster
        cluster.place(counted_pod(live.pod, cluster.by_name[name].node), name)

    def _described(self, live: LivePod) -> set[str]:
        """A pod on its node is confirmed, or described anew."""
        name = live.node
        held = self._places[name].held[live.uid]
        before, held.live, held.confirmed = held.live, live, True
        if before.pod == live.pod or self._places[name].estimate is None or self._paused:
            return set()
        if before.pod.shape != live.pod.shape or bool(before.unread) != bool(live.unread):
            return self._rebuild(name)
        self._count(live, name)
        return {name}

    def _went(self, uid: str) -> set[str]:
        name = self._on.pop(uid)
        place = self._places[name]
        self._order += 1
        held = place.held[uid]
        held.gone, held.gone_at = self._order, self._clock()
        if place.estimate is None or not place.estimate.current or self._paused:
            return self._rebuild(name)
        self._prune(place, place.estimate.counted)
        self.engine.cluster.release(uid)
        return {name}

    def _ended(self, live: LivePod) -> set[str]:
        """A pod that its kubelet refused never held anything: those that came after it found its place free."""
        place = self._places[self._on[live.uid]]
        counted = place.estimate is not None and live.uid in place.estimate.counted
        return self._never_was(live.uid) if live.refused and not counted else self._went(live.uid)

    def _never_was(self, uid: str) -> set[str]:
        name = self._on.pop(uid)
        del self._places[name].held[uid]
        return self._rebuild(name)

    # Nodes

    def _place(self, name: str) -> _Place:
        return self._places.setdefault(name, _Place())

    def _tidy(self, name: str) -> None:
        if self._places[name].empty:
            del self._places[name]

    def _rebuild(self, name: str) -> set[str]:
        """Estimate the node anew, and hand it to the engine unless the engine has it so already."""
        place = self._places[name]
        if self._paused:
            self._stale.add(name)
            return set()
        if place.live is None:
            self._prune(place, frozenset())
            self._settling.pop(name, None)
            if any(held.gone is not None for held in place.held.values()):
                self._settling[name] = self._clock() + self._settle
            self._tidy(name)
            return set()
        place.estimate = estimate = estimate_node(
            place.live, place.reports, place.held, self._clock(), self._settle
        )
        if estimate.settles is None:
            self._settling.pop(name, None)
        else:
            self._settling[name] = estimate.settles
        self._prune(place, estimate.counted)
        node, left = after(estimate.node, unreported(place.held, estimate.counted))
        facts = facts_of(place.live, place.reports)
        member = self.engine.cluster.by_name.get(name)
        if member and not left and not member.load.astray and _same(member.node, node):
            if facts == member.facts:
                return set()
            self.engine.cluster.put(facts)
            return {name}
        self.engine.cluster.put(facts, node)
        for event in left:
            if event.gone:
                self.engine.cluster.release(event.held.live.uid)
            else:
                self._count(event.held.live, name)
        return {name}

    def _prune(self, place: _Place, counted: frozenset[str]) -> None:
        """Forget pods that are long gone; a report that is older than their end may still come and show them."""
        long_ago = self._clock() - self._settle
        waiting = waiting_since(place.held, counted)
        for uid, held in list(place.held.items()):
            over = held.gone is not None and held.gone_at <= long_ago and uid not in counted
            if over and not was_beside(held, waiting):
                del place.held[uid]


def _binding(held: PodOnNode) -> tuple[bool, datetime, datetime, str]:
    """When a pod was bound, as far as its conditions tell, and when it was made; pods not bound yet come last."""
    live = held.live
    since = live.scheduled.last_transition_time if live.scheduled else None
    return not held.confirmed, since or _LONG_AGO, live.created or _LONG_AGO, live.uid


def _kind(report: Report) -> str:
    return "Numatopology" if report.publisher == "volcano" else "NodeResourceTopology"


def _matters(before: LiveNode, after: LiveNode) -> bool:
    """Whether the estimate of a node depends on what has changed in its description."""
    return (before.uid, before.allocatable, before.capacity, before.kubelet_version) != (
        after.uid,
        after.allocatable,
        after.capacity,
        after.kubelet_version,
    )


def _same(one: Node, other: Node) -> bool:
    """Whether two twins are alike in every answer and every pod's holdings; what a report confirms needs no new engine."""
    mine, theirs = one.state, other.state
    return (
        type(one) is type(other) is Node
        and one.kubelet is other.kubelet
        and mine.pods == theirs.pods
        and (mine.cpu.shared, mine.cpu.owned, mine.cpu.pending)
        == (theirs.cpu.shared, theirs.cpu.owned, theirs.cpu.pending)
        and (mine.memory.nodes, mine.memory.blocks) == (theirs.memory.nodes, theirs.memory.blocks)
        and (mine.device.owned, mine.device.taken) == (theirs.device.owned, theirs.device.taken)
    )
