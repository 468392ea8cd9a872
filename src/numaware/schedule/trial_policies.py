"""Policies and options of the kubelet to try: what nodes would say if their kubelets had others, under the load that they carry.

`Engine.ask` takes them beside the pod. Nodes in equal state are in equal state under other policies, too, so answers are kept
by the classes that nodes are of as they are, and trying a policy costs no more than asking about one more kind of pod.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import msgspec
from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.schedule.answer import Answer, refused
from numaware.schedule.candidate_twins import CandidateTwin
from numaware.schedule.cluster import Member
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.evaluation_cache import EvaluationCache
from numaware.schedule.partial_node import PartialNode
from numaware.twin.config import Options
from numaware.twin.errors import StartError
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.node import Node
from numaware.workload.pod import Pod

NO_START = refused(Reason("kubelet-start"))


class TrialPolicies(msgspec.Struct, frozen=True):
    """Topology policy and scope, and options, that every kubelet would have; None leaves each what it has."""

    policy: str | None = None
    scope: str | None = None
    topology_options: Options | None = None
    cpu_options: Options | None = None


AS_THEY_ARE = TrialPolicies()


class TrialEvaluator(Evaluator):
    """What classes of nodes would say under other policies; whoever asks numbers the classes by the nodes as they are."""

    def __init__(self, base: Evaluator, policies: TrialPolicies) -> None:
        super().__init__(base.profile, cached=base.cached)
        self.learn(base.mix)
        self._started = cache(partial(_started, policies=policies))

    def evaluated(self, answers: EvaluationCache, number: int, member: Member, pod: Pod) -> Answer:
        changed = self.member(member)
        if changed is not None:
            return super().evaluated(answers, number, changed, pod)
        answers.whole[number] = NO_START
        return NO_START

    def member(self, member: Member) -> Member | None:
        """The member with another kubelet; None where that would not start."""
        node = _with_kubelet(member.node, self._started)
        return None if node is None else Member(member.facts, replace(member.load, node=node))


def _with_kubelet(node: Node, started: Callable[[Kubelet], Kubelet | None]) -> Node | None:
    if isinstance(node, PartialNode):
        twins = [(twin.assumed, _with_kubelet(twin.node, started)) for twin in node.candidate_twins]
        known = tuple(CandidateTwin(assumed, each) for assumed, each in twins if each is not None)
        return PartialNode(node.counts, known, exact=node.exact) if known else None
    kubelet = started(node.kubelet)
    return None if kubelet is None else Node(kubelet, node.state)


def _started(kubelet: Kubelet, policies: TrialPolicies) -> Kubelet | None:
    tried = {
        "topology_policy": policies.policy,
        "topology_scope": policies.scope,
        "topology_options": policies.topology_options,
        "cpu_options": policies.cpu_options,
    }
    config = replace(kubelet.config, **{name: value for name, value in tried.items() if value is not None})
    try:
        return start(kubelet.hardware, config)
    except (StartError, ValueError):
        return None
