from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.evaluation import ASTRAY
from numaware.schedule.filters import GATED
from numaware.schedule.filters.taints_and_affinity import NOT_SELECTED
from numaware.schedule.node_facts import Taint
from numaware.schedule.profile import Profile
from numaware.schedule.storm import HELD, StormGuard
from numaware.twin.hardware import Hardware
from numaware.twin.node import Node
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Container, Pod
from numaware.workload.scheduling import (
    VOLCANO_POLICY,
    HostPort,
    NodeRules,
    NodeTerm,
    PodRules,
    PodTerm,
    PreferredNodes,
    Requirement,
    Scheduling,
    Selector,
)
from support.small_clusters import cluster_of, facts_of, gpu_node, owned, share_pod
from support.twin_nodes import HUGE, config, container, machine, pod, pod_of, sized, state_key

SPREAD = Profile(medium=(("least-allocated", 1),), low=(("least-allocated", 1),))


def asking(of: Pod, **scheduling: object) -> Pod:
    return replace(of, scheduling=Scheduling(**scheduling))  # type: ignore[arg-type] # its own fields


def told(engine: Engine, of: Pod) -> dict[str, int]:
    """Why no node takes the pod, in words."""
    decision = engine.decide(of)
    assert decision.node is None
    return {say(reason): number for reason, number in decision.reasons}


def placed(engine: Engine, *pods: Pod) -> list[str | None]:
    """Decide and bind one after the other; where each went."""
    found = []
    for each in pods:
        decision = engine.decide(each)
        if decision.node is not None:
            assert engine.bind(decision).admitted
        found.append(decision.node)
    return found


# Fit


def test_a_node_that_its_kubelet_would_refuse_is_passed_over() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node"), gpu_node("restricted")))
    assert placed(engine, pod("wide", 12)) == ["n1"]


def test_node_totals_do_not_decide() -> None:
    """Ten CPUs are free in all, but no NUMA node has six."""
    engine = Engine(cluster_of(gpu_node("single-numa-node")), SPREAD)
    engine.cluster.bind(pod("a", 2), "n0")
    engine.cluster.bind(pod("b", 3), "n0")
    assert placed(engine, pod("first", 8)) == ["n0"]
    assert told(engine, pod("c", 6)) == {"Insufficient cpu": 1}
    engine.cluster.release("first")
    engine.cluster.bind(pod_of("d", container("x", {"cpu": 5, "memory": 1})), "n0")
    assert told(engine, pod("e", 5)) == {
        "node(s) could not align the pod on NUMA nodes (single-numa-node)": 1
    }


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_no_decision_is_refused_by_the_kubelet(policy: str, scope: str) -> None:
    engine = Engine(cluster_of(*[gpu_node(policy, scope=scope, memory=True)] * 3))
    two = pod_of("two", container("x", {"cpu": 2, "memory": 1}), container("y", {"cpu": 4, "memory": 1}))
    stream = [
        replace(shape, uid=f"{shape.uid}-{number}")
        for number in range(6)
        for shape in (pod("a", 3, gpu=1), two, pod("wide", 10, gpu=2))
    ]
    assert "n0" in placed(engine, *stream)


def test_every_rule_about_nodes_keeps_pods_off() -> None:
    node = gpu_node()
    taint = Taint("dedicated", "ai", "NoSchedule")
    engine = Engine(
        Cluster(
            [
                (facts_of("cordoned", node, unschedulable=True), node),
                (facts_of("other", node, labels=(("disk", "slow"),)), node),
                (facts_of("tainted", node, taints=(taint,)), node),
            ]
        )
    )
    assert told(engine, asking(pod("a", 2), node=NodeRules(selector=(("disk", "fast"),)))) == {
        "node(s) were unschedulable": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
        "node(s) had untolerated taint {dedicated: ai}": 1,
    }


def test_volcanos_policy_must_be_the_nodes() -> None:
    engine = Engine(cluster_of(gpu_node("best-effort"), gpu_node("restricted")))
    wish = ((VOLCANO_POLICY, "restricted"),)
    assert placed(engine, asking(pod("a", 2), annotations=wish)) == ["n1"]


def test_volcanos_policy_means_nothing_to_a_pod_that_is_not_guaranteed() -> None:
    """Whatever was decided before for a Guaranteed pod with the same annotation."""
    engine = Engine(cluster_of(gpu_node("best-effort")))
    wish = ((VOLCANO_POLICY, "restricted"),)
    assert placed(
        engine, asking(pod("a", 2), annotations=wish), asking(pod("b", gpu=1), annotations=wish)
    ) == [
        None,
        "n0",
    ]


