from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from numaware.diagnose.texts import say
from numaware.kube.topology import volcano
from numaware.kube.topology.report import Report
from numaware.serve.cluster_cache import ClusterCache
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.cache_world import (
    Clock,
    cache_of,
    complete,
    counted,
    ended,
    free_cpus,
    live_node,
    live_pod,
    twin,
)
from support.twin_nodes import GI, GPU, admitted, config, container, cpus_of, machine, pod, pod_of


def fresh(policy: str = "restricted", nodes: int = 2) -> Node:
    """Two NUMA nodes of four CPUs, the first CPU the system's."""
    return Node.fresh(machine(nodes, 4), config(policy))


def decided(cache: ClusterCache, asking: Pod) -> str | None:
    return cache.engine.decide(asking).node


def why(cache: ClusterCache, asking: Pod) -> str:
    return say(cache.engine.decide(asking).reasons[0][0])


EASY = pod_of("easy")
LAST = "from v1.18 on (expected a form such as v1.35.0)"


# A node that our agent tells all of


def test_a_node_with_a_report_of_ours_is_placed_by_its_twin() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(admitted(node, pod("a", 3)), generation=4))
    assert free_cpus(cache) == "4-7"
    assert decided(cache, pod("b", 4)) == "n1"
    assert decided(cache, pod("b", 5)) is None
    known = cache.knowledge("n1")
    assert known is not None
    assert (known.level, known.source, known.generation, known.problem) == ("complete", "numaware", 4, "")


def test_a_cluster_of_many_releases_is_judged_node_by_node() -> None:
    """GPUs on one NUMA node, more CPUs than it has: v1.36 and later stay there as far as they can, and so did kubelets before v1.24."""
    hardware = machine(2, 4, devices={GPU: {"g0": (0,), "g1": (0,)}})
    versions = {
        "old": "v1.23.17",
        "n25": "v1.25.16",
        "n34": "v1.34.11",
        "n36": "v1.36.4",
        "n37": "v1.37.1",
        "new": "v1.39.0",
    }
    nodes = {name: Node.fresh(hardware, config("best-effort", version=of)) for name, of in versions.items()}
    cache = cache_of(*(live_node(node, name, f"u-{name}") for name, node in nodes.items()))
    for name, node in nodes.items():
        cache.put_report(complete(node, name))
    known = {name: member.node for name, member in cache.engine.cluster.by_name.items()}
    assert {name: node.kubelet.config.version for name, node in known.items()} == versions
    placed = {name: cpus_of(admitted(node, pod("a", 6, gpu=1)), "a") for name, node in known.items()}
    wide, there = "1-2,4-7", "1-6"
    assert placed == {"old": there, "n25": wide, "n34": wide, "n36": there, "n37": there, "new": there}
    # Wherever the engine sends it, what is then held is what that node's kubelet gives.
    decision = cache.engine.decide(pod("a", 6, gpu=1))
    assert decision.node is not None
    cache.engine.bind(decision)
    assert cpus_of(cache.engine.cluster.by_name[decision.node].node, "a") == placed[decision.node]


def test_a_pod_that_only_the_report_knows_holds_its_cpus() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(admitted(node, pod("a", 3))))
    assert free_cpus(cache) == "4-7"
    cache.put_pod(live_pod(pod("a", 3)))
    assert free_cpus(cache) == "4-7"
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 3000


def test_a_bound_pod_holds_what_its_kubelet_will_give_it_until_a_report_shows_it() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(live_pod(pod("a", 3)))
    assert free_cpus(cache) == "4-7"
    known = cache.knowledge("n1")
    assert known is not None
    assert known.waiting == ("a",)
    elsewhere = admitted(node, pod("x", 2), pod("a", 3)).release("x")
    cache.put_report(complete(elsewhere, generation=2))
    assert (free_cpus(cache), cpus_of(twin(cache), "a")) == ("1-3,7", "4-6")
    known = cache.knowledge("n1")
    assert known is not None
    assert known.waiting == ()


