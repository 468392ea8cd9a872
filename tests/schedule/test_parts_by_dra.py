"""A resource that DRA serves is left to kube-scheduler where the node has none to count, and only there."""

from __future__ import annotations

from msgspec.structs import replace

from numaware.diagnose.texts import say
from numaware.schedule.cluster import Cluster
from numaware.schedule.cures import cures
from numaware.schedule.engine import Engine
from numaware.schedule.message import refusal
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.parts_by_dra import asks_on, served_on
from numaware.schedule.tried_changes import explained_by
from numaware.twin.node import Node
from numaware.workload.dra.objects import DeviceClass
from numaware.workload.scheduling import PodClaim, Scheduling
from support.twin_nodes import GI, config, container, machine, pod, pod_of

RESOURCE = "d.io/gpu"
CLASS = DeviceClass("gpu", RESOURCE, ("d.io",))
WANTS = pod_of("a", container("app", {"cpu": 4, "memory": GI, RESOURCE: 1}))


def cluster() -> Cluster:
    """A node with a device plugin, one without, and one that is too small."""
    plugin = Node.fresh(machine(2, 8, devices={RESOURCE: {"g0": (1,)}}), config("single-numa-node"))
    plain = Node.fresh(machine(2, 8), config("single-numa-node"))
    small = Node.fresh(machine(2, 2), config("single-numa-node"))
    return Cluster(
        [(facts("plain", 16), plain), (facts("plugin", 16, 1), plugin), (facts("small", 4), small)]
    )


def facts(name: str, cpus: int, devices: int = 0) -> NodeFacts:
    own = ((RESOURCE, devices),) if devices else ()
    return NodeFacts(name, allocatable=(("cpu", 1000 * cpus), *own, ("memory", 64 * GI), ("pods", 110)))


def said(engine: Engine, *, but_for_dra: bool = False) -> dict[str, str]:
    answers = engine.ask(WANTS, but_for_dra=but_for_dra)
    return {
        member.name: ", ".join(map(say, answer.reasons))
        for member, answer in zip(engine.cluster, answers, strict=True)
    }


def test_without_a_class_a_resource_that_no_node_offers_is_missing() -> None:
    assert said(Engine(cluster()))["plain"] == f"Insufficient {RESOURCE}"


def test_with_a_class_it_waits_for_kube_scheduler_where_everything_else_fits() -> None:
    engine = Engine(cluster())
    engine.cluster.dra.put(CLASS)
    told = said(engine)
    assert told["plugin"] == ""
    assert told["plain"] == (
        f"node(s) left to kube-scheduler, which allocates what DRA serves here ({RESOURCE})"
    )
    # What would be refused anyway is.
    assert "NUMA" in told["small"] or "Insufficient" in told["small"]
    assert engine.decide(WANTS).node == "plugin"
    engine.cluster.dra.drop(CLASS)
    assert said(engine)["plain"] == f"Insufficient {RESOURCE}"


def test_whoever_leaves_claims_to_kube_scheduler_hears_of_all_the_rest() -> None:
    engine = Engine(cluster())
    engine.cluster.dra.put(CLASS)
    told = said(engine, but_for_dra=True)
    assert (told["plain"], told["plugin"], bool(told["small"])) == ("", "", True)
    claims = replace(pod("b", cpus=4), scheduling=Scheduling(resource_claims=(PodClaim("gpu"),)))
    assert [bool(answer.reasons) for answer in engine.ask(claims)] == [True, True, True]
    answers = engine.ask(claims, but_for_dra=True)
    assert [answer.admitted for answer in answers] == [True, True, False]
    assert answers[0].score
    assert [answer.admitted for answer in engine.ask(claims, ["small", "gone"], but_for_dra=True)] == [
        False,
        False,
    ]


def test_an_explanation_tells_of_the_kubelet_and_of_dra_apart() -> None:
    engine = Engine(cluster())
    engine.cluster.dra.put(CLASS)
    explanation = explained_by(engine, "plain", WANTS)
    assert explanation.admitted
    assert [part.resources for part in explanation.dra] == [(RESOURCE,)]
    assert explained_by(engine, "plugin", WANTS).dra == ()


def test_an_explanation_and_the_engine_agree_whose_a_resource_is_on_a_node() -> None:
    """Where nobody has told which devices a plugin has, the explanation said "served by DRA" of what the node offers itself."""
    engine = Engine(cluster())
    engine.cluster.put(facts("untold", 16, 1), Node.fresh(machine(2, 8), config("single-numa-node")))
    engine.cluster.dra.put(CLASS)
    for name in engine.cluster.by_name:
        served = [part.resources for part in explained_by(engine, name, WANTS).dra]
        assert served == [(one,) for one in served_on(engine.cluster, WANTS, name)]
    assert served_on(engine.cluster, WANTS, "untold") == ()


def test_nobody_waits_for_dra_where_all_nodes_offer_the_resource_themselves() -> None:
    engine = Engine(cluster())
    engine.cluster.dra.put(CLASS)
    assert asks_on(engine.cluster, WANTS, ["plugin", "gone"]) == ()
    assert [ask.resources for ask in asks_on(engine.cluster, WANTS, ["plain", "plugin"])] == [(RESOURCE,)]


def test_a_refusal_counts_the_nodes_where_dra_serves_a_resource_beside_those_that_have_too_little() -> None:
    engine = Engine(cluster())
    engine.cluster.dra.put(CLASS)
    engine.cluster.put(facts("also-plain", 16), Node.fresh(machine(2, 8), config("single-numa-node")))
    wide = pod_of("a", container("app", {"cpu": 4, "memory": GI, RESOURCE: 2}))
    words = say(refusal(engine.decide(wide), len(engine.cluster)))
    assert words.startswith("0/4 nodes are available: ")
    assert "2 node(s) left to kube-scheduler, which allocates what DRA serves here" in words
    assert f"1 Insufficient {RESOURCE}" in words


def test_who_waits_for_dra_on_some_nodes_waits_for_news_of_nodes() -> None:
    """A device plugin may start there, or the class may go: the pod itself need not change for that."""
    engine = Engine(cluster())
    engine.cluster.dra.put(CLASS)
    (answer,) = engine.ask(WANTS, ["plain"])
    assert cures(answer.reasons) == {"node"}
