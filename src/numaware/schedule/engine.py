"""Which node: the decision engine. Pure: it reads no clock, rolls no dice and talks to nobody.

`ask` is the one question: what does every node say to a pod. `decide` takes the best of those answers; extender, what-if,
`why-pending` and the console show them. Nodes in equal state share one answer, and `pool.py` keeps the best class of nodes
for every kind of pod, so one more pod of a known kind costs a few look-ups however large the cluster is. Only pods whose
place depends on other pods, on ports or on preferences make the engine look at every node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from numaware.diagnose.reason import Counts, Reason
from numaware.schedule.answer import Answer, refused
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.filters import (
    InterPodRules,
    SoftSpread,
    VolumeRules,
    volume_rules,
    waiting_reason,
)
from numaware.schedule.held_room import HeldRoom
from numaware.schedule.learned_mix import LearnedMix
from numaware.schedule.need import Need
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.node_hindrances import NodeHindrances, node_reason
from numaware.schedule.nominations import Nominations
from numaware.schedule.outlook import outlook
from numaware.schedule.parts_by_dra import parts_by_dra
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.schedule.pool import NODE_UNKNOWN, Pool
from numaware.schedule.preferences import Preferences, best_supplied
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.schedule.refusal_counts import reason_counts, shared_refusals
from numaware.schedule.room import gpu_resource
from numaware.schedule.shares import Share
from numaware.schedule.storm import StormGuard
from numaware.schedule.stranding import Mix
from numaware.schedule.trial_policies import AS_THEY_ARE, TrialEvaluator, TrialPolicies
from numaware.twin.node import Node, Verdict
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class
from numaware.workload.scheduling import VOLCANO_POLICY, NodeRules
from numaware.workload.storage import VolumePlan

# Distinct rules about nodes whose pools are kept; the oldest goes first.
_MOST_POOLS = 64
UNKNOWN_NAMESPACES = Reason("namespaces-unknown")


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Where a pod goes, with the hints its kubelet will arrive at; or, with no node, how many nodes refuse and why.

    `volumes` is what has to be done about its claims before it is bound.
    """

    pod: Pod
    node: str | None
    score: int
    hints: tuple[Hint, ...] = ()
    share: Share | None = None
    reasons: Counts = ()
    kind: Kind | None = None
    volumes: VolumePlan | None = None


