from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.finding import Message
from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.filters import GATED
from numaware.schedule.message import nearest_miss, refusal
from numaware.schedule.node_facts import Taint
from numaware.schedule.partial_node import partial_node
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from numaware.workload.scheduling import Scheduling
from support.published_counts import published
from support.small_clusters import cluster_of, facts_of, gpu_node
from support.twin_nodes import GI, GPU, config, container, machine, pod, pod_of


def test_a_refusal_reads_as_kube_scheduler_writes_it() -> None:
    """Counts stand before reasons and are sorted with them, as texts: 120 comes before 40, and 40 before 80."""
    numa = Reason("numa-alignment", ("restricted",))
    reasons = ((numa, 80), (Reason("insufficient", ("cpu",)), 40), (Reason("too-many-pods"), 120))
    assert say(refusal(Decision(pod("a"), None, 0, reasons=reasons), 240)) == (
        "0/240 nodes are available: 120 Too many pods, 40 Insufficient cpu, "
        "80 node(s) could not align the pod on NUMA nodes (restricted)."
    )


def test_the_nearest_miss_stands_after_the_full_stop() -> None:
    decision = Decision(pod("a"), None, 0, reasons=((Reason("insufficient", ("cpu",)), 2),))
    nearest = Message("nearest-short", {"node": "x", "missing": [("cpu", 1)], "nodes": (0,)})
    assert say(refusal(decision, 2, nearest)) == (
        "0/2 nodes are available: 2 Insufficient cpu. nearest miss: node x is 1 CPU short on NUMA 0."
    )


def test_a_cluster_without_nodes_has_no_reasons() -> None:
    engine = Engine(Cluster([]))
    assert say(refusal(engine.decide(pod("a")), 0)) == "0/0 nodes are available:"


def test_a_pod_that_goes_somewhere_is_not_refused() -> None:
    engine = Engine(cluster_of(gpu_node()))
    assert refusal(engine.decide(pod("a", 2)), 1) == ""
    assert nearest_miss(engine, pod("a", 2)) is None


def test_a_pod_that_waits_has_no_counts() -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    gated = replace(pod("a", 2), scheduling=Scheduling(gates=("quota",)))
    claiming = replace(pod("a", 2), scheduling=Scheduling(claims=("data",)))
    assert refusal(engine.decide(gated), 2) == GATED
    assert say(refusal(engine.decide(claiming), 2)).startswith(
        "0/2 nodes are available: cannot be judged: the pod waits"
    )


# The nearest miss


def miss(engine: Engine, asking: Pod) -> str:
    assert engine.decide(asking).node is None
    found = nearest_miss(engine, asking)
    return f"nearest miss: {say(found)}" if found else ""


def test_the_node_with_the_least_missing_is_named() -> None:
    engine = Engine(cluster_of(*[gpu_node("single-numa-node")] * 2))
    for uid, cpus, name in (("a", 4, "n0"), ("b", 4, "n0"), ("c", 2, "n1"), ("d", 6, "n1")):
        engine.cluster.bind(pod(uid, cpus), name)
    # n0 has 3 and 4 CPUs left, n1 has 5 and 2.
    assert miss(engine, pod("x", 6)) == "nearest miss: node n1 is 1 CPU short on NUMA 0"


def test_one_thing_missing_is_nearer_than_two() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    for each in (pod("a", 3), pod("b", 1, gpu=2), pod("c", 5)):
        engine.cluster.bind(each, "n0")
    # Three CPUs are left on both NUMA nodes, GPUs on NUMA 1 only.
    assert miss(engine, pod("x", 4, gpu=1)) == "nearest miss: node n0 is 1 CPU short on NUMA 1"


def test_devices_without_topology_are_near_every_numa_node() -> None:
    devices = {GPU: {"g0": (), "g1": ()}}
    node = Node.fresh(machine(2, 8, devices=devices), config("single-numa-node"))
    engine = Engine(cluster_of(node))
    engine.cluster.bind(pod("a", 5), "n0")
    engine.cluster.bind(pod("b", 3), "n0")
    assert miss(engine, pod("x", 6, gpu=2)) == "nearest miss: node n0 is 1 CPU short on NUMA 1"


