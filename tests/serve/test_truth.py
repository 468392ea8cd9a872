from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from numaware.kube.topology import volcano
from numaware.kube.topology.report import Report
from numaware.schedule.engine import UNHEARD_OF
from numaware.serve.truth import Truth, is_unknown
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from truth_world import Clock, complete, counted, ended, free_cpus, live_node, live_pod, truth_of, twin
from twin_nodes import GI, GPU, admitted, config, container, cpus_of, machine, pod, pod_of


def fresh(policy: str = "restricted", nodes: int = 2) -> Node:
    """Two NUMA nodes of four CPUs, the first CPU the system's."""
    return Node.fresh(machine(nodes, 4), config(policy))


def decided(truth: Truth, asking: Pod) -> str | None:
    return truth.engine.decide(asking).node


def why(truth: Truth, asking: Pod) -> str:
    return truth.engine.decide(asking).reasons[0][0]


EASY = pod_of("easy")
LAST = "from v1.18 on (expected a form such as v1.35.0)"


# A node that our agent tells all of


def test_a_node_with_a_report_of_ours_is_placed_by_its_twin() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(admitted(node, pod("a", 3)), generation=4))
    assert free_cpus(truth) == "4-7"
    assert decided(truth, pod("b", 4)) == "n1"
    assert decided(truth, pod("b", 5)) is None
    known = truth.knowledge("n1")
    assert known is not None
    assert (known.level, known.source, known.generation, known.problem) == ("complete", "numaware", 4, "")


def test_a_pod_that_only_the_report_knows_holds_its_cpus() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(admitted(node, pod("a", 3))))
    assert free_cpus(truth) == "4-7"
    truth.put_pod(live_pod(pod("a", 3)))
    assert free_cpus(truth) == "4-7"
    assert truth.engine.cluster.by_name["n1"].load.used["cpu"] == 3000


def test_a_bound_pod_holds_what_its_kubelet_will_give_it_until_a_report_shows_it() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    truth.put_pod(live_pod(pod("a", 3)))
    assert free_cpus(truth) == "4-7"
    known = truth.knowledge("n1")
    assert known is not None
    assert known.waiting == ("a",)
    elsewhere = admitted(node, pod("x", 2), pod("a", 3)).release("x")
    truth.put_report(complete(elsewhere, generation=2))
    assert (free_cpus(truth), cpus_of(twin(truth), "a")) == ("1-3,7", "4-6")
    known = truth.knowledge("n1")
    assert known is not None
    assert known.waiting == ()


def test_a_report_that_confirms_what_was_predicted_changes_nothing() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    truth.put_pod(live_pod(pod("a", 3)))
    serial = truth.engine.cluster.serial
    assert truth.put_report(complete(admitted(node, pod("a", 3)), generation=2)) == set()
    assert truth.engine.cluster.serial == serial


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing_whatever_the_report_still_shows(phase: str) -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_pod(live_pod(pod("a", 3)))
    truth.put_report(complete(admitted(node, pod("a", 3))))
    truth.put_pod(ended(live_pod(pod("a", 3)), phase))
    assert free_cpus(truth) == "1-7"
    truth.put_report(complete(admitted(node, pod("a", 3)), generation=2))
    assert free_cpus(truth) == "1-7"


def test_a_deleted_pod_holds_nothing() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    truth.put_pod(live_pod(pod("a", 3)))
    truth.drop_pod("a")
    assert free_cpus(truth) == "1-7"


def test_a_pod_that_came_beside_one_that_went_stays_where_it_was_put() -> None:
    """The report is from before both; without the one that went, the other would have had its place."""
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    truth.put_pod(live_pod(pod("a", 3)))
    truth.put_pod(live_pod(pod("b", 3)))
    truth.drop_pod("a")
    assert cpus_of(twin(truth), "b") == "4-6"
    truth.put_report(complete(node, generation=2))
    assert cpus_of(twin(truth), "b") == "4-6"
    truth.put_report(complete(admitted(node, pod("a", 3)), generation=3))
    assert (cpus_of(twin(truth), "b"), free_cpus(truth)) == ("4-6", "1-3,7")