class Engine:
    """Answers for pods one by one, in the order they are given, and reads the cluster whoever changes it.

    Without a `mix` the engine learns which kinds of pods come: from those it decides on, or, if it is `told`, from those
    that whoever uses it names as they come (`learn`), which is sooner. `cached=False` asks the twin of every node every
    time. A `guard` holds templates off nodes that refused them. `profiles` are for pods that name a scheduler
    of their own; `profile` is for all others.
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
    ) -> None:
        self.cluster = cluster
        self.cached = cached
        self.guard = guard
        # Room that is kept for pods that wait; nobody's unless somebody who queues pods says so.
        self.held = HeldRoom()
        # And that of pods for which other schedulers have made it.
        self.nominations = Nominations(cluster.placed_pods.leaving, cluster.where)
        # By the name of the scheduler; the one without a name is for everybody else.
        self._evaluators = {
            name: Evaluator(each, cached=cached) for name, each in {**(profiles or {}), "": profile}.items()
        }
        self._preferences = Preferences(cluster)
        self._trial: tuple[tuple[str, TrialPolicies], TrialEvaluator] | None = None
        # How often the evaluators have forgotten everything, the numbers of classes with it.
        self._generation = 0
        if mix is not None:
            self._score_by(mix)
        self._learns = mix is None
        self._told = told
        self._learned = LearnedMix()
        # How the members were described when last looked at, and how many would rather not have every pod.
        self._known: dict[str, tuple[NodeFacts, str | None]] = {}
        self._reluctant = 0
        self._described = cluster.described
        for member in cluster:
            self._look_at(member.name)
        self._pools: dict[tuple[NodeRules, str, str | None, str], Pool] = {}

    # The one question

    def ask(
        self,
        pod: Pod,
        names: Sequence[str] | None = None,
        policies: TrialPolicies = AS_THEY_ARE,
        *,
        but_for_dra: bool = False,
    ) -> list[Answer]:
        """What each of these nodes, or every node in order of name, says to the pod as things stand.

        Or what they would say if their kubelets had other policies; or, for whoever leaves devices of DRA to kube-scheduler,
        what they say to all the rest of the pod.
        """
        self._renew_mix()
        if but_for_dra and pod.scheduling.resource_claims:
            pod = replace(pod, scheduling=replace(pod.scheduling, resource_claims=()))
        return self._ask_by_parts(pod, names, policies, but_for_dra=but_for_dra)

    def member(self, name: str, policies: TrialPolicies = AS_THEY_ARE) -> Member | None:
        """The node that `ask` asks; None if there is none, or its kubelet would not start with the policies."""
        member = self.cluster.by_name.get(name)
        if member is None or policies == AS_THEY_ARE:
            return member
        return self._on_trial("", policies).member(member)

    def rules_stamp(self, pod: Pod) -> tuple[int, ...]:
        """Another whenever something has changed that the pod's rules about other pods, or theirs about it, look at."""
        rules = self.cluster.placed_pods.rules_for(pod)
        return () if rules is None else rules.stamp

    def class_of(self, member: Member) -> tuple[int, int]:
        """Members of one class are in equal state, up to what no pod could notice."""
        return self._generation, self._evaluators[""].number_of(member)

    def _ask_by_parts(
        self, pod: Pod, names: Sequence[str] | None, policies: TrialPolicies, *, but_for_dra: bool
    ) -> list[Answer]:
        """The answers, where DRA may serve a resource of the pod on some of the nodes."""
        if not self.cluster.dra.served(pod):
            return self._ask(pod, kind_of(pod), names, policies)
        asked = [member.name for member in self.cluster.members] if names is None else names
        answers = [NODE_UNKNOWN] * len(asked)
        for part in parts_by_dra(self.cluster, pod, asked):
            told = self._ask(part.pod, kind_of(part.pod), [asked[place] for place in part.places], policies)
            for place, answer in zip(part.places, told, strict=True):
                waits = part.reason if answer.admitted and not but_for_dra else None
                answers[place] = refused(waits) if waits else answer
        return answers

    def _ask(
        self, pod: Pod, kind: Kind, names: Sequence[str] | None, policies: TrialPolicies = AS_THEY_ARE
    ) -> list[Answer]:
        cluster = self.cluster
        if names is None:
            names = [member.name for member in cluster.members]
        volumes = self._volume_rules(pod)
        hindrance = self._hindrance(pod, volumes)
        if hindrance:
            return [refused(hindrance)] * len(names)
        rules = cluster.placed_pods.rules_for(pod)
        there = NodeHindrances(rules, volumes if isinstance(volumes, VolumeRules) else None, self.guard)
        if not self.cached:
            alone = [
                self._asked_alone(cluster.by_name.get(name), pod, kind, there, policies) for name in names
            ]
            return self._with_room_kept(pod, names, alone, policies)
        pool = self._pool(pod, policies.policy)
        answers = pool.answers(pod, kind, names, self._evaluator(pod, policies))
        if self._one_by_one(pod, rules):
            for place, name in enumerate(names):
                if name in pool:
                    reasons = there.reasons(cluster.by_name[name], pod)
                    if reasons:
                        answers[place] = refused(*reasons)
        return self._with_room_kept(pod, names, answers, policies)

    def _with_room_kept(
        self, pod: Pod, names: Sequence[str], answers: list[Answer], policies: TrialPolicies
    ) -> list[Answer]:
        """The answers, but for nodes that keep what they have for pods of higher priority, or nominated to them."""
        kept = {hold.node for hold in self.held.holds.values()} | self.nominations.nodes
        if kept and policies == AS_THEY_ARE:
            for place, name in enumerate(names):
                if name in kept and answers[place].admitted:
                    reason = self._keeps_room(pod, self.cluster.by_name[name])
                    if reason:
                        answers[place] = refused(reason)
        return answers

    def _keeps_room(self, pod: Pod, member: Member) -> Reason | None:
        return self.held.reason(pod, member) or self.nominations.reason(pod, member)

    def _asked_alone(
        self,
        member: Member | None,
        pod: Pod,
        kind: Kind,
        there: NodeHindrances,
        policies: TrialPolicies,
    ) -> Answer:
        """The answer of one node, from first principles: who remembers nothing asks like this."""
        if member is None:
            return NODE_UNKNOWN
        reason = node_reason(member, pod, policies.policy)
        reasons = (reason,) if reason else there.reasons(member, pod)
        if reasons:
            return refused(*reasons)
        evaluator = self._evaluator(pod, policies)
        return evaluator.evaluate(evaluator.number_of(member), member, pod, kind)

    def _evaluator(self, pod: Pod, policies: TrialPolicies = AS_THEY_ARE) -> Evaluator:
        name = self._profile_name(pod)
        return self._evaluators[name] if policies == AS_THEY_ARE else self._on_trial(name, policies)

    def _on_trial(self, profile: str, policies: TrialPolicies) -> TrialEvaluator:
        """The evaluator of the policies that were tried last; others are forgotten."""
        key = profile, policies
        if self._trial is None or self._trial[0] != key or self._trial[1].full:
            self._trial = key, TrialEvaluator(self._evaluators[profile], policies)
        return self._trial[1]

    def _hindrance(self, pod: Pod, volumes: VolumeRules | Reason | None) -> Reason | None:
        """What keeps the pod off every node, whatever the node is."""
        reason = waiting_reason(pod.scheduling, knows_volumes=self.cluster.storage is not None)
        if reason is None and isinstance(volumes, Reason):
            reason = volumes
        known = self.cluster.placed_pods.knows_namespaces or not pod.scheduling.pods.selects_namespaces
        return reason if reason or known else UNKNOWN_NAMESPACES

    def _volume_rules(self, pod: Pod) -> VolumeRules | Reason | None:
        return volume_rules(self.cluster.storage, self.cluster.placed_pods.volume_users, pod)

    def _one_by_one(self, pod: Pod, rules: InterPodRules | None) -> bool:
        """Whether nodes of one class may still answer differently."""
        scheduling = pod.scheduling
        return (
            rules is not None
            or bool(scheduling.host_ports or scheduling.claims or scheduling.disks)
            or (self.guard is not None and self.guard.concerns(pod))
        )

    # Deciding

    def decide(self, pod: Pod) -> Decision:
        """The best answer to the pod as things stand; nothing is changed but what the engine has learned."""
        kind = kind_of(pod)
        if not self._told:
            self._learned.count_pod(pod, kind)
        volumes = self._volume_rules(pod)
        hindrance = self._hindrance(pod, volumes)
        if hindrance:
            return Decision(pod, None, 0, reasons=((hindrance, len(self.cluster)),))
        self._renew_mix()
        rules = self.cluster.placed_pods.rules_for(pod)
        spread = self._preferences.spread(pod, kind)
        pool = self._pool(pod) if self._only_scores_count(pod, rules, spread) else None
        answers: list[Answer] = []
        best: tuple[Member, Answer] | None = None
        if pool is not None:
            best = pool.best(pod, kind)
            if best is not None and (images := self._preferences.images(pod)):
                first, answer = best
                name = best_supplied(images, first.name, pool.peers(first.name, images))
                best = self.cluster.by_name[name], answer
            if best is not None and self._keeps_room(pod, best[0]):
                pool = None
        if pool is None:
            answers = self._ask_by_parts(pod, None, AS_THEY_ARE, but_for_dra=False)
            room = volumes if isinstance(volumes, VolumeRules) else None
            best = self._best_of(answers, pod, kind, rules, spread, room)
        if best is None:
            refusals = shared_refusals(answers) if pool is None else pool.refusals(pod, kind)
            return Decision(pod, None, 0, reasons=reason_counts(refusals))
        member, answer = best
        plan = volumes.plan(member.facts) if isinstance(volumes, VolumeRules) else None
        return Decision(pod, member.name, answer.score, answer.hints, answer.share, kind=kind, volumes=plan)

    def _only_scores_count(self, pod: Pod, rules: InterPodRules | None, spread: SoftSpread | None) -> bool:
        """Whether the best answer is that of the best class: nothing tells nodes of a class apart but names and images."""
        return (
            self.cached
            and not self._reluctant
            and spread is None
            and not pod.scheduling.node.preferred
            and not self._one_by_one(pod, rules)
            and not self.cluster.dra.served(pod)
        )

    def _best_of(
        self,
        answers: Sequence[Answer],
        pod: Pod,
        kind: Kind,
        rules: InterPodRules | None,
        spread: SoftSpread | None,
        volumes: VolumeRules | None,
    ) -> tuple[Member, Answer] | None:
        """By score and by what the pod, its neighbours and the nodes would rather have; of equals in one state the one
        that has the images, or the first by name.
        """
        fitting = [
            (member, answer)
            for member, answer in zip(self.cluster, answers, strict=True)
            if not answer.reasons
        ]
        if not fitting:
            return None
        totals = self._preferences.totals(pod, kind, fitting, rules, spread, volumes)
        most = max(totals)
        best = fitting[totals.index(most)]
        images = self._preferences.images(pod)
        if not images:
            return best
        state = self.class_of(best[0])
        equals = {
            member.name: (member, answer)
            for (member, answer), total in zip(fitting, totals, strict=True)
            if total == most and self.class_of(member) == state
        }
        return equals[best_supplied(images, best[0].name, equals)]

    def _profile_name(self, pod: Pod) -> str:
        name = pod.scheduling.scheduler
        return name if name in self._evaluators else ""

    def _pool(self, pod: Pod, on_trial: str | None = None) -> Pool:
        policy = pod.scheduling.annotation(VOLCANO_POLICY)
        # Volcano asks only Guaranteed pods for their policy, so others that name it share the pool of those that do not.
        heeded = policy if policy and qos_class(pod) == "Guaranteed" else ""
        key = pod.scheduling.node, heeded, on_trial if heeded else None, self._profile_name(pod)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= _MOST_POOLS:
                del self._pools[next(iter(self._pools))]
            pool = self._pools[key] = Pool(
                self.cluster, self._evaluators[key[3]], partial(node_reason, pod=pod, policy=key[2])
            )
        return pool

    def set_profile(self, name: str, profile: Profile) -> bool:
        """Place the pods of a scheduler by this profile from now on; no name is for those that have none of their own.

        Whether it is another one than before.
        """
        before = self._evaluators[name]
        if before.profile == profile:
            return False
        self._evaluators[name] = Evaluator(profile, cached=self.cached)
        if self._learns:
            self._expect(self._learned.renewed())
        else:
            self._evaluators[name].learn(before.mix)
        self._pools.clear()
        self._trial = None
        self._generation += 1
        return True

    # Acting

    def bind(self, decision: Decision) -> Verdict:
        """Carry a decision out if the kubelet of its node takes the pod: the kubelet's own verdict.

        It is asked now, unless it was asked about this very pod and found the node as it is a moment ago.
        """
        member, evaluator = self._target(decision)
        verdict = evaluator.verdict(member.load, decision.pod) or member.node.admit(decision.pod)
        if verdict.admitted:
            self._put(decision, member, verdict.node)
        return verdict

    def reserve(self, decision: Decision) -> None:
        """The pod counts as placed where it was just decided to go; its kubelet is not asked again."""
        member, evaluator = self._target(decision)
        known = evaluator.verdict(member.load, decision.pod)
        self._put(decision, member, known.node if known else member.node.take(decision.pod, decision.hints))

    def _target(self, decision: Decision) -> tuple[Member, Evaluator]:
        if decision.node is None:
            raise ValueError(f"{decision.pod.name} has no node to be bound to")
        return self.cluster.by_name[decision.node], self._evaluator(decision.pod)

    def _put(self, decision: Decision, member: Member, after: Node) -> None:
        before, kind = member.load, decision.kind or kind_of(decision.pod)
        self.cluster.reserve(decision.pod, member.name, after, decision.share, kind.requests)
        if decision.volumes is not None and self.cluster.storage is not None:
            self.cluster.storage.assume(decision.pod.uid, decision.volumes)
        for evaluator in self._evaluators.values():
            evaluator.follow(member, before, kind, decision.hints)

    # Learning

    def learn(self, pod: Pod) -> None:
        """Count the pod's kind; for those who only `ask`, or tell of every pod, since `decide` else does so itself."""
        self._learned.count_pod(pod, kind_of(pod))

    def _renew_mix(self) -> None:
        """Take in what nodes have become, score by the pods that were counted, and forget answers if there are too many."""
        cluster = self.cluster
        if self._described != cluster.described:
            names = cluster.described_since(self._described)
            for name in {*self._known, *cluster.by_name} if names is None else names:
                self._look_at(name)
            self._described = cluster.described
        if self._learns:
            self._learned.survey(cluster)
            if self._learned.outdated:
                self._expect(self._learned.renewed())
                for pool in self._pools.values():
                    pool.forget_scores()
        for evaluator in self._evaluators.values():
            if evaluator.full:
                self._evaluators = {name: each.emptied() for name, each in self._evaluators.items()}
                self._pools.clear()
                self._trial = None
                self._generation += 1
                return

    def _look_at(self, name: str) -> None:
        """Count what matters here of how a member is described: its GPUs, and whether it is reluctant."""
        member, known = self.cluster.by_name.get(name), self._known.pop(name, None)
        if known is not None:
            self._learned.count_gpus(known[1], -1)
            self._reluctant -= _is_reluctant(known[0])
        if member is not None:
            gpu = gpu_resource(member.node)
            self._known[name] = member.facts, gpu
            self._learned.count_gpus(gpu, 1)
            self._reluctant += _is_reluctant(member.facts)
        else:
            self._preferences.forget(name)
            for evaluator in self._evaluators.values():
                evaluator.forget(name)

    def _expect(self, seen: Mapping[Need, int]) -> None:
        """Score by the pods that were seen, each evaluator as its profile says."""
        machines = self._evaluators[""].machines(self.cluster)
        for evaluator in self._evaluators.values():
            evaluator.learn(outlook(seen, machines) if evaluator.profile.large_jobs else Mix(seen))

    def _score_by(self, mix: Mix) -> None:
        self._trial = None
        for evaluator in self._evaluators.values():
            evaluator.learn(mix)


def _is_reluctant(facts: NodeFacts) -> bool:
    return any(taint.effect == "PreferNoSchedule" for taint in facts.taints)