def test_a_report_that_confirms_what_was_predicted_changes_nothing() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(live_pod(pod("a", 3)))
    serial = cache.engine.cluster.serial
    assert cache.put_report(complete(admitted(node, pod("a", 3)), generation=2)) == set()
    assert cache.engine.cluster.serial == serial


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing_whatever_the_report_still_shows(phase: str) -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_pod(live_pod(pod("a", 3)))
    cache.put_report(complete(admitted(node, pod("a", 3))))
    cache.put_pod(ended(live_pod(pod("a", 3)), phase))
    assert free_cpus(cache) == "1-7"
    cache.put_report(complete(admitted(node, pod("a", 3)), generation=2))
    assert free_cpus(cache) == "1-7"


def test_a_deleted_pod_holds_nothing() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(live_pod(pod("a", 3)))
    cache.drop_pod("a")
    assert free_cpus(cache) == "1-7"


def test_a_pod_that_came_beside_one_that_went_stays_where_it_was_put() -> None:
    """The report is from before both; without the one that went, the other would have had its place."""
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(live_pod(pod("a", 3)))
    cache.put_pod(live_pod(pod("b", 3)))
    cache.drop_pod("a")
    assert cpus_of(twin(cache), "b") == "4-6"
    cache.put_report(complete(node, generation=2))
    assert cpus_of(twin(cache), "b") == "4-6"
    cache.put_report(complete(admitted(node, pod("a", 3)), generation=3))
    assert (cpus_of(twin(cache), "b"), free_cpus(cache)) == ("4-6", "1-3,7")


def test_a_pod_that_its_kubelet_refused_never_held_anything() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    first = live_pod(pod("a", 3))
    cache.put_pod(first)
    cache.put_pod(live_pod(pod("b", 3)))
    cache.put_pod(ended(first, "Failed", "TopologyAffinityError"))
    assert cpus_of(twin(cache), "b") == "1-3"


def test_a_pod_that_cannot_have_been_taken_keeps_owners_off_until_it_is_known_what_it_holds() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(admitted(node, pod("a", 3), pod("b", 3))))
    cache.put_pod(live_pod(pod("foreign", 4)))
    assert decided(cache, pod("c", 1)) is None
    assert decided(cache, EASY) == "n1"
    known = cache.knowledge("n1")
    assert known is not None
    assert known.astray == ("foreign",)
    cache.put_pod(ended(live_pod(pod("foreign", 4)), "Failed", "TopologyAffinityError"))
    assert decided(cache, pod("c", 1)) == "n1"


def test_a_report_of_an_earlier_node_of_the_same_name_is_not_believed() -> None:
    node = fresh()
    cache = cache_of(live_node(node, uid="new"))
    cache.put_report(replace(complete(node), owner="old"))
    assert cache.problems == {"n1": "numaware: tells of an earlier node of this name"}
    assert decided(cache, pod("a", 1)) is None


# Pods that we bind


def assumed(cache: ClusterCache, asking: Pod, node: str = "n1") -> None:
    decision = cache.engine.decide(asking)
    assert decision.node == node
    assert cache.engine.cluster.by_name[node].node.admit(asking).admitted
    cache.assume(live_pod(asking, node=""), decision)


def test_an_assumed_pod_is_on_its_node_until_the_api_server_says_otherwise() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    assumed(cache, pod("a", 3))
    assert free_cpus(cache) == "4-7"
    assert cache.put_pod(live_pod(pod("a", 3), node="")) == set()
    assert free_cpus(cache) == "4-7"
    assert cache.put_pod(live_pod(pod("a", 3))) == set()
    cache.forget("a")
    assert free_cpus(cache) == "4-7"