def test_pods_that_wait_are_said_to_wait_and_not_guessed_about() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    assert engine.decide(asking(pod("a", 2), gates=("quota",))).reasons == ((GATED, 2),)
    ((reason, count),) = engine.decide(asking(pod("a", 2), claims=("data",))).reasons
    assert (count, reason.code) == (2, "claims")


def test_a_port_of_the_host_is_taken_once() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    port = (HostPort("TCP", "0.0.0.0", 80),)  # noqa: S104 - nothing is bound to it
    stream = [asking(pod(uid, 1), host_ports=port) for uid in "abc"]
    assert placed(engine, *stream) == ["n0", "n1", None]


def test_pods_that_avoid_each_other_are_kept_apart_until_one_leaves() -> None:
    node = gpu_node()
    engine = Engine(Cluster((facts_of(name, node, labels=(("host", name),)), node) for name in ("a", "b")))
    rules = PodRules(apart=(PodTerm("host", Selector((Requirement("app", "In", ("x",)),)), ("default",)),))
    stream = [asking(pod(uid, 1), labels=(("app", "x"),), pods=rules) for uid in ("p", "q", "r", "s")]
    assert placed(engine, *stream[:3]) == ["a", "b", None]
    engine.cluster.release("p")
    assert placed(engine, stream[3]) == ["a"]


def test_a_node_whose_kubelet_would_crash_is_passed_over() -> None:
    """The Memory Manager does not expect a NUMA node without the huge page size that is asked for."""
    whole = machine(2, 8, hugepages=4)
    half = Hardware((whole.numa[0], replace(whole.numa[1], hugepages=())))
    nodes = [Node.fresh(hardware, config("restricted", memory=True)) for hardware in (half, whole)]
    made = Cluster(
        (replace(facts, allocatable=tuple(sorted((*facts.allocatable, (HUGE, 8))))), node)
        for facts, node in ((facts_of(f"n{number}", node), node) for number, node in enumerate(nodes))
    )
    engine = Engine(made)
    (answer,) = engine.ask(pod("a", 2, huge=1), ["n0"])
    assert [reason.code for reason in answer.reasons] == ["kubelet-crash"]
    assert placed(engine, pod("a", 2, huge=1)) == ["n1"]


# Choice


def test_the_profile_decides_between_nodes_that_fit() -> None:
    packed = Engine(cluster_of(gpu_node(), gpu_node()), Profile(medium=(("most-allocated", 1),)))
    spread = Engine(cluster_of(gpu_node(), gpu_node()), SPREAD)
    stream = [pod("a", 2), pod("b", 2), pod("c", 2)]
    assert placed(packed, *stream) == ["n0", "n0", "n0"]
    assert placed(spread, *stream) == ["n0", "n1", "n0"]


def test_a_pod_that_has_to_span_goes_where_it_spans_less() -> None:
    """Eight CPUs are free on one NUMA node of n1, and on none of n0."""
    engine = Engine(
        cluster_of(gpu_node("best-effort"), gpu_node("best-effort")), Profile(medium=(("distance", 1),))
    )
    engine.cluster.bind(pod_of("x", container("a", {"cpu": 8, "memory": 1})), "n0")
    assert placed(engine, pod("a", 8)) == ["n1"]


def test_wishes_about_nodes_are_weighed_against_the_score() -> None:
    node = gpu_node()
    engine = Engine(
        Cluster(
            (facts_of(name, node, labels=(("disk", kind),)), node)
            for name, kind in (("a", "slow"), ("b", "fast"))
        )
    )
    fast = NodeTerm((Requirement("disk", "In", ("fast",)),))
    wish = NodeRules(preferred=(PreferredNodes(50, fast),))
    assert placed(engine, pod("p", 2)) == ["a"]
    assert placed(engine, asking(pod("q", 2), node=wish)) == ["b"]


def test_nodes_with_a_taint_that_discourages_come_last() -> None:
    node = gpu_node()
    soft = Taint("noisy", "", "PreferNoSchedule")
    engine = Engine(Cluster([(facts_of("a", node, taints=(soft,)), node), (facts_of("b", node), node)]))
    assert placed(engine, pod("p", 2)) == ["b"]