def test_a_pod_that_its_kubelet_refused_never_held_anything() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    first = live_pod(pod("a", 3))
    truth.put_pod(first)
    truth.put_pod(live_pod(pod("b", 3)))
    truth.put_pod(ended(first, "Failed", "TopologyAffinityError"))
    assert cpus_of(twin(truth), "b") == "1-3"


def test_a_pod_that_cannot_have_been_taken_keeps_owners_off_until_it_is_known_what_it_holds() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(admitted(node, pod("a", 3), pod("b", 3))))
    truth.put_pod(live_pod(pod("foreign", 4)))
    assert decided(truth, pod("c", 1)) is None
    assert decided(truth, EASY) == "n1"
    known = truth.knowledge("n1")
    assert known is not None
    assert known.astray == ("foreign",)
    truth.put_pod(ended(live_pod(pod("foreign", 4)), "Failed", "TopologyAffinityError"))
    assert decided(truth, pod("c", 1)) == "n1"


def test_a_report_of_an_earlier_node_of_the_same_name_is_not_believed() -> None:
    node = fresh()
    truth = truth_of(live_node(node, uid="new"))
    truth.put_report(replace(complete(node), owner="old"))
    assert truth.problems == {"n1": "numaware: tells of an earlier node of this name"}
    assert decided(truth, pod("a", 1)) is None


# Pods that we bind


def assumed(truth: Truth, asking: Pod, node: str = "n1") -> None:
    decision = truth.engine.decide(asking)
    assert decision.node == node
    assert truth.assume(live_pod(asking, node=""), decision).admitted


def test_an_assumed_pod_is_on_its_node_until_the_api_server_says_otherwise() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    assumed(truth, pod("a", 3))
    assert free_cpus(truth) == "4-7"
    assert truth.put_pod(live_pod(pod("a", 3), node="")) == set()
    assert free_cpus(truth) == "4-7"
    assert truth.put_pod(live_pod(pod("a", 3))) == set()
    truth.forget("a")
    assert free_cpus(truth) == "4-7"


def test_a_pod_that_could_not_be_bound_was_never_there() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    assumed(truth, pod("a", 3))
    assumed(truth, pod("b", 3))
    assert truth.forget("a") == {"n1"}
    assert (cpus_of(twin(truth), "b"), free_cpus(truth)) == ("1-3", "4-7")
    assert truth.forget("a") == set()


def test_an_assumed_pod_that_is_deleted_was_never_there() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    assumed(truth, pod("a", 3))
    truth.drop_pod("a")
    assert free_cpus(truth) == "1-7"


def test_a_pod_that_somebody_else_bound_elsewhere_is_there() -> None:
    node = fresh()
    truth = truth_of(live_node(node), live_node(node, "n2", "u2"))
    truth.put_report(complete(node))
    truth.put_report(complete(node, "n2"))
    assumed(truth, pod("a", 3))
    assert truth.put_pod(live_pod(pod("a", 3), node="n2")) == {"n1", "n2"}
    assert (free_cpus(truth, "n1"), free_cpus(truth, "n2")) == ("1-7", "4-7")


def test_a_report_taken_before_an_assumed_pod_came_does_not_free_it() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    assumed(truth, pod("a", 3))
    truth.put_report(complete(node, generation=2))
    assert free_cpus(truth) == "4-7"


def test_labels_that_come_with_the_binding_move_nothing() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    assumed(truth, pod("a", 3))
    assumed(truth, pod("b", 3))
    scheduling = replace(pod("a", 3).scheduling, labels=(("zone", "here"),))
    truth.put_pod(live_pod(replace(pod("a", 3), scheduling=scheduling)))
    assert (cpus_of(twin(truth), "a"), cpus_of(twin(truth), "b")) == ("1-3", "4-6")
    assert twin(truth).state.pods["a"].scheduling.labels == (("zone", "here"),)


# Nodes