def test_a_pod_is_nominated_to_a_node_until_it_is_bound_leaves_or_is_nominated_no_longer() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    wants = replace(live_pod(pod("a", 3), node=""), nominated="n1")
    for last in (
        replace(wants, nominated=""),
        live_pod(pod("a", 3), node="n1"),
        replace(wants, deletion=datetime(2026, 11, 19, tzinfo=UTC)),
        replace(wants, phase="Failed"),
        None,
    ):
        assert cache.put_pod(wants) == {"n1"}
        assert [*cache.engine.nominations.nodes] == ["n1"]
        assert "n1" in (cache.put_pod(last) if last else cache.drop_pod("a"))
        assert not cache.engine.nominations.nodes
        cache.drop_pod("a")
    assert cache.put_pod(replace(wants, nominated="gone")) == set()


def test_a_pod_that_could_not_be_bound_was_never_there() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    assumed(cache, pod("a", 3))
    assumed(cache, pod("b", 3))
    assert cache.forget("a") == {"n1"}
    assert (cpus_of(twin(cache), "b"), free_cpus(cache)) == ("1-3", "4-7")
    assert cache.forget("a") == set()


def test_an_assumed_pod_that_is_deleted_was_never_there() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    assumed(cache, pod("a", 3))
    cache.drop_pod("a")
    assert free_cpus(cache) == "1-7"


def test_a_pod_that_somebody_else_bound_elsewhere_is_there() -> None:
    node = fresh()
    cache = cache_of(live_node(node), live_node(node, "n2", "u2"))
    cache.put_report(complete(node))
    cache.put_report(complete(node, "n2"))
    assumed(cache, pod("a", 3))
    assert cache.put_pod(live_pod(pod("a", 3), node="n2")) == {"n1", "n2"}
    assert (free_cpus(cache, "n1"), free_cpus(cache, "n2")) == ("1-7", "4-7")


def test_a_pod_that_somebody_else_bound_comes_before_those_that_are_only_assumed() -> None:
    """The API server tells of bound pods in the order in which they were bound, and kubelets take them in that order."""
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    ours = live_pod(pod("ours", 3), node="")
    cache.assume(ours, cache.engine.decide(ours.pod))
    assert cpus_of(twin(cache), "ours") == "1-3"
    assert cache.put_pod(live_pod(pod("theirs", 3))) == {"n1"}
    assert (cpus_of(twin(cache), "theirs"), cpus_of(twin(cache), "ours")) == ("1-3", "4-6")
    cache.put_pod(live_pod(pod("ours", 3), second=1))
    cache.put_pod(live_pod(pod("last", 1), second=2))
    assert (cpus_of(twin(cache), "ours"), cpus_of(twin(cache), "last")) == ("4-6", "7")


def test_an_assumed_pod_that_does_not_fit_beside_anothers_holds_nothing_for_certain() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    ours = live_pod(pod("ours", 4), node="")
    cache.assume(ours, cache.engine.decide(ours.pod))
    cache.put_pod(live_pod(pod("theirs", 4)))
    assert cpus_of(twin(cache), "theirs") == "4-7"
    known = cache.knowledge("n1")
    assert known is not None
    assert known.astray == ("ours",)


def test_a_report_taken_before_an_assumed_pod_came_does_not_free_it() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    assumed(cache, pod("a", 3))
    cache.put_report(complete(node, generation=2))
    assert free_cpus(cache) == "4-7"


def test_labels_that_come_with_the_binding_move_nothing() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    assumed(cache, pod("a", 3))
    assumed(cache, pod("b", 3))
    scheduling = replace(pod("a", 3).scheduling, labels=(("zone", "here"),))
    cache.put_pod(live_pod(replace(pod("a", 3), scheduling=scheduling)))
    assert (cpus_of(twin(cache), "a"), cpus_of(twin(cache), "b")) == ("1-3", "4-6")
    assert twin(cache).state.pods["a"].scheduling.labels == (("zone", "here"),)


# Nodes


def test_a_node_that_is_gone_takes_its_pods_along_and_may_come_back() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(live_pod(pod("a", 3)))
    assert cache.drop_node("n1") == {"n1"}
    assert len(cache.engine.cluster) == 0
    cache.put_pod(live_pod(pod("b", 3)))
    cache.put_node(live_node(node))
    assert free_cpus(cache) == "7"


