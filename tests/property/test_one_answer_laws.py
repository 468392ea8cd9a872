"""One question, one answer: whoever asks where a pod could go hears the same of every node, and nobody's memory changes it.

Asked are the engine, one that remembers nothing, what-if, the extender of other schedulers, and the console's wall, what-if and
explanations.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.diagnose.explain.change import Change
from numaware.diagnose.reason import Reason
from numaware.schedule.answer import Answer
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.filters import volume_rules
from numaware.schedule.ledger import placement_of
from numaware.schedule.partial_node import partial_node
from numaware.schedule.pod_kinds import kind_of
from numaware.schedule.preference_scores import neighbour_scores, node_affinity_scores, taint_scores
from numaware.schedule.preferences import Preferences
from numaware.schedule.score import TOP
from numaware.schedule.storage import Storage
from numaware.schedule.storm import StormGuard
from numaware.schedule.stranding import Mix
from numaware.schedule.trial_policies import AS_THEY_ARE, TrialPolicies
from numaware.schedule.tried_changes import explained_by
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.console.views.explain import evidence_of, explained
from numaware.serve.console.views.judging import Judge
from numaware.serve.console.views.whatif import told
from numaware.serve.extender import Extender
from numaware.serve.metrics import Metrics
from numaware.simulate.measure import numa_nodes
from numaware.simulate.whatif import Trial
from numaware.workload.disks import Disk
from numaware.workload.pod import Pod
from numaware.workload.scheduling import (
    HostPort,
    NodeRules,
    NodeTerm,
    Owner,
    PodClaim,
    PodRules,
    PodTerm,
    PreferredPods,
    Requirement,
    Scheduling,
    Selector,
)
from numaware.workload.storage import Claim, NodeDrivers, StorageClass, Volume
from property.strategies_cluster import MINE, Made, Move, clusters, moves, templates
from support.applied_changes import patched_pod
from support.cache_world import live_pod
from support.published_counts import published

# What only some ask for: together with what `templates` gives pods, every rule that can keep one off a node.
RARE = (
    Scheduling(gates=("quota",)),
    Scheduling(claims=("data", "logs")),
    Scheduling(claims=("late",)),
    Scheduling(claims=("gone",)),
    Scheduling(claims=("mine",), ephemeral=("mine",)),
    Scheduling(claims=("alone",)),
    Scheduling(disks=(Disk("gce-pd", "disk"),)),
    Scheduling(group="gang"),
    Scheduling(node=NodeRules(features=("UserNamespacesHostNetworkSupport",))),
    Scheduling(resource_claims=(PodClaim("gpu"),)),
    Scheduling(labels=(("app", "a"),), pods=PodRules(near=(PodTerm("disk", MINE, ("default",)),))),
    Scheduling(pods=PodRules(near=(PodTerm("host", MINE, (), Selector()),))),
    Scheduling(pods=PodRules(rather_near=(PreferredPods(5, PodTerm("host", MINE, ("default",))),))),
    Scheduling(host_ports=(HostPort("UDP", "10.0.0.1", 53), HostPort("TCP", "10.0.0.1", 80))),
    Scheduling(owners=(Owner("ReplicaSet", "web", controller=True),)),
)


def stored() -> Storage:
    """Claims that are bound, on some nodes or in a zone, and one that waits for a pod."""
    storage = Storage()
    fast = (NodeTerm((Requirement("disk", "In", ("fast",)),)),)
    for one in (
        Volume("v-data", affinity=fast, claim=("default", "data"), driver="csi", handle="data"),
        Volume("v-logs", driver="csi", handle="logs"),
        Volume(
            "v-late", phase="Available", storage_class="late", size=7, affinity=fast, modes=("ReadWriteOnce",)
        ),
        StorageClass("late", "csi", waits=True, topologies=((("disk", ("slow",)),),)),
        Claim("default", "data", volume="v-data", bound=True),
        Claim("default", "logs", volume="v-logs", bound=True),
        Claim("default", "alone", volume="v-logs", bound=True, modes=("ReadWriteOncePod",)),
        Claim("default", "late", storage_class="late", size=5, modes=("ReadWriteOnce",)),
        NodeDrivers("n0", (("csi", 2),)),
        NodeDrivers("n1", (("csi", 1),)),
    ):
        storage.put(one)
    return storage


def burstable(pod: Pod) -> Pod:
    return replace(pod, containers=tuple(replace(each, limits=()) for each in pod.containers))


def best_effort(pod: Pod) -> Pod:
    return replace(pod, containers=tuple(replace(each, requests=(), limits=()) for each in pod.containers))


class Scene:
    """A cluster on which pods came and went, some refused a while ago, and pods that somebody asks about now."""

    def __init__(
        self,
        made: Made,
        kinds: list[Pod],
        steps: list[Move],
        asking: list[Pod],
        *,
        knows_namespaces: bool = True,
    ) -> None:
        self.cluster = Cluster(made, knows_namespaces=knows_namespaces, storage=stored())
        self.cluster.selectors.set_owner(("ReplicaSet", "default", "web"), MINE)
        for number, (facts, _) in enumerate(made):
            self.cluster.images.set_node(facts.name, [("app:v1", (300 << 20) * (number % 3))])
        self.guard = StormGuard()
        self.asking = asking
        self.text = (
            f"Scene({[(facts, node.kubelet.config) for facts, node in made]}, {kinds}, {steps}, {asking})"
        )
        engine = Engine(self.cluster)
        placed: list[str] = []
        for number, move in enumerate(steps):
            if move.leaves is not None and placed:
                self.cluster.release(placed.pop(move.leaves % len(placed)))
            pod = replace(kinds[move.template], uid=f"u{number}")
            decision = engine.decide(pod)
            if decision.node is not None and engine.bind(decision).admitted:
                placed.append(pod.uid)
        for pod in asking[:1]:
            self.guard.refused(pod, self.cluster.members[0], "TopologyAffinityError", 0)

    def __repr__(self) -> str:
        return self.text


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    made = [
        (facts, partial_node(published(node)) if draw(st.integers(0, 7)) == 0 else node)
        for facts, node in draw(clusters())
    ]
    kinds = draw(templates(made))
    asking = []
    for number, kind in enumerate(kinds):
        pod = draw(st.sampled_from([kind, kind, burstable(kind), best_effort(kind)]))
        if draw(st.booleans()):
            pod = replace(pod, scheduling=draw(st.sampled_from(RARE)))
        asking.append(replace(pod, uid=f"asking-{number}"))
    return Scene(made, kinds, draw(moves(len(kinds))), asking, knows_namespaces=draw(st.booleans()))


def engines(scene: Scene) -> tuple[Engine, Engine]:
    """One that remembers, and one that does not; both have the same mix of pods in mind."""
    mix = Mix()
    one, other = (
        Engine(scene.cluster, mix=mix, guard=scene.guard, cached=cached) for cached in (True, False)
    )
    return one, other


@settings(max_examples=200)
@given(scenes())
def test_everybody_hears_the_same_of_every_node(scene: Scene) -> None:
    engine, forgetful = engines(scene)
    # Nobody but a scheduler knows what was refused before.
    watcher = Engine(scene.cluster)
    judge, trial = Judge(scene.cluster), Trial(scene.cluster)
    extender = Extender(ClusterCache(watcher, lambda: 0.0), None, Metrics(), unknown="refuse")  # type: ignore[arg-type] # binds nothing
    for pod in scene.asking:
        answers = engine.ask(pod)
        assert answers == forgetful.ask(pod)
        said = [answer.reasons for answer in watcher.ask(pod)]
        for reasons in said:
            event(reasons[0].code if reasons else "admitted")
        # What-if.
        assert [answer.reasons for answer in trial.ask([pod]).answers] == said
        # The console: the wall asks about some nodes, what-if about all.
        judged = judge.judge(pod)
        assert [judgement.reasons for judgement in judged] == said
        assert [judgement.verdict in ("aligned", "split") for judgement in judged] == [
            not each for each in said
        ]
        names = [member.name for member in scene.cluster]
        assert [judge.judge(pod, [name])[0] for name in names] == judged
        assert told(judged).startswith(f"{said.count(())}/{len(said)} nodes are available")
        # The extender, which leaves claims to the scheduler that asks.
        own = replace(pod, scheduling=replace(pod.scheduling, claims=(), resource_claims=(), group=""))
        heard = extender._ask(live_pod(pod, node=""), names)
        assert heard == watcher.ask(own)
        assert [bool(extender._refusal(answer)) for answer in heard] == [not each.admitted for each in heard]


TRIED = st.builds(
    TrialPolicies,
    st.sampled_from([None, "none", "best-effort", "restricted", "single-numa-node"]),
    st.sampled_from([None, "container", "pod"]),
)


@settings(max_examples=100)
@given(scenes(), TRIED)
def test_a_policy_that_is_tried_gives_what_kubelets_with_it_give(
    scene: Scene, policies: TrialPolicies
) -> None:
    engine, forgetful = engines(scene)
    judge = Judge(scene.cluster)
    for pod in scene.asking:
        answers = engine.ask(pod, policies=policies)
        assert answers == forgetful.ask(pod, policies=policies)
        judged = judge.judge(pod, policies=policies)
        assert [each.reasons for each in judged] == [
            each.reasons for each in judge.engine.ask(pod, policies=policies)
        ]
        for member, judgement in zip(scene.cluster, judged, strict=True):
            tried = judge.engine.member(member.name, policies)
            if tried is not None:
                config = tried.node.kubelet.config
                assert policies.policy in (None, config.topology_policy)
                assert policies.scope in (None, config.topology_scope)
                told = explained(evidence_of(member.name, tried.node, pod), judgement)
                assert told.explanation["admitted"] == (not judgement.reasons)


@settings(max_examples=150)
@given(scenes(), TRIED)
def test_every_change_that_is_offered_is_admitted_when_it_is_tried(
    scene: Scene, policies: TrialPolicies
) -> None:
    """In the console and in what-if; a smaller request was offered on nodes without GPUs to pods that want some."""
    judge, trial = Judge(scene.cluster), Trial(scene.cluster)
    for pod in scene.asking:
        for member in scene.cluster:
            asked = judge.engine.member(member.name, policies)
            if asked is None:
                continue
            evidence = judge.tried(evidence_of(member.name, asked.node, pod), policies)
            for change in (
                *((change, policies, False) for change in evidence.changes),
                # An explanation tells of DRA apart, and offers what would admit all the rest.
                *(
                    (change, AS_THEY_ARE, True)
                    for change in explained_by(trial.engine, member.name, pod).changes
                ),
            ):
                event(change[0].kind)
                assert is_admitted_after(scene.cluster, member.name, pod, *change), change


def is_admitted_after(
    cluster: Cluster,
    name: str,
    pod: Pod,
    change: Change,
    policies: TrialPolicies,
    but_for_dra: bool,
) -> bool:
    """Make the change by nothing but its patch, and let an engine that remembers nothing decide."""
    patch = dict(change.patch)
    if change.kind == "request":
        pod = patched_pod(pod, patch)
    leaving = [victim["uid"] for victim in patch["evict"]] if change.kind == "evict" else []
    if change.kind in ("policy", "option"):
        policies = TrialPolicies(
            patch.get("topologyManagerPolicy", policies.policy),
            patch.get("topologyManagerScope", policies.scope),
            tuple(sorted(patch["topologyManagerPolicyOptions"].items()))
            if "topologyManagerPolicyOptions" in patch
            else None,
            tuple(sorted(patch["cpuManagerPolicyOptions"].items()))
            if "cpuManagerPolicyOptions" in patch
            else None,
        )
    with cluster.without(*leaving):
        (answer,) = Engine(cluster, cached=False).ask(pod, [name], policies, but_for_dra=but_for_dra)
    return answer.admitted


@settings(max_examples=200)
@given(scenes())
def test_a_decision_is_the_best_of_the_answers(scene: Scene) -> None:
    for engine in engines(scene):
        for pod in scene.asking:
            answers = engine.ask(pod)
            decision = engine.decide(pod)
            best = best_of(scene.cluster, pod, answers)
            assert decision.node == best
            if best is None:
                counted = dict(decision.reasons)
                assert all(
                    sum(reason in answer.reasons for answer in answers) == number
                    for reason, number in counted.items()
                )
                assert {reason for answer in answers for reason in answer.reasons} == set(counted)
            else:
                answer = answers[[member.name for member in scene.cluster].index(best)]
                assert (decision.score, decision.hints, decision.share) == (
                    answer.score,
                    answer.hints,
                    answer.share,
                )


def best_of(cluster: Cluster, pod: Pod, answers: Sequence[Answer]) -> str | None:
    """The node with the highest score once wishes are counted in, of equals in one state the one with the images, the first
    by name of several; to pods that own nothing kube-scheduler's scores come first.
    """
    fitting = [(member, answer) for member, answer in zip(cluster, answers, strict=True) if answer.admitted]
    if not fitting:
        return None
    kind, rules = kind_of(pod), cluster.placed_pods.rules_for(pod)
    volumes = volume_rules(cluster.storage, cluster.placed_pods.volume_users, pod)
    assert not isinstance(volumes, Reason)
    preferences = Preferences(cluster)
    spread = preferences.spread(pod, kind)
    totals = preferences.totals(pod, kind, fitting, rules, spread, volumes)
    facts = [member.facts for member, _ in fitting]
    wishes = zip(
        node_affinity_scores(pod.scheduling, facts),
        taint_scores(pod.scheduling, facts),
        neighbour_scores(rules, [each.name for each in facts]),
        spread.scores([each.name for each in facts]) if spread else [0] * len(facts),
        strict=True,
    )
    room = volumes is not None and any(volumes.space_score(each) for each in facts)
    wished = spread or pod.scheduling.node.preferred or (rules and rules.wishes) or room
    if not (kind.workload == "low" and wished):
        assert totals == [
            (answer.score + 3 * TOP // 1000 * sum(wished), 0)
            for (_, answer), wished in zip(fitting, wishes, strict=True)
        ]
    best = fitting[totals.index(max(totals))][0]
    images, engine = preferences.images(pod), Engine(cluster)
    equals = [
        member.name
        for (member, _), total in zip(fitting, totals, strict=True)
        if total == max(totals) and engine.class_of(member) == engine.class_of(best)
    ]
    return min(equals, key=lambda name: (-images.get(name, 0), name))


@settings(max_examples=100)
@given(scenes())
def test_a_node_that_answers_yes_gives_what_was_said(scene: Scene) -> None:
    """The kubelet itself takes the pod, with those hints, and it lies where the console and what-if show it."""
    engine, _ = engines(scene)
    judge, trial = Judge(scene.cluster), Trial(scene.cluster)
    for pod in scene.asking:
        shown, expected = judge.judge(pod), trial.ask([pod]).answers
        # Which of several GPUs a share is best taken of depends on the pods that somebody has seen, so that is the console's own.
        shares = [answer.share for answer in judge.engine.ask(pod)]
        for member, answer, judgement, what_if, share in zip(
            scene.cluster, engine.ask(pod), shown, expected, shares, strict=True
        ):
            if not answer.admitted or judgement.reasons:
                continue
            verdict = member.node.admit(pod)
            assert (verdict.admitted, verdict.hints) == (True, answer.hints)
            mark = scene.cluster.mark()
            assert scene.cluster.bind(pod, member.name, share).admitted
            assert member.node.kubelet.layout.node_ids(numa_nodes(member, pod)) == judgement.numa
            assert what_if.placement == placement_of(verdict.node, pod)
            scene.cluster.undo(mark)
            scene.cluster.keep()
