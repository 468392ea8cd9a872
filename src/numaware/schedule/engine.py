"""Which node: the decision engine. Pure: it reads no clock, rolls no dice and talks to nobody.

Nodes in equal state share one evaluation, and `pool.py` keeps the best class of nodes for every kind of pod, so one more
pod of a known kind costs a few look-ups however large the cluster is. Only pods whose place depends on other pods, on
ports or on preferences make the engine ask every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.constraints import (
    Neighbours,
    Question,
    cannot_judge,
    neighbour_scores,
    node_affinity_scores,
    ports_reason,
    static_reason,
    taint_scores,
    volcano_reason,
)
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.evaluation_cache import Evaluation
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.schedule.pool import Pool
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.schedule.room import gpu_resource
from numaware.schedule.shares import Share
from numaware.schedule.storm import StormGuard
from numaware.schedule.stranding import Mix, Need, need_of
from numaware.twin.node import Node, Verdict
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class
from numaware.workload.scheduling import VOLCANO_POLICY, NodeRules

# Distinct rules about nodes whose pools are kept; the oldest goes first.
_MOST_POOLS = 64
# A point of a preference (0 to 100) against a point of the engine's own score (0 to 1000).
_PREFERENCE = 3
GATED = "Scheduling is blocked due to non-empty scheduling gates"
UNHEARD_OF = "node(s) that nothing is known of"
UNKNOWN_NAMESPACES = (
    "node(s) not judged: the pod's rules select namespaces by labels that could not be read yet"
)


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Where a pod goes, with the hints its kubelet will arrive at; or, with no node, how many nodes refuse and why."""

    pod: Pod
    node: str | None
    score: int
    hints: tuple[Hint, ...] = ()
    share: Share | None = None
    reasons: tuple[tuple[str, int], ...] = ()
    kind: Kind | None = None


# Of a node that is not there.
_NO_ANSWER = Evaluation(0, (), None, (UNHEARD_OF,))


