"""A scheduler of the lab that ranks nodes by a rule: filters, scores, picks the best, and lets the kubelet judge.

All schedulers but our own run on this. What is common to them is here: amounts by node totals, shared GPUs, and what
Kubernetes makes every scheduler honour (selectors, taints, ports, other pods). A rule adds what sets its scheduler
apart. A node is asked again only when it has changed, and nodes in equal state are asked once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from numaware.diagnose.reason import Counts, Reason, most_frequent_first
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.engine import Decision
from numaware.schedule.filters import (
    InterPodRules,
    beside_reason,
    capacity_reasons,
    static_reason,
    waiting_reason,
)
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.schedule.room import gpu_resource
from numaware.schedule.shares import NO_SHARE, Share, choices, wanted_share
from numaware.twin.account import free_devices
from numaware.twin.equivalence import node_class
from numaware.twin.node import Verdict
from numaware.workload.pod import Pod
from numaware.workload.scheduling import NodeRules


class Judgement(NamedTuple):
    """What a rule says to one pod on one node: a score and, for a part of a GPU, which one; or the reason why not.

    Scores are compared within a `tier`; between tiers the rule decides by what the whole cluster looks like.
    """

    score: int
    share: Share | None = None
    reasons: tuple[Reason, ...] = ()
    tier: float = 0


# The best node of a tier: (-score, tie, name, stamp).
Head = tuple[int, int, str, int]


class Rule:
    """What sets a scheduler apart. As it stands it knows what is true, has no clock and takes the best score.

    `lags` says that the rule may come to know later what is true already, `by_name` that it takes the first by name of
    nodes that are equally good.
    """

    lags = by_name = False

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        """Asked only about nodes that have room by their totals."""
        raise NotImplementedError

    def knows(self, member: Member) -> Hashable:  # noqa: ARG002 - for rules that know something else
        """What the rule knows of a node besides the node's true state."""
        return None

    def pick(self, fitting: Sequence[str]) -> str | None:  # noqa: ARG002 - see above
        """The node to take out of all that fit; None for the best score."""
        return None

    def best_tier(self, heads: Mapping[float, Head], pod: Pod) -> float:  # noqa: ARG002 - see above
        """The tier to take the next node from; `heads` has the best node of each."""
        return max(heads)

    def passed(self, now: int) -> Sequence[Member]:  # noqa: ARG002 - see above
        """Time has come to `now`; the nodes of which the rule knows something else since."""
        return ()

    def bound(self, pod: Pod, member: Member) -> None:
        """The kubelet has admitted the pod."""

    def released(self, member: Member) -> None:
        """A pod has left the node."""


class _Board:
    """The nodes that fit one kind of pod: a heap for each tier, and the stamp that counts of each node."""

    __slots__ = ("heaps", "read", "stamps")

    def __init__(self) -> None:
        self.heaps: dict[float, list[Head]] = {}
        self.stamps: dict[str, int] = {}
        self.read = -1

    def heads(self) -> dict[float, Head]:
        """The best node of each tier that has any; entries that count no more are dropped on the way."""
        heads = {}
        for tier, heap in self.heaps.items():
            while heap and self.stamps.get(heap[0][2]) != heap[0][3]:
                heapq.heappop(heap)
            if heap:
                heads[tier] = heap[0]
        return heads


