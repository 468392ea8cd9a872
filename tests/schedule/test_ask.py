from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.schedule import evaluation
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.filters import GATED
from numaware.schedule.node_facts import Taint
from numaware.schedule.profile import Profile
from numaware.schedule.storm import HELD, StormGuard
from numaware.workload.scheduling import Scheduling
from support.small_clusters import cluster_of, facts_of, gpu_node
from support.twin_nodes import pod


def test_only_the_nodes_asked_about_answer_and_in_that_order() -> None:
    full = gpu_node().admit(pod("x", 8)).node.admit(pod("y", 7)).node
    engine = Engine(cluster_of(gpu_node(), gpu_node(), full))
    assert [bool(found.reasons) for found in engine.ask(pod("p", 4), ["n2", "n0"])] == [True, False]


def test_a_node_says_by_its_kubelet_whether_it_takes_the_pod() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node"), gpu_node("none")))
    strict, lax = engine.ask(pod("p", 12), ["n0", "n1"])
    assert strict.reasons == (Reason("numa-alignment", ("single-numa-node",)),)
    assert lax.admitted


def test_what_keeps_a_pod_off_every_node_is_every_nodes_answer() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    gated = replace(pod("p", 4), scheduling=Scheduling(gates=("quota",)))
    assert [answer.reasons for answer in engine.ask(gated)] == [(GATED,), (GATED,)]
    claiming = replace(pod("p", 4), scheduling=Scheduling(claims=("data",)))
    assert [[reason.code for reason in answer.reasons] for answer in engine.ask(claiming)] == [["claims"]] * 2


def test_an_answer_says_what_a_decision_says() -> None:
    node = gpu_node()
    facts = facts_of("n0", node, taints=(Taint("dedicated", "x", "NoSchedule"),))
    engine = Engine(Cluster([(facts, node)]))
    (answer,) = engine.ask(pod("p", 4))
    assert engine.decide(pod("p", 4)).reasons == tuple((reason, 1) for reason in answer.reasons)
    assert answer.reasons == (Reason("untolerated-taint", ("dedicated", "x")),)


def test_a_node_that_nobody_knows_is_told_so() -> None:
    (found,) = Engine(cluster_of(gpu_node())).ask(pod("p", 4), ["stranger"])
    assert found.reasons == (Reason("node-unknown"),)


def test_an_answer_sees_every_change_at_once() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    asked = pod("b", 8)
    assert [found.reasons for found in engine.ask(asked, ["n0"])] == [()]
    assert engine.bind(engine.decide(pod("a", 8))).admitted
    (after,) = engine.ask(asked, ["n0"])
    assert after.reasons
    engine.cluster.release("a")
    engine.cluster.drop("n0")
    (gone,) = engine.ask(asked, ["n0"])
    assert gone.reasons == (Reason("node-unknown"),)


def test_a_template_that_a_node_has_refused_is_held_off_it() -> None:
    guard = StormGuard()
    engine = Engine(cluster_of(gpu_node(), gpu_node()), guard=guard)
    guard.refused(pod("a", 4), engine.cluster.by_name["n0"], "TopologyAffinityError", 0)
    first, second = engine.ask(pod("a", 4), ["n0", "n1"])
    assert (first.reasons, second.reasons) == ((HELD,), ())


def test_pods_are_scored_by_the_profile_of_the_scheduler_they_name() -> None:
    packs = Profile(medium=(("most-allocated", 1),))
    spreads = Profile(medium=(("least-allocated", 1),))
    engine = Engine(cluster_of(gpu_node(), gpu_node()), packs, profiles={"spread": spreads})
    assert engine.bind(engine.decide(pod("a", 2))).admitted
    asked = pod("b", 2)
    assert engine.decide(asked).node == "n0"
    assert engine.decide(replace(asked, scheduling=Scheduling(scheduler="spread"))).node == "n1"
    assert engine.decide(replace(asked, scheduling=Scheduling(scheduler="another"))).node == "n0"


def test_an_engine_that_is_only_asked_does_not_remember_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size of pod is a kind of its own; one that decides forgets as well."""
    monkeypatch.setattr(evaluation, "_MOST_ANSWERS", 3)
    engine = Engine(cluster_of(gpu_node()))
    seen = []
    for cpus in range(1, 9):
        assert len(engine.ask(pod("p", cpus), ["n0"])) == 1
        seen.append(engine._evaluators[""]._kept)
    assert max(seen) == 3