def test_parts_of_gpus_fill_the_one_that_is_already_shared() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    engine.decide(pod("whole", 2, gpu=1))
    first, second, third, fourth = placed(engine, *(share_pod(f"s{number}", 500) for number in range(4)))
    assert (first, third) == (second, fourth)
    shares = [left for member in engine.cluster for left in member.load.shares.values()]
    assert shares == [0, 0]


# Learning


def test_who_is_told_of_pods_does_not_learn_from_what_is_decided() -> None:
    coming, other = pod("train", 2, gpu=2), pod("small", 1, gpu=1)

    def scores(*, told: bool) -> list[int]:
        engine = Engine(cluster_of(gpu_node(), gpu_node()), told=told)
        engine.learn(coming)
        return [engine.decide(other).score for _ in range(20)]

    assert len(set(scores(told=True))) == 1
    assert len(set(scores(told=False))) > 1


def test_pods_may_be_told_of_before_the_nodes() -> None:
    """What a pod wants of GPUs is known only with the nodes that have them."""
    coming, asked = pod("train", 2, gpu=2), pod("small", 1, gpu=1)
    early, late = Engine(cluster_of(gpu_node(), gpu_node()), told=True), Engine(Cluster(()), told=True)
    for engine in (early, late):
        engine.learn(coming)
    assert late.decide(asked).node is None
    for member in early.cluster:
        late.cluster.put(member.facts, member.node)
    assert late.decide(asked) == early.decide(asked)


# Answers


def test_each_node_tells_why_not() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node"), gpu_node("restricted")))
    first, second = engine.ask(pod("a", 12))
    assert first.reasons == (Reason("numa-alignment", ("single-numa-node",)),)
    assert not first.admitted
    assert second.admitted


def test_reasons_come_most_frequent_first_then_by_text() -> None:
    engine = Engine(cluster_of(*[gpu_node("single-numa-node")] * 3, gpu_node("restricted", cpus=4)))
    reasons = engine.decide(pod("a", 12, gpu=1)).reasons
    assert [count for _, count in reasons] == [3, 1]


def test_a_decision_without_a_node_cannot_be_bound() -> None:
    engine = Engine(cluster_of(gpu_node()))
    with pytest.raises(ValueError, match="huge has no node"):
        engine.bind(engine.decide(pod("huge", 100)))


def test_a_wrong_decision_is_refused_by_the_kubelet_and_changes_nothing() -> None:
    """It was said to be admitted: hints that somebody brings were taken for the kubelet's."""
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    before = engine.cluster.members[0].load
    verdict = engine.bind(Decision(pod("wide", 12), "n0", 0, (Hint(1, True),)))
    assert (verdict.admitted, verdict.reason) == (False, "TopologyAffinityError")
    assert engine.cluster.members[0].load is before
    assert engine.cluster.where == {}


def test_a_decision_that_no_longer_holds_is_refused_by_the_kubelet() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    early, late = (engine.decide(pod(uid, 8)) for uid in "ab")
    assert engine.bind(late).admitted
    assert not engine.bind(early).admitted
    assert list(engine.cluster.where) == ["b"]


def test_what_is_reserved_is_what_the_kubelet_would_have_taken() -> None:
    asked, told = (Engine(cluster_of(gpu_node("restricted", memory=True))) for _ in range(2))
    for uid, cpus in (("a", 3), ("b", 2), ("c", 6)):
        assert asked.bind(asked.decide(pod(uid, cpus, gpu=1))).admitted
        told.reserve(told.decide(pod(uid, cpus, gpu=1)))
    assert state_key(asked.cluster.members[0].node) == state_key(told.cluster.members[0].node)


def test_undo_brings_back_neighbours_too() -> None:
    node = gpu_node()
    engine = Engine(Cluster([(facts_of("a", node, labels=(("host", "a"),)), node)]))
    rules = PodRules(apart=(PodTerm("host", Selector((Requirement("app", "In", ("x",)),)), ("default",)),))
    one, other = (asking(pod(uid, 1), labels=(("app", "x"),), pods=rules) for uid in ("p", "q"))
    assert placed(engine, one) == ["a"]
    mark = engine.cluster.mark()
    engine.cluster.release("p")
    assert placed(engine, other) == ["a"]
    engine.cluster.undo(mark)
    assert engine.decide(replace(other, uid="r")).node is None


# Nodes that come, change and go