class Ranking:
    """A scheduler in the lab. `ties` ranks nodes of equal score, by name."""

    foresees = False

    def __init__(self, cluster: Cluster, rule: Rule, ties: Mapping[str, int]) -> None:
        self.cluster = cluster
        self.rule = rule
        self.ties = ties
        self._changes: list[str] = []
        self._states: dict[Hashable, int] = {}
        self._state_of: dict[str, int] = {}
        self._kinds: dict[Kind, int] = {}
        self._known: dict[tuple[int, int], Judgement] = {}
        self._eligible: dict[NodeRules, tuple[str, ...]] = {}
        self._boards: dict[tuple[NodeRules, int], _Board] = {}
        self._stamp = 0

    # Deciding

    def decide(self, pod: Pod, now: int) -> Decision:
        """The node this scheduler would bind the pod to at a moment of the lab's clock."""
        for member in self.rule.passed(now):
            self._changed(member)
        hindrance = waiting_reason(pod.scheduling)
        if hindrance:
            return Decision(pod, None, 0, reasons=((hindrance, len(self.cluster)),))
        number = self._number(pod)
        board = self._board(pod, number)
        rules = self.cluster.placed_pods.rules_for(pod)
        name = self._free_choice(board, pod, rules)
        if name is None:
            name = next(self._best_first(board, pod, rules), None)
        if name is None:
            return Decision(pod, None, 0, reasons=self._reasons(pod, number, rules))
        judgement = self._judge(self.cluster.by_name[name], pod, number)
        return Decision(pod, name, judgement.score, share=judgement.share)

    def bind(self, decision: Decision) -> Verdict:
        """Carry the decision out; the kubelet of the node has the last word."""
        if decision.node is None:
            raise ValueError(f"{decision.pod.name} has no node to be bound to")
        verdict = self.cluster.bind(decision.pod, decision.node, decision.share)
        if verdict.admitted:
            member = self.cluster.by_name[decision.node]
            self.rule.bound(decision.pod, member)
            self._changed(member)
        return verdict

    def release(self, uid: str) -> None:
        """The pod is gone."""
        member = self.cluster.release(uid)
        if member is not None:
            self.rule.released(member)
            self._changed(member)

    @property
    def lags(self) -> bool:
        return self.rule.lags

    def describe(self, facts: NodeFacts) -> None:
        """A node is described anew; whatever runs there stays."""
        self._changed(self.cluster.put(facts))
        self._eligible.clear()
        self._boards.clear()

    def _free_choice(self, board: _Board, pod: Pod, rules: InterPodRules | None) -> str | None:
        """What a rule takes that does not go by scores."""
        fitting = list(board.stamps)
        if rules is not None or pod.scheduling.host_ports:
            fitting = [name for name in fitting if not self._in_the_way(name, pod, rules)]
        return self.rule.pick(fitting) if fitting else None

    def _best_first(self, board: _Board, pod: Pod, rules: InterPodRules | None) -> Iterator[str]:
        """Nodes from the best score down, those left out that ports or neighbours forbid; the heaps stay whole."""
        aside = []
        try:
            while heads := board.heads():
                tier = next(iter(heads)) if len(heads) == 1 else self.rule.best_tier(heads, pod)
                name = heads[tier][2]
                if not self._in_the_way(name, pod, rules):
                    yield name
                aside.append((tier, heapq.heappop(board.heaps[tier])))
        finally:
            for tier, entry in aside:
                heapq.heappush(board.heaps[tier], entry)

    def _in_the_way(self, name: str, pod: Pod, rules: InterPodRules | None) -> Reason | None:
        return beside_reason(pod, name, self.cluster.by_name[name].pods.values(), rules)

    def _reasons(self, pod: Pod, number: int, rules: InterPodRules | None) -> Counts:
        counts: Counter[Reason] = Counter()
        for member in self.cluster:
            outside = static_reason(pod.scheduling, member.facts) or self._in_the_way(member.name, pod, rules)
            counts.update((outside,) if outside else self._judge(member, pod, number).reasons)
        return most_frequent_first(counts)

    # Judging

    def _number(self, pod: Pod) -> int:
        return self._kinds.setdefault(kind_of(pod), len(self._kinds))

    def _changed(self, member: Member) -> None:
        self._state_of.pop(member.name, None)
        self._changes.append(member.name)

    def _state(self, member: Member) -> int:
        """The number of the member's state; equal numbers answer alike."""
        number = self._state_of.get(member.name)
        if number is None:
            load = member.load
            key = (
                node_class(load.node),
                member.facts.allocatable,
                tuple(sorted(load.used.items())),
                tuple(sorted(load.shares.items())),
                self.rule.knows(member),
            )
            number = self._state_of[member.name] = self._states.setdefault(key, len(self._states))
        return number

    def _judge(self, member: Member, pod: Pod, number: int) -> Judgement:
        place = self._state(member), number
        judgement = self._known.get(place)
        if judgement is None:
            judgement = self._known[place] = self._judged(member, pod)
        return judgement

    def _judged(self, member: Member, pod: Pod) -> Judgement:
        short = capacity_reasons(kind_of(pod).requests, member.allocatable, member.load.used)
        short = short or _too_few_gpus(member, pod)
        if short:
            return Judgement(0, reasons=short)
        ways = [share for share, _ in choices(member.node, member.load.shares, pod)]
        return self.rule.judge(member, pod, ways) if ways else Judgement(0, reasons=(NO_SHARE,))

    def _board(self, pod: Pod, number: int) -> _Board:
        """The board of a kind of pod, brought up to date."""
        rules = pod.scheduling.node
        if rules not in self._eligible:
            self._eligible[rules] = tuple(
                member.name for member in self.cluster if not static_reason(pod.scheduling, member.facts)
            )
        board = self._boards.get((rules, number))
        if board is None:
            board = self._boards[rules, number] = _Board()
            news: Sequence[str] = self._eligible[rules]
        else:
            changed = set(self._changes[board.read :])
            eligible = self._eligible[rules]
            if changed and len(eligible) < len(self.cluster):
                changed.intersection_update(eligible)
            news = sorted(changed)
        board.read = len(self._changes)
        for name in news:
            judgement = self._judge(self.cluster.by_name[name], pod, number)
            if judgement.reasons:
                board.stamps.pop(name, None)
            else:
                self._stamp += 1
                board.stamps[name] = self._stamp
                heap = board.heaps.setdefault(judgement.tier, [])
                heapq.heappush(heap, (-judgement.score, self.ties[name], name, self._stamp))
        return board


def _too_few_gpus(member: Member, pod: Pod) -> tuple[Reason, ...]:
    """GPUs in shared use are nobody's whole: the agreement that all schedulers of a cluster with shares keep."""
    gpu = gpu_resource(member.node)
    if gpu is None or not member.load.shares or wanted_share(pod):
        return ()
    wanted = dict(kind_of(pod).requests).get(gpu, 0)
    free = free_devices(member.node, gpu).bit_count()
    return () if wanted <= free else (Reason("insufficient", (gpu,)),)
