"""Where pods would go on a cluster as it stands, one after the other, and what every node says to the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import msgspec

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import Words
from numaware.schedule.answer import Answer
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.engine import Engine
from numaware.schedule.ledger import Placement, placement_of
from numaware.schedule.message import nearest_miss, refusal
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.schedule.trial_policies import NO_START, TrialPolicies
from numaware.simulate.clusters import ClusterSpec, build
from numaware.simulate.measure import numa_nodes
from numaware.simulate.traces import Trace, arrivals
from numaware.twin.account import is_aligned
from numaware.workload.pod import Pod


class NodeAnswer(msgspec.Struct, frozen=True):
    """One node's answer to a pod: what it would get there, or the reasons why not.

    `aligned` is whether that is on no more NUMA nodes than it needs, None where it would own nothing of any.
    """

    node: str
    placement: Placement | None
    reasons: tuple[Reason, ...] = ()
    aligned: bool | None = None


class Destiny(msgspec.Struct, frozen=True):
    """Where one pod goes, with what it gets; or no node, and the message that people know, with the nearest miss."""

    pod: Pod
    node: str | None
    placement: Placement | None = None
    message: Words = ""
    aligned: bool | None = None


class WhatIf(msgspec.Struct, frozen=True):
    """The answers of all nodes to the first pod, in order of name, and where all pods went."""

    answers: tuple[NodeAnswer, ...]
    destinies: tuple[Destiny, ...]


class Trial:
    """A cluster, to be asked and then left as it is; `waiting` are pods of its own that found no place."""

    def __init__(self, cluster: Cluster, profile: Profile = DEFAULT_PROFILE) -> None:
        self.cluster = cluster
        self.engine = Engine(cluster, profile)
        self.waiting: list[Pod] = []
        self._not_started: list[NodeAnswer] = []

    @classmethod
    def of(cls, spec: ClusterSpec, own: Trace, profile: Profile = DEFAULT_PROFILE) -> Trial:
        """A cluster of the lab with its own pods on it."""
        trial = cls(build(spec), profile)
        fixed = msgspec.structs.replace(own, generators=(), arrive=None)
        for arrival in arrivals(fixed, 0, "", 0, [member.name for member in trial.cluster]):
            decision = trial.engine.decide(arrival.pod)
            if decision.node is None or not trial.engine.bind(decision).admitted:
                trial.waiting.append(arrival.pod)
        return trial

    def try_policies(self, policies: TrialPolicies) -> None:
        """From now on all kubelets have these policies, under the load that they carry; those that would not start take no pod."""
        for member in list(self.cluster):
            changed = self.engine.member(member.name, policies)
            if changed is not None:
                self.cluster.put(member.facts, changed.node)
            else:
                self.cluster.drop(member.name)
                self._not_started.append(NodeAnswer(member.name, None, NO_START.reasons))

    def ask(self, pods: Sequence[Pod]) -> WhatIf:
        """Try the pods in order; nothing stays."""
        answers = (
            [*map(self._answer, self.cluster, repeat(pods[0]), self.engine.ask(pods[0])), *self._not_started]
            if pods
            else []
        )
        mark = self.cluster.mark()
        destinies = tuple(self._destiny(pod) for pod in pods)
        self.cluster.undo(mark)
        return WhatIf(tuple(sorted(answers, key=lambda answer: answer.node)), destinies)

    def _answer(self, member: Member, pod: Pod, answer: Answer) -> NodeAnswer:
        placement = placement_of(member.node.admit(pod).node, pod) if answer.admitted else None
        aligned = is_aligned(member.node, pod, answer.numa) if answer.numa else None
        return NodeAnswer(member.name, placement, answer.reasons, aligned)

    def _destiny(self, pod: Pod) -> Destiny:
        decision = self.engine.decide(pod)
        if decision.node is None:
            nearest = nearest_miss(self.engine, pod)
            return Destiny(pod, None, message=refusal(decision, len(self.cluster), nearest))
        member = self.cluster.by_name[decision.node]
        verdict = self.engine.bind(decision)
        nodes = numa_nodes(member, pod)
        aligned = is_aligned(member.node, pod, nodes) if nodes else None
        return Destiny(pod, decision.node, placement_of(verdict.node, pod), aligned=aligned)