def test_only_what_has_changed_is_told() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    live = live_node(node)
    # A status that is written again and says the same.
    assert cache.put_node(live_node(node)) == set()
    assert cache.put_node(replace(live, unschedulable=True)) == {"n1"}
    assert decided(cache, pod("a", 1)) is None


def test_pods_that_are_listed_are_taken_in_the_order_of_their_binding() -> None:
    node = fresh()
    cache = cache_of()
    cache.pause()
    cache.put_pod(live_pod(pod("a", 3), second=2))
    cache.put_pod(live_pod(pod("b", 3), second=1))
    cache.put_node(live_node(node))
    cache.put_report(complete(node))
    assert len(cache.engine.cluster) == 0
    assert cache.resume() == {"n1"}
    assert (cpus_of(twin(cache), "a"), cpus_of(twin(cache), "b")) == ("4-6", "1-3")


# Nodes that others count


def test_counts_with_a_fingerprint_say_whom_they_have_counted() -> None:
    node = fresh("single-numa-node")
    cache = cache_of(live_node(node))
    for asking in (pod("a", 2), pod("idle"), pod("b", 2)):
        cache.put_pod(live_pod(asking))
    cache.put_report(counted(admitted(node, pod("a", 2))))
    known = cache.knowledge("n1")
    assert known is not None
    assert (known.level, known.current, known.waiting) == ("counts", True, ("b",))
    assert decided(cache, pod("c", 4)) is None
    assert decided(cache, pod("c", 2)) == "n1"
    cache.put_report(counted(admitted(node, pod("a", 2), pod("b", 2))))
    known = cache.knowledge("n1")
    assert known is not None
    assert known.waiting == ()


def test_counts_of_other_pods_than_are_known_promise_nothing_to_owners() -> None:
    node = fresh("single-numa-node")
    cache = cache_of(live_node(node))
    cache.put_report(counted(admitted(node, pod("stranger", 2))))
    known = cache.knowledge("n1")
    assert known is not None
    assert not known.current
    assert "what has changed since the last report" in why(cache, pod("a", 2))
    assert decided(cache, EASY) == "n1"
    cache.put_pod(live_pod(pod("stranger", 2)))
    assert decided(cache, pod("a", 2)) == "n1"


def test_counts_that_do_not_say_whom_they_counted_are_believed_when_they_had_the_time() -> None:
    node = fresh("single-numa-node")
    clock = Clock()
    cache = cache_of(live_node(node), clock=clock)
    cache.put_report(counted(node, fingerprint=False))
    cache.put_pod(live_pod(pod("a", 2)))
    clock.now += 30
    cache.put_report(counted(admitted(node, pod("a", 2)), fingerprint=False))
    known = cache.knowledge("n1")
    assert known is not None
    assert known.waiting == ("a",)
    # Counted twice for the time being: CPUs 1-4, at worst.
    assert decided(cache, pod("b", 4)) is None
    clock.now += 59
    assert cache.refresh() == set()
    clock.now += 1
    assert cache.refresh() == {"n1"}
    known = cache.knowledge("n1")
    assert known is not None
    assert known.waiting == ()
    assert decided(cache, pod("b", 4)) == "n1"


def test_what_kai_says_of_its_pods_is_taken_off_the_counts() -> None:
    node = fresh("single-numa-node")
    cache = cache_of(live_node(node))
    cache.put_report(counted(node))
    told = '[{"zone":"node-1","amount":{"cpu":"3"}}]'
    cache.put_pod(live_pod(pod("kai", 3), kai_observed=told))
    assert decided(cache, pod("a", 4)) is None
    assert decided(cache, pod("a", 2)) == "n1"
    known = cache.knowledge("n1")
    assert known is not None
    assert (known.waiting, known.astray) == ((), ())


