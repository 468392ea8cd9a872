"""Nodes that are known only in part: place a pod only where every state that fits what is known would take it.

A NodeResourceTopology from most publishers tells how much of each resource every NUMA node has, could give and has
left, and the Topology Manager's policy. It does not tell the managers' policies and options, which CPUs share a core or
belong to the system, which NUMA nodes the Memory Manager has grouped, or which devices are broken. So such a node is
a handful of twins (`candidate_twins.py`), one for every combination of what the managers may be; all of them have to admit. What
no twin can stand for (how cores are cut, how memory is grouped) is left to `unknowns.py`: none of them may remain.

Taken for granted: counts are right and come from the managers themselves (where they could give nothing, there is no such
manager), cores have at most two threads unless told otherwise, and no resource has at once a device on two NUMA nodes
and one on none (they would hide each other in the counts).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.schedule.candidate_twins import HEALTH, CandidateTwin, candidate_twins
from numaware.schedule.ledger import Placement, ZonePart, zones_of
from numaware.schedule.published_counts import Counts
from numaware.schedule.unknowns import Judge
from numaware.twin.equivalence import node_class
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Merge, Node, Verdict
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod

UNKNOWN = "Unknown"


class UnknownVerdict(Verdict, frozen=True, gc=False):
    """What the kubelet would say depends on what is not known: `outcome` names that."""

    outcome: Reason | None = None


class _Answer(NamedTuple):
    """What one guess says: the verdict, what could still make it wrong, and whether counts are exact afterwards."""

    verdict: Verdict | None
    doubts: frozenset[Reason]
    exact: bool

    @property
    def yes(self) -> bool:
        return self.verdict is not None and self.verdict.admitted and not self.doubts


class PartialNode(Node):
    """A node that is one of several; it stands in for a `Node` wherever pods are admitted and released.

    What it shows of itself is its first guess. `exact` is False once a pod was placed in a way that leaves open how much
    of which NUMA node it took: then only pods that want nothing of the managers are taken until there are new counts.
    """

    __slots__ = ("candidate_twins", "counts", "exact")

    def __init__(self, counts: Counts, candidate_twins: tuple[CandidateTwin, ...], *, exact: bool) -> None:
        super().__init__(candidate_twins[0].node.kubelet, candidate_twins[0].node.state)
        self.counts = counts
        self.candidate_twins = candidate_twins
        self.exact = exact

    def admit(self, pod: Pod, watch: Callable[[Merge], None] | None = None) -> Verdict:
        """Admitted if every guess admits; refused if every guess refuses; else unknown, and the message says why."""
        answers = [
            self._ask(candidate, pod, watch if index == 0 else None)
            for index, candidate in enumerate(self.candidate_twins)
        ]
        first = answers[0].verdict
        if all(answer.yes for answer in answers):
            after = tuple(
                CandidateTwin(candidate.assumed, answer.verdict.node)
                for candidate, answer in zip(self.candidate_twins, answers, strict=True)
                if answer.verdict is not None
            )
            node = PartialNode(
                self.counts, after, exact=self.exact and all(answer.exact for answer in answers)
            )
            return Verdict(True, "", "", node, node.state, hints=first.hints if first else ())
        if first is not None and not any(answer.verdict and answer.verdict.admitted for answer in answers):
            return replace(first, node=self)
        outcome = Reason("outcome-unknown", (tuple(sorted(self._missing(answers))),))
        return UnknownVerdict(False, UNKNOWN, say(outcome), self, self.state, outcome=outcome)

    def take(self, pod: Pod, hints: Sequence[Hint]) -> Node:  # noqa: ARG002 - hints of one guess are not another's
        return self.admit(pod).node

    def release(self, *uids: str) -> PartialNode:
        """What pods placed here since the counts give back; those that were there before are counted as staying."""
        after = tuple(
            CandidateTwin(candidate.assumed, candidate.node.release(*uids))
            for candidate in self.candidate_twins
        )
        return PartialNode(self.counts, after, exact=self.exact)

    def with_pod(self, pod: Pod) -> PartialNode:
        after = tuple(
            CandidateTwin(candidate.assumed, candidate.node.with_pod(pod))
            for candidate in self.candidate_twins
        )
        return PartialNode(self.counts, after, exact=self.exact)

    def _ask(self, candidate: CandidateTwin, pod: Pod, watch: Callable[[Merge], None] | None) -> _Answer:
        merges: list[Merge] = []

        def heard(merge: Merge) -> None:
            merges.append(merge)
            if watch is not None:
                watch(merge)

        try:
            verdict = candidate.node.admit(pod, heard)
        except KubeletPanic:
            return _Answer(None, frozenset(), exact=True)
        if not verdict.admitted:
            return _Answer(verdict, frozenset(), exact=True)
        judge = Judge(self.counts, candidate.node, pod, merges)
        doubts = set(judge.doubts())
        if judge.wants_something:
            doubts.update(map(Reason, self.counts.missing))
            if not (self.exact and self.counts.current):
                doubts.add(Reason("changes"))
        return _Answer(verdict, frozenset(doubts), exact=judge.leaves_exact_counts())

    def _missing(self, answers: Sequence[_Answer]) -> set[Reason]:
        """What would have to be known: doubts, and every setting that alone turns one answer into another."""
        missing = {doubt for answer in answers for doubt in answer.doubts}
        outcomes = [
            (dict(candidate.assumed), answer.verdict is not None and answer.verdict.admitted)
            for candidate, answer in zip(self.candidate_twins, answers, strict=True)
        ]
        for assumed, admitted in outcomes:
            for other, other_admitted in outcomes:
                differing = [name for name in assumed if assumed[name] != other[name]]
                if len(differing) == 1 and admitted != other_admitted:
                    (name,) = differing
                    missing.add(Reason("unhealthy-devices") if name == HEALTH else Reason("setting", (name,)))
        return missing


def class_of(node: Node) -> Hashable:
    """`node_class` for any node: a partial one is of the class of all its guesses."""
    if isinstance(node, PartialNode):
        return (
            node.counts,
            node.exact,
            tuple(node_class(candidate.node) for candidate in node.candidate_twins),
        )
    return node_class(node)


def partial_node(counts: Counts) -> PartialNode:
    """The node that these counts describe."""
    return PartialNode(counts, candidate_twins(counts), exact=True)


def foreseen(node: Node, pod: Pod) -> Placement | None:
    """Where a pod that is on the node will be seen: without numbers of CPUs, or not at all, where that is not known."""
    if not isinstance(node, PartialNode):
        return Placement(zones_of(node, pod))
    placements = {_without_numbers(zones_of(candidate.node, pod)) for candidate in node.candidate_twins}
    return Placement(placements.pop()) if len(placements) == 1 else None


def _without_numbers(zones: tuple[ZonePart, ...]) -> tuple[ZonePart, ...]:
    return tuple(replace(zone, cpus="") for zone in zones)