def test_a_node_that_is_put_takes_pods_at_once_and_one_that_is_dropped_takes_none() -> None:
    engine = Engine(cluster_of(gpu_node(cpus=2)))
    assert placed(engine, pod("a", 6)) == [None]
    engine.cluster.put(facts_of("big", gpu_node()), gpu_node())
    assert placed(engine, pod("b", 6)) == ["big"]
    engine.cluster.drop("big")
    assert told(engine, pod("c", 6)) == {"Insufficient cpu": 1}


def test_only_pods_that_ask_for_a_label_notice_that_a_node_has_it_now() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    picky = asking(pod("a", 2), node=NodeRules(selector=(("disk", "fast"),)))
    assert engine.decide(picky).reasons == ((NOT_SELECTED, 2),)
    engine.cluster.put(facts_of("n1", gpu_node(), labels=(("disk", "fast"),)))
    assert engine.decide(picky).node == "n1"
    assert engine.decide(pod("b", 2)).node == "n0"
    engine.cluster.put(facts_of("n1", gpu_node()))
    assert engine.decide(picky).reasons == ((NOT_SELECTED, 2),)


def test_a_taint_that_discourages_counts_from_when_it_is_put_to_when_it_is_gone() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    engine.cluster.put(facts_of("n0", gpu_node(), taints=(Taint("old", "", "PreferNoSchedule"),)))
    assert engine.decide(pod("a", 2)).node == "n1"
    engine.cluster.put(facts_of("n0", gpu_node()))
    assert engine.decide(pod("a", 2)).node == "n0"


def test_pods_of_a_new_twin_are_neighbours_and_those_it_does_not_have_are_not() -> None:
    rules = PodRules(apart=(PodTerm("host", Selector((Requirement("app", "In", ("x",)),)), ("default",)),))
    shy = [asking(pod(uid, 1), labels=(("app", "x"),), pods=rules) for uid in "pqr"]
    node, described = gpu_node(), facts_of("a", gpu_node(), labels=(("host", "a"),))
    engine = Engine(Cluster([(described, node.with_pod(shy[0]))]))
    assert engine.decide(shy[1]).node is None
    engine.cluster.put(described, node)
    assert engine.decide(shy[1]).node == "a"
    assert engine.cluster.place(shy[2], "a")
    assert engine.decide(shy[1]).node is None
    engine.cluster.drop("a")
    engine.cluster.put(described, node)
    assert engine.decide(shy[1]).node == "a"


def test_no_owner_goes_where_a_pod_is_astray_until_the_node_is_known_again() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    assert not engine.cluster.place(pod("wide", 12), "n0")
    assert engine.decide(pod("a", 2)).reasons == ((ASTRAY, 1),)
    assert engine.decide(pod_of("b", Container("app", sized({"cpu": 1})))).node == "n0"
    node = gpu_node("single-numa-node")
    engine.cluster.put(facts_of("n0", node), node.with_pod(pod("wide", 12)))
    assert engine.decide(pod("a", 2)).node == "n0"


def test_a_node_with_more_on_it_than_it_should_still_takes_a_pod_that_asks_for_nothing() -> None:
    engine = Engine(cluster_of(gpu_node("none")))
    for uid in "abc":
        engine.cluster.place(pod_of(uid, Container("app", sized({"cpu": 14}))), "n0")
    assert engine.decide(pod("free")).node == "n0"
    assert told(engine, pod("cpu", 1)) == {"Insufficient cpu": 1}


# Storms


def test_a_template_is_held_off_the_node_that_refused_it() -> None:
    guard = StormGuard()
    engine = Engine(cluster_of(gpu_node(), gpu_node()), guard=guard)
    stream = [owned(pod(uid, 2), "StatefulSet", "trainer") for uid in "abc"]
    decision = engine.decide(stream[0])
    assert decision.node == "n0"
    guard.refused(stream[0], engine.cluster.by_name["n0"], "TopologyAffinityError", 0)
    assert placed(engine, stream[1]) == ["n1"]
    # Other templates are not concerned.
    assert [answer.admitted for answer in engine.ask(stream[2])] == [False, True]
    other = owned(pod("z", 2), "StatefulSet", "other")
    assert [answer.admitted for answer in engine.ask(other)] == [True, True]


def test_when_all_nodes_are_held_the_refusal_says_so() -> None:
    guard = StormGuard()
    engine = Engine(cluster_of(gpu_node()), guard=guard)
    refused = owned(pod("a", 2), "StatefulSet", "trainer")
    guard.refused(refused, engine.cluster.members[0], "TopologyAffinityError", 0)
    assert engine.decide(refused).reasons == ((HELD, 1),)