def test_volcano_tells_policies_but_not_enough_to_promise_anything() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(_volcano(node))
    known = cache.knowledge("n1")
    assert known is not None
    assert (known.level, known.source) == ("counts", "volcano")
    facts = cache.engine.cluster.by_name["n1"].facts
    assert (facts.topology_policy, facts.cpu_policy) == ("restricted", "static")
    assert "of which Volcano does not tell" in why(cache, pod("a", 1))
    cache.put_report(counted(node))
    assert decided(cache, pod("a", 1)) == "n1"
    assert cache.engine.cluster.by_name["n1"].facts.cpu_policy == "static"


def _volcano(node: Node) -> Report:
    return volcano.decode(msgspec.json.encode(volcano.encode("n1", node)))


# Nodes that nobody tells of


def test_where_nobody_tells_pods_that_own_nothing_go_by_totals() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    half = pod_of("half", container("app", {"memory": GI}))
    assert decided(cache, EASY) == "n1"
    assert decided(cache, half) == "n1"
    assert "the NUMA nodes, of which nobody tells" in why(cache, pod("a", 1))
    gpu = pod_of("gpu", container("app", {GPU: 1}))
    cache.put_node(replace(live_node(node), allocatable=(("cpu", 4000), (GPU, 10**9), ("pods", 3))))
    assert "the NUMA nodes, of which nobody tells" in why(cache, gpu)
    for number in range(3):
        cache.put_pod(live_pod(pod_of(f"p{number}", container("app", {}))))
    assert why(cache, EASY) == "Too many pods"


def test_a_node_with_nothing_and_one_that_makes_no_sense_are_nodes_all_the_same() -> None:
    node = fresh()
    cache = cache_of(
        replace(live_node(node), allocatable=(), capacity=()),
        replace(live_node(node, "n2"), kubelet_version="nightly"),
    )
    assert decided(cache, EASY) == "n2"
    assert cache.problems == {
        "n2": "the node's own status makes no sense: 'nightly' is not a kubelet version " + LAST
    }


@pytest.mark.parametrize(
    "problem",
    ["NUMA ids have gaps (0, 3)", "available of cpu of node-0 is below zero: -1", "lists 10000 zones"],
)
def test_a_bad_report_marks_its_node_and_the_rest_goes_on(problem: str) -> None:
    node = fresh()
    cache = cache_of(live_node(node), live_node(node, "n2", "u2"))
    cache.put_report(complete(node))
    cache.put_report(complete(node, "n2"))
    cache.put_report(Report("n1", "9", "unknown", problem=problem))
    assert cache.problems == {"n1": f"unknown: {problem}"}
    assert decided(cache, pod("a", 4)) == "n2"
    known = cache.knowledge("n1")
    assert known is not None
    assert known.level == "none"
    cache.put_report(complete(node))
    assert cache.problems == {}


def test_a_report_that_is_gone_leaves_a_node_that_nobody_tells_of() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    report = complete(node)
    cache.put_report(report)
    assert cache.drop_report(report) == {"n1"}
    assert decided(cache, pod("a", 1)) is None
    assert cache.drop_report(report) == set()


def test_an_extender_is_told_where_nobody_knows() -> None:
    node = fresh("single-numa-node")
    cache = cache_of(live_node(node))
    assert [answer.is_unknown for answer in cache.engine.ask(pod("a", 1), ["n1", "nobody"])] == [True, True]
    cache.put_report(complete(node))
    (full,) = cache.engine.ask(pod("a", 5))
    assert (full.admitted, full.is_unknown) == (False, False)


def test_a_pod_bound_where_nobody_knows_is_counted() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    waiting = live_pod(pod("a", 3), node="")
    cache.put_pod(waiting)
    assert cache.pod("a") is waiting
    cache.assume_blindly(waiting, "n1")
    assert not cache.is_bound("a")
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 3000
    cache.put_pod(live_pod(pod("a", 3)))
    assert cache.is_bound("a")