class Engine:
    """Decides for pods one by one, in the order they are given.

    Without a `mix` the engine learns which kinds of pods come: from those it decides on, or, if it is `told`, from those
    that whoever uses it names as they come (`learn`), which is sooner. `cached=False` asks the twin of every node every
    time. A `guard` holds templates off nodes that refused them. `profiles` are for pods that name a scheduler
    of their own; `profile` is for all others. Who watches the labels of namespaces says so with `knows_namespaces=False`:
    until all are told of, pods whose rules select by them have no answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        profile: Profile = DEFAULT_PROFILE,
        *,
        mix: Mix | None = None,
        told: bool = False,
        cached: bool = True,
        guard: StormGuard | None = None,
        profiles: Mapping[str, Profile] | None = None,
        knows_namespaces: bool = True,
    ) -> None:
        self.cluster = cluster
        self.cached = cached
        self.guard = guard
        self.neighbours = Neighbours((member.facts for member in cluster), knows_namespaces=knows_namespaces)
        for member in cluster:
            for pod in member.pods.values():
                self.neighbours.place(pod, member.name)
        # By the name of the scheduler; the one without a name is for everybody else.
        self._evaluators = {
            name: Evaluator(one, cached=cached) for name, one in {**(profiles or {}), "": profile}.items()
        }
        if mix is not None:
            self._teach(mix)
        self._learns = mix is None
        self._told = told
        # Whether the mix that scores use is not that of the pods that have come.
        self._outdated = False
        # How many pods of each kind were seen, and one of each.
        self._seen: Counter[Kind] = Counter()
        self._samples: dict[Kind, Pod] = {}
        self._count = 0
        # How many members have GPUs of which name, and how many would rather not have every pod.
        self._gpus: Counter[str] = Counter()
        self._gpu = ""
        self._reluctant = 0
        for member in cluster:
            self._count_node(member, 1)
        self._pools: dict[tuple[NodeRules | None, str, str], Pool] = {}

    # Deciding

    def decide(self, pod: Pod) -> Decision:
        """The best node for the pod as things stand; nothing is changed but what the engine has learned."""
        kind = kind_of(pod)
        if not self._told:
            self._count_pod(pod, kind)
        hindrance = GATED if pod.scheduling.gates else cannot_judge(pod.scheduling)
        if not hindrance and not self.neighbours.knows_namespaces and pod.scheduling.pods.selects_namespaces:
            hindrance = UNKNOWN_NAMESPACES
        if hindrance:
            return Decision(pod, None, 0, reasons=((hindrance, len(self.cluster)),))
        self._renew_mix()
        self._keep_in_bounds()
        question = self.neighbours.ask(pod)
        if self._one_by_one(pod, question) or pod.scheduling.node.preferred or self._reluctant:
            best = self._best_of_all(pod, kind, question)
        else:
            best = self._pool(pod).best(pod, kind)
        if best is None:
            return Decision(pod, None, 0, reasons=self.reasons(pod))
        member, found = best
        return Decision(pod, member.name, found.score, found.hints, found.share, kind=kind)

    def reasons(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        """Why nodes refuse the pod, and how many each; most first, then by text."""
        kind = kind_of(pod)
        question = self.neighbours.ask(pod)
        counts: Counter[str] = Counter()
        if self._one_by_one(pod, question):
            for member in self.cluster:
                counts.update(set(self._why_not(member, pod, kind, question)))
        else:
            pool = self._pool(pod)
            counts = pool.reasons(pod, kind) + pool.outside
        return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def why_not(self, member: Member, pod: Pod) -> tuple[str, ...]:
        """What keeps the pod off one node, empty if nothing does."""
        return self._why_not(member, pod, kind_of(pod), self.neighbours.ask(pod))

    def judge(self, pod: Pod, names: Sequence[str]) -> list[Evaluation]:
        """What each of these nodes says, whoever decides in the end: totals, the kubelet, and refusals in the past count."""
        self._renew_mix()
        self._keep_in_bounds()
        key = None, "", self._profile_name(pod)
        pool = self._pools.get(key) or self._new_pool(key, lambda _: None)
        found = pool.answers(pod, kind_of(pod), names, _NO_ANSWER)
        guard = self.guard
        if guard is None or not guard.concerns(pod):
            return found
        by_name = self.cluster.by_name
        return [
            Evaluation(0, (), None, (reason,))
            if not one.reasons and (reason := guard.reason(pod, by_name[name]))
            else one
            for name, one in zip(names, found, strict=True)
        ]

    def _one_by_one(self, pod: Pod, question: Question | None) -> bool:
        """Whether nodes of one class may still answer differently."""
        held = self.guard is not None and self.guard.concerns(pod)
        return not self.cached or question is not None or bool(pod.scheduling.host_ports) or held

    def _why_not(self, member: Member, pod: Pod, kind: Kind, question: Question | None) -> tuple[str, ...]:
        outside = self._outside_reason(member, pod, question)
        return (outside,) if outside else self._evaluate(member, pod, kind).reasons

    def _outside_reason(self, member: Member, pod: Pod, question: Question | None) -> str | None:
        """What has nothing to do with amounts: selectors, taints, policies, ports, neighbours, earlier refusals."""
        reason = _node_reason(member, pod)
        if reason is None and pod.scheduling.host_ports:
            taken = [port for other in member.pods.values() for port in other.scheduling.host_ports]
            reason = ports_reason(pod.scheduling.host_ports, taken)
        if reason is None and question is not None:
            reason = question.reason(member.name)
        if reason is None and self.guard is not None:
            reason = self.guard.reason(pod, member)
        return reason

    def _keep_in_bounds(self) -> None:
        """Forget all answers when there are too many of them."""
        for evaluator in self._evaluators.values():
            if evaluator.full:
                self._evaluators = {name: one.emptied() for name, one in self._evaluators.items()}
                self._pools.clear()
                return

    def _evaluate(self, member: Member, pod: Pod, kind: Kind) -> Evaluation:
        evaluator = self._evaluators[self._profile_name(pod)]
        return evaluator.evaluate(evaluator.number_of(member), member, pod, kind)

    def _profile_name(self, pod: Pod) -> str:
        name = pod.scheduling.scheduler
        return name if name in self._evaluators else ""

    def _pool(self, pod: Pod) -> Pool:
        policy = pod.scheduling.annotation(VOLCANO_POLICY)
        # Volcano asks only Guaranteed pods for their policy, so others that name it share the pool of those that do not.
        heeded = policy if policy and qos_class(pod) == "Guaranteed" else ""
        key = pod.scheduling.node, heeded, self._profile_name(pod)
        return self._pools.get(key) or self._new_pool(key, partial(_node_reason, pod=pod))

    def _new_pool(
        self, key: tuple[NodeRules | None, str, str], reason: Callable[[Member], str | None]
    ) -> Pool:
        if len(self._pools) >= _MOST_POOLS:
            del self._pools[next(iter(self._pools))]
        pool = self._pools[key] = Pool(self.cluster, self._evaluators[key[2]], reason)
        return pool

    def _best_of_all(
        self, pod: Pod, kind: Kind, question: Question | None
    ) -> tuple[Member, Evaluation] | None:
        """Ask every node; what the twin says is still shared by nodes of a class."""
        fitting = []
        for member in self.cluster:
            if not self._outside_reason(member, pod, question):
                found = self._evaluate(member, pod, kind)
                if not found.reasons:
                    fitting.append((member, found))
        if not fitting:
            return None
        facts = [member.facts for member, _ in fitting]
        liked = zip(
            node_affinity_scores(pod.scheduling, facts),
            taint_scores(pod.scheduling, facts),
            neighbour_scores(question, [one.name for one in facts]),
            strict=True,
        )
        totals = [
            found.score + _PREFERENCE * sum(points) for (_, found), points in zip(fitting, liked, strict=True)
        ]
        best = max(range(len(fitting)), key=lambda index: (totals[index], -index))
        return fitting[best]

    # Nodes that come, change and go

    def put(self, facts: NodeFacts, node: Node | None = None) -> None:
        """A node is new, or is known anew; see `Cluster.put`. What was learned from the pods stays learned."""
        known = self.cluster.by_name.get(facts.name)
        before = known.pods if known is not None else {}
        if known is not None:
            self._count_node(known, -1)
        member = self.cluster.put(facts, node)
        self._count_node(member, 1)
        self.neighbours.set_node(facts)
        for uid in before:
            if uid not in member.pods:
                self.neighbours.remove(uid)
        for uid, pod in member.pods.items():
            if before.get(uid) != pod:
                self.neighbours.place(pod, facts.name)
        for pool in self._pools.values():
            pool.reconsider(facts.name)

    def drop(self, name: str) -> None:
        """A node is gone, and its pods with it."""
        self._count_node(self.cluster.by_name[name], -1)
        self.cluster.drop(name)
        self.neighbours.drop_node(name)
        for evaluator in self._evaluators.values():
            evaluator.forget(name)
        for pool in self._pools.values():
            pool.reconsider(name)

    def _count_node(self, member: Member, number: int) -> None:
        gpu = gpu_resource(member.node)
        if gpu is not None:
            self._gpus[gpu] += number
            # What most members have, the first name of several.
            most = min(self._gpus, key=lambda name: (-self._gpus[name], name))
            before, self._gpu = self._gpu, most if self._gpus[most] else ""
            if before != self._gpu and self._seen:
                # What pods want of GPUs is another resource now.
                self._outdated = self._learns
        self._reluctant += number * _is_reluctant(member.facts)

    # Acting

    def bind(self, decision: Decision) -> Verdict:
        """Carry a decision out; the verdict is the kubelet's own."""
        if decision.node is None:
            raise ValueError(f"{decision.pod.name} has no node to be bound to")
        pod, hints = decision.pod, decision.hints
        member = self.cluster.by_name[decision.node]
        before, kind = member.load, decision.kind or kind_of(pod)
        known = self._evaluators[self._profile_name(pod)].verdict(before, pod)
        verdict = self.cluster.bind(
            pod,
            decision.node,
            hints if self.cached else None,
            decision.share,
            verdict=known,
            requests=kind.requests,
        )
        if verdict.admitted:
            self.neighbours.place(pod, decision.node)
            for evaluator in self._evaluators.values():
                evaluator.follow(member, before, kind, hints)
        return verdict

    def place(self, pod: Pod, node: str) -> bool:
        """The pod is on the node, whoever put it there; whether it is known what it holds there (`Cluster.place`)."""
        known = self.cluster.place(pod, node)
        self.neighbours.place(pod, node)
        return known

    def release(self, uid: str) -> None:
        """The pod is gone."""
        self.neighbours.remove(uid)
        self.cluster.release(uid)

    def mark(self) -> int:
        """A point to come back to with `undo`."""
        return self.cluster.mark()

    def undo(self, mark: int) -> None:
        """Take back every bind and release since the mark; what was learned from the pods stays learned."""
        for uid in self.cluster.undo(mark):
            member = self.cluster.where.get(uid)
            if member is None:
                self.neighbours.remove(uid)
            else:
                self.neighbours.place(member.pods[uid], member.name)

    # Learning

    def learn(self, pod: Pod) -> None:
        """Count the pod's kind; for those who only `judge`, or tell of every pod, since `decide` else does so itself."""
        self._count_pod(pod, kind_of(pod))

    def _count_pod(self, pod: Pod, kind: Kind) -> None:
        """One pod more has come. The mix that scores use is outdated when their number has doubled.

        So scoring everything anew stays a small part of all work.
        """
        self._count += 1
        self._seen[kind] += 1
        if kind not in self._samples:
            self._samples[kind] = pod
        if self._count & (self._count - 1) == 0:
            self._outdated = self._learns

    def _renew_mix(self) -> None:
        """Score by the pods that were counted, if the mix is outdated."""
        if not self._outdated:
            return
        self._outdated = False
        needs: Counter[Need] = Counter()
        for one, count in self._seen.items():
            needs[need_of(self._samples[one], self._gpu)] += count
        self._teach(Mix(needs))
        for pool in self._pools.values():
            pool.forget_scores()

    def _teach(self, mix: Mix) -> None:
        for evaluator in self._evaluators.values():
            evaluator.learn(mix)


def _node_reason(member: Member, pod: Pod) -> str | None:
    """What about the node itself keeps the pod off, whatever runs there."""
    return static_reason(pod.scheduling, member.facts) or volcano_reason(pod, member.facts)


def _is_reluctant(facts: NodeFacts) -> bool:
    return any(taint.effect == "PreferNoSchedule" for taint in facts.taints)
