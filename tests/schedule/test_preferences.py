"""What pods would rather have: replicas that spread as kube-scheduler spreads them, images, and what stays first."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.filters.soft_spread import HOST
from numaware.schedule.node_images import NodeImages
from numaware.schedule.preference_scores import balance_gained, balanced_score, least_allocated_score
from numaware.workload.pod import Container, Pod
from numaware.workload.scheduling import NodeRules, Owner, Requirement, Scheduling, Selector, SpreadRule
from support.small_clusters import facts_of, gpu_node, share_pod
from support.twin_nodes import container, pod, pod_of

ZONE = "topology.kubernetes.io/zone"
WEB = (("app", "web"),)
ALL_WEB = Selector((Requirement("app", "In", ("web",)),))
OWNER = (Owner("ReplicaSet", "web", controller=True),)
MIB = 1 << 20


def hosts(number: int, zones: int = 1) -> Cluster:
    node = gpu_node()
    cluster = Cluster(
        (facts_of(f"n{each}", node, labels=((HOST, f"n{each}"), (ZONE, f"z{each % zones}"))), node)
        for each in range(number)
    )
    cluster.selectors.set_owner(("ReplicaSet", "default", "web"), ALL_WEB)
    return cluster


def shared(name: str, milli: int = 100, **scheduling: object) -> Pod:
    """A pod that owns nothing of a node."""
    asked = (("cpu", milli * 10**6), ("memory", 100 * MIB * 10**9))
    found = pod_of(name, Container("app", asked))
    return replace(found, scheduling=Scheduling(**scheduling))  # type: ignore[arg-type] # its own fields


def replica(name: str, milli: int = 100) -> Pod:
    return shared(name, milli, labels=WEB, owners=OWNER)


def went(engine: Engine, *pods: Pod) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in pods:
        decision = engine.decide(each)
        assert decision.node is not None
        engine.reserve(decision)
        found[decision.node] += 1
    return found


def test_nine_replicas_on_four_nodes_spread() -> None:
    """They went 6/1/1/1, where kube-scheduler has 2/2/3/2."""
    found = went(Engine(hosts(4)), *(replica(f"r{number}") for number in range(9)))
    assert sorted(found.values()) == [2, 2, 2, 3]


def test_replicas_spread_over_zones_too() -> None:
    cluster = hosts(5, zones=2)
    found = went(Engine(cluster), *(replica(f"r{number}") for number in range(6)))
    by_zone = Counter(dict.fromkeys(("z0", "z1"), 0))
    for name, number in found.items():
        by_zone[dict(cluster.by_name[name].facts.labels)[ZONE]] += number
    assert by_zone == {"z0": 3, "z1": 3}


def test_those_a_service_selects_are_replicas_too() -> None:
    cluster = hosts(3)
    cluster.selectors.set_owner(("ReplicaSet", "default", "web"), None)
    lonely = Engine(cluster).decide(shared("a", labels=WEB))
    cluster.selectors.set_service("default", "web", {"app": "web"})
    engine = Engine(cluster)
    found = went(engine, *(shared(f"a{number}", labels=WEB) for number in range(3)))
    assert lonely.node == "n0"
    assert sorted(found.values()) == [1, 1, 1]
    cluster.selectors.set_service("default", "web", None)
    assert cluster.selectors.default_spread(shared("b", labels=WEB)) == ()


def test_replicas_that_are_being_deleted_count_no_more() -> None:
    cluster = hosts(2)
    engine = Engine(cluster)
    went(engine, replica("old", 400))
    assert engine.decide(replica("new")).node == "n1"
    cluster.placed_pods.set_leaving("old", leaving=True)
    first = engine.decide(replica("new"))
    assert first.node == "n1", "of two that have none the one with less on it"
    went(engine, replica("one"))
    assert engine.decide(replica("two")).node == "n0"
    cluster.placed_pods.set_leaving("old", leaving=False)
    rules = replace(replica("hard"), scheduling=Scheduling(labels=WEB, spread=(hard(),)))
    assert cluster.placed_pods.rules_for(rules) is not None


def hard() -> SpreadRule:
    return SpreadRule(HOST, 1, hard=True, selector=ALL_WEB)


def test_nodes_that_are_gone_are_forgotten() -> None:
    cluster = hosts(3)
    engine = Engine(cluster)
    went(engine, replica("r0"))
    for name in ("n0", "n1"):
        cluster.drop(name)
    went(engine, replica("r1"))
    assert {*engine._preferences._asked} == {"n2"}
    assert [{*known} for known in engine._preferences._points.values()] == [{"n2"}]


def test_a_soft_rule_of_its_own_takes_the_place_of_the_default() -> None:
    """By zone alone: two nodes of one zone are the same to it."""
    cluster = hosts(4, zones=2)
    rule = SpreadRule(ZONE, 1, hard=False, selector=ALL_WEB)
    engine = Engine(cluster)
    went(engine, replica("r0"))
    found = engine.decide(shared("r1", labels=WEB, owners=OWNER, spread=(rule,)))
    assert found.node in ("n1", "n3")


def test_nodes_without_the_label_of_a_rule_of_its_own_come_last() -> None:
    node = gpu_node()
    cluster = Cluster(
        (facts_of(name, node, labels=labels), node) for name, labels in (("a", ()), ("b", ((ZONE, "z"),)))
    )
    rule = SpreadRule(ZONE, 1, hard=False, selector=ALL_WEB)
    assert Engine(cluster).decide(shared("r", labels=WEB, spread=(rule,))).node == "b"


def test_pods_that_own_cpus_are_aligned_and_packed_first() -> None:
    """What kube-scheduler does unasked would break up the room that large jobs need."""
    replicas = Scheduling(labels=WEB, owners=OWNER)
    plain = [pod(f"e{number}", 2) for number in range(6)]
    assert went(Engine(hosts(4)), *(replace(each, scheduling=replicas) for each in plain)) == went(
        Engine(hosts(4)), *plain
    )
    shares = [share_pod(f"s{number}", 300) for number in range(3)]
    assert went(Engine(hosts(4)), *(replace(each, scheduling=replicas) for each in shares)) == {"n0": 3}
    # What such a pod asks for itself counts.
    engine = Engine(hosts(4))
    first = engine.decide(plain[0])
    went(engine, replica("there"))
    assert first.node == "n0"
    rule = SpreadRule(HOST, 1, hard=False, selector=ALL_WEB)
    assert engine.decide(replace(plain[0], scheduling=Scheduling(labels=WEB, spread=(rule,)))).node == "n1"


def test_of_equal_nodes_the_one_with_the_images_is_taken() -> None:
    for cached in (True, False):
        cluster = hosts(3)
        engine = Engine(cluster, cached=cached)
        wants = Scheduling(images=("train:v1",))
        assert engine.decide(replace(pod("p", 2), scheduling=wants)).node == "n0"
        cluster.images.set_node("n2", [("train:v1", 900 * MIB), ("other:v1", MIB)])
        assert engine.decide(replace(pod("p", 2), scheduling=wants)).node == "n2"
        # Where the profile would rather have it, it goes all the same.
        went(engine, replace(pod("beside", 6), scheduling=wants))
        cluster.images.set_node("n2", [])
        cluster.images.set_node("n1", [("train:v1", 900 * MIB)])
        assert engine.decide(replace(pod("p", 1), scheduling=wants)).node == "n2"


def test_images_count_as_in_kube_scheduler() -> None:
    """calculatePriority: 23 MiB are nothing, 1000 MiB a container are all; the rarer, the less (scaledImageScore)."""
    images = NodeImages()
    images.set_node("a", [("x:v1", 500 * MIB), ("y:v1", 40 * MIB)])
    images.set_node("b", [("x:v1", 500 * MIB)])
    assert images.points(("x:v1",), 2) == {"a": 48, "b": 48}
    assert images.points(("x:v1", "y:v1"), 2) == {"a": 25, "b": 24}
    assert images.points(("y:v1",), 2) == {}
    assert images.points(("x:v1",), 4) == {"a": 23, "b": 23}
    assert images.points((), 2) == images.points(("z:v1",), 2) == {}
    images.set_node("b", ())
    assert images.points(("x:v1",), 2) == {"a": 23}


@pytest.mark.parametrize(
    ("requested", "allocatable", "least", "balanced"),
    [
        ((1000, 1000), (4000, 2000), 62, 87),
        ((0, 0), (4000, 2000), 100, 100),
        ((5000, 1000), (4000, 2000), 25, 75),
        ((1000, 0), (4000, 0), 75, 100),
        ((1000, 1000), (0, 0), 0, 100),
    ],
)
def test_resources_are_scored_as_kube_scheduler_does(
    requested: tuple[int, int], allocatable: tuple[int, int], least: int, balanced: int
) -> None:
    assert least_allocated_score(requested, allocatable) == least
    assert balanced_score(requested, allocatable) == balanced


@pytest.mark.parametrize(
    ("before", "after", "gained"), [(100, 87, 68), (62, 75, 81), (50, 100, 100), (100, 50, 50)]
)
def test_v1_36_counts_what_a_pod_does_for_the_balance(before: int, after: int, gained: int) -> None:
    assert balance_gained(before, after) == gained


@pytest.mark.parametrize(
    ("version", "node"),
    [("v1.35.8", "n0"), ("v1.36.1-gke.100", "n1"), ("v1.99.0", "n1"), ("of my own", "n1")],
)
def test_the_balance_counts_as_in_the_release_of_the_api_server(version: str, node: str) -> None:
    """A pod for memory leaves both nodes as far from their balance: n1, which many CPUs are asked of, comes nearer to it."""
    cluster = hosts(2)
    cluster.follow_release(version)
    engine = Engine(cluster)
    for name, cpus, gibs in (("n0", 3_750, 32), ("n1", 7_500, 0)):
        there = shared(f"on-{name}", node=NodeRules(node_name=name))
        went(engine, replace(there, containers=(Container("app", asking(cpus, gibs)),)))
    found = engine.decide(replace(replica("new"), containers=(Container("app", asking(1, 32)),)))
    assert found.node == node


def asking(milli: int, gibs: int) -> tuple[tuple[str, int], ...]:
    return ("cpu", milli * 10**6), ("memory", (gibs << 30) * 10**9)


def test_replicas_go_where_more_is_free_and_pods_that_ask_for_nothing_count_a_little() -> None:
    cluster = hosts(2)
    engine = Engine(cluster)
    crowd = [
        replace(
            Pod(f"b{number}", uid=f"b{number}", containers=(container("app"),)),
            scheduling=Scheduling(node=NodeRules(node_name="n0")),
        )
        for number in range(8)
    ]
    assert went(engine, *crowd) == {"n0": 8}
    assert engine.decide(replica("r", 1500)).node == "n1"