def test_all_that_is_missing_is_told() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    for each in (pod("a", 4, gpu=1), pod("b", 5, gpu=1)):
        engine.cluster.bind(each, "n0")
    assert miss(engine, pod("x", 4, gpu=2)) == (
        "nearest miss: node n0 is 1 CPU and 1 vendor.example/gpu short on NUMA 0"
    )


def test_memory_and_several_numa_nodes_are_told_in_words() -> None:
    engine = Engine(cluster_of(gpu_node("restricted", memory=True)))
    engine.cluster.bind(pod("a", 2, 40 * GI), "n0")
    engine.cluster.bind(pod("b", 2, 60 * GI), "n0")
    found = miss(engine, pod("x", 2, 24 * GI))
    assert found == "nearest miss: node n0 is 1 GiB of memory short on NUMA 0"


def test_where_nothing_is_short_the_cause_is_told() -> None:
    """Twelve CPUs belong on two NUMA nodes and one GPU on one: no freed amount would help."""
    engine = Engine(cluster_of(gpu_node("restricted")))
    assert miss(engine, pod("x", 12, gpu=1)) == (
        "nearest miss: node n0: 12 CPUs would fit on NUMA 0+1, but vendor.example/gpu only on NUMA 0 or NUMA 1"
    )


def test_a_node_that_is_short_is_nearer_than_one_that_could_never_take_the_pod() -> None:
    engine = Engine(cluster_of(gpu_node("restricted"), gpu_node("restricted", cpus=16)))
    engine.cluster.bind(pod("a", 13), "n1")
    engine.cluster.bind(pod("b", 6), "n1")
    assert miss(engine, pod("x", 12, gpu=1)) == "nearest miss: node n1 is 2 CPUs short on NUMA 1"


def test_the_container_that_was_refused_is_what_counts() -> None:
    """The first container takes three of the eight CPUs that are left on NUMA 1."""
    engine = Engine(cluster_of(gpu_node("single-numa-node")))
    engine.cluster.bind(pod("y", 5), "n0")
    two = pod_of("x", container("a", {"cpu": 3, "memory": 1}), container("b", {"cpu": 6, "memory": 1}))
    assert miss(engine, two) == "nearest miss: node n0 is 1 CPU short on NUMA 1"


def test_nodes_that_are_off_limits_for_other_reasons_are_no_near_miss() -> None:
    node = gpu_node("single-numa-node")
    taint = Taint("dedicated", "ai", "NoSchedule")
    engine = Engine(Cluster([(facts_of("a", node, taints=(taint,)), node)]))
    assert miss(engine, pod("x", 12)) == ""


def test_partly_known_nodes_are_no_near_miss() -> None:
    node = gpu_node("single-numa-node")
    engine = Engine(Cluster([(facts_of("a", node), partial_node(published(node, devices=True)))]))
    assert miss(engine, pod("x", 3)) == ""


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_the_whole_message_of_a_cluster(policy: str) -> None:
    engine = Engine(cluster_of(*[gpu_node(policy)] * 3, gpu_node(policy, cpus=2)))
    for name in ("n0", "n1", "n2"):
        engine.cluster.bind(pod(f"{name}-a", 2), name)
        engine.cluster.bind(pod(f"{name}-b", 3), name)
        engine.cluster.bind(pod(f"{name}-c", 4), name)
    asking = pod("x", 5)
    message = say(refusal(engine.decide(asking), len(engine.cluster), nearest_miss(engine, asking)))
    assert message == (
        "0/4 nodes are available: 1 Insufficient cpu, "
        f"3 node(s) could not align the pod on NUMA nodes ({policy}). "
        "nearest miss: node n0 is 1 CPU short on NUMA 1."
    )