def test_a_node_that_is_gone_takes_its_pods_along_and_may_come_back() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    truth.put_pod(live_pod(pod("a", 3)))
    assert truth.drop_node("n1") == {"n1"}
    assert len(truth.engine.cluster) == 0
    truth.put_pod(live_pod(pod("b", 3)))
    truth.put_node(live_node(node))
    assert free_cpus(truth) == "7"


def test_only_what_has_changed_is_told() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(complete(node))
    live = live_node(node)
    assert truth.put_node(replace(live, version="2")) == set()
    assert truth.put_node(replace(live, unschedulable=True)) == {"n1"}
    assert decided(truth, pod("a", 1)) is None


def test_pods_that_are_listed_are_taken_in_the_order_of_their_binding() -> None:
    node = fresh()
    truth = truth_of()
    truth.pause()
    truth.put_pod(live_pod(pod("a", 3), second=2))
    truth.put_pod(live_pod(pod("b", 3), second=1))
    truth.put_node(live_node(node))
    truth.put_report(complete(node))
    assert len(truth.engine.cluster) == 0
    assert truth.resume() == {"n1"}
    assert (cpus_of(twin(truth), "a"), cpus_of(twin(truth), "b")) == ("4-6", "1-3")


# Nodes that others count


def test_counts_with_a_fingerprint_say_whom_they_have_counted() -> None:
    node = fresh("single-numa-node")
    truth = truth_of(live_node(node))
    for asking in (pod("a", 2), pod("idle"), pod("b", 2)):
        truth.put_pod(live_pod(asking))
    truth.put_report(counted(admitted(node, pod("a", 2))))
    known = truth.knowledge("n1")
    assert known is not None
    assert (known.level, known.current, known.waiting) == ("counts", True, ("b",))
    assert decided(truth, pod("c", 4)) is None
    assert decided(truth, pod("c", 2)) == "n1"
    truth.put_report(counted(admitted(node, pod("a", 2), pod("b", 2))))
    known = truth.knowledge("n1")
    assert known is not None
    assert known.waiting == ()


def test_counts_of_other_pods_than_are_known_promise_nothing_to_owners() -> None:
    node = fresh("single-numa-node")
    truth = truth_of(live_node(node))
    truth.put_report(counted(admitted(node, pod("stranger", 2))))
    known = truth.knowledge("n1")
    assert known is not None
    assert not known.current
    assert "what has changed since the last report" in why(truth, pod("a", 2))
    assert decided(truth, EASY) == "n1"
    truth.put_pod(live_pod(pod("stranger", 2)))
    assert decided(truth, pod("a", 2)) == "n1"


def test_counts_that_do_not_say_whom_they_counted_are_believed_when_they_had_the_time() -> None:
    node = fresh("single-numa-node")
    clock = Clock()
    truth = truth_of(live_node(node), clock=clock)
    truth.put_report(counted(node, fingerprint=False))
    truth.put_pod(live_pod(pod("a", 2)))
    clock.now += 30
    truth.put_report(counted(admitted(node, pod("a", 2)), fingerprint=False))
    known = truth.knowledge("n1")
    assert known is not None
    assert known.waiting == ("a",)
    # Counted twice for the time being: CPUs 1-4, at worst.
    assert decided(truth, pod("b", 4)) is None
    clock.now += 59
    assert truth.refresh() == set()
    clock.now += 1
    assert truth.refresh() == {"n1"}
    known = truth.knowledge("n1")
    assert known is not None
    assert known.waiting == ()
    assert decided(truth, pod("b", 4)) == "n1"


def test_what_kai_says_of_its_pods_is_taken_off_the_counts() -> None:
    node = fresh("single-numa-node")
    truth = truth_of(live_node(node))
    truth.put_report(counted(node))
    told = '[{"zone":"node-1","amount":{"cpu":"3"}}]'
    truth.put_pod(live_pod(pod("kai", 3), kai_observed=told))
    assert decided(truth, pod("a", 4)) is None
    assert decided(truth, pod("a", 2)) == "n1"
    known = truth.knowledge("n1")
    assert known is not None
    assert (known.waiting, known.astray) == ((), ())


def test_volcano_tells_policies_but_not_enough_to_promise_anything() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    truth.put_report(_volcano(node))
    known = truth.knowledge("n1")
    assert known is not None
    assert (known.level, known.source) == ("counts", "volcano")
    facts = truth.engine.cluster.by_name["n1"].facts
    assert (facts.topology_policy, facts.cpu_policy) == ("restricted", "static")
    assert "of which Volcano does not tell" in why(truth, pod("a", 1))
    truth.put_report(counted(node))
    assert decided(truth, pod("a", 1)) == "n1"
    assert truth.engine.cluster.by_name["n1"].facts.cpu_policy == "static"


def _volcano(node: Node) -> Report:
    return volcano.decode(msgspec.json.encode(volcano.encode("n1", node)))


# Nodes that nobody tells of


def test_where_nobody_tells_pods_that_own_nothing_go_by_totals() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    half = pod_of("half", container("app", {"memory": GI}))
    assert decided(truth, EASY) == "n1"
    assert decided(truth, half) == "n1"
    assert "the NUMA nodes, of which nobody tells" in why(truth, pod("a", 1))
    gpu = pod_of("gpu", container("app", {GPU: 1}))
    truth.put_node(replace(live_node(node), allocatable=(("cpu", 4000), (GPU, 10**9), ("pods", 3))))
    assert "the NUMA nodes, of which nobody tells" in why(truth, gpu)
    for number in range(3):
        truth.put_pod(live_pod(pod_of(f"p{number}", container("app", {}))))
    assert why(truth, EASY) == "Too many pods"


def test_a_node_with_nothing_and_one_that_makes_no_sense_are_nodes_all_the_same() -> None:
    node = fresh()
    truth = truth_of(
        replace(live_node(node), allocatable=(), capacity=()),
        replace(live_node(node, "n2"), kubelet_version="nightly"),
    )
    assert decided(truth, EASY) == "n2"
    assert truth.problems == {
        "n2": "the node's own status makes no sense: 'nightly' is not a kubelet version " + LAST
    }


@pytest.mark.parametrize(
    "problem",
    ["NUMA ids have gaps (0, 3)", "available of cpu of node-0 is below zero: -1", "lists 10000 zones"],
)
def test_a_bad_report_marks_its_node_and_the_rest_goes_on(problem: str) -> None:
    node = fresh()
    truth = truth_of(live_node(node), live_node(node, "n2", "u2"))
    truth.put_report(complete(node))
    truth.put_report(complete(node, "n2"))
    truth.put_report(Report("n1", "9", "unknown", problem=problem))
    assert truth.problems == {"n1": f"unknown: {problem}"}
    assert decided(truth, pod("a", 4)) == "n2"
    known = truth.knowledge("n1")
    assert known is not None
    assert known.level == "none"
    truth.put_report(complete(node))
    assert truth.problems == {}


def test_a_report_that_is_gone_leaves_a_node_that_nobody_tells_of() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    report = complete(node)
    truth.put_report(report)
    assert truth.drop_report(report) == {"n1"}
    assert decided(truth, pod("a", 1)) is None
    assert truth.drop_report(report) == set()


def test_an_extender_is_told_where_nobody_knows() -> None:
    node = fresh("single-numa-node")
    truth = truth_of(live_node(node))
    asking = pod("a", 1)
    reasons = truth.engine.decide(asking).reasons
    assert is_unknown(reason for reason, _ in reasons)
    assert is_unknown([UNHEARD_OF])
    truth.put_report(complete(node))
    full = truth.engine.decide(pod("a", 5)).reasons
    assert not is_unknown(reason for reason, _ in full)


def test_a_pod_bound_where_nobody_knows_is_counted() -> None:
    node = fresh()
    truth = truth_of(live_node(node))
    waiting = live_pod(pod("a", 3), node="")
    truth.put_pod(waiting)
    assert truth.pod("a") is waiting
    truth.assume_blindly(waiting, "n1")
    assert not truth.is_bound("a")
    assert truth.engine.cluster.by_name["n1"].load.used["cpu"] == 3000
    truth.put_pod(live_pod(pod("a", 3)))
    assert truth.is_bound("a")
