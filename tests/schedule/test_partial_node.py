from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.texts import say
from numaware.machine.node_topology import ZoneCounts
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.partial_node import UNKNOWN, PartialNode, class_of, partial_node
from numaware.schedule.published_counts import Counts
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.published_counts import published
from support.small_clusters import facts_of, gpu_node, share_pod
from support.twin_nodes import GI, GPU, admitted, config, container, machine, pod, pod_of


def counts(
    policy: str = "single-numa-node", *pods: Pod, memory: bool = False, scope: str = "container"
) -> Counts:
    """What is published of a node of two NUMA nodes with 8 CPUs and 2 GPUs each, on which these pods run."""
    return published(admitted(gpu_node(policy, memory=memory, scope=scope), *pods), devices=True)


def missing(known: Counts, asking: Pod) -> str:
    """What the node says is not known."""
    verdict = partial_node(known).admit(asking)
    assert (verdict.admitted, verdict.reason) == (False, UNKNOWN), verdict.message
    begin, end = "node(s) where the outcome depends on what is not known (", ")"
    assert verdict.message.startswith(begin)
    assert verdict.message.endswith(end)
    return verdict.message[len(begin) : -len(end)]


def test_a_pod_that_fits_one_numa_node_in_every_case_is_taken() -> None:
    assert partial_node(counts("single-numa-node", pod("x", 6))).admit(pod("a", 4, gpu=1)).admitted


def test_a_pod_that_fits_in_no_case_is_refused_as_the_kubelet_would() -> None:
    known = replace(counts("single-numa-node"), cpu_policy="static")
    verdict = partial_node(known).admit(pod("a", 12))
    assert (verdict.admitted, verdict.reason) == (False, "TopologyAffinityError")


def test_an_odd_number_of_cpus_waits_until_options_are_known() -> None:
    assert missing(counts(), pod("a", 3)) == "cpuManagerPolicyOptions"
    assert partial_node(replace(counts(), cpu_options=())).admit(pod("a", 3)).admitted
    assert partial_node(replace(counts(), threads=1)).admit(pod("a", 3)).admitted


def test_cores_that_the_system_may_use_a_thread_of_do_not_count_as_free() -> None:
    """One CPU is the system's, and its sibling may be among those that are free."""
    assert partial_node(counts("none")).admit(pod("a", 14)).admitted
    assert missing(counts("none", pod("x", 1)), pod("a", 14)) == "cpuManagerPolicyOptions"


def test_whether_cpus_are_pinned_matters_where_they_do_not_fit() -> None:
    """Published counts say nothing of the policy where no CPU is in use."""
    assert "cpuManagerPolicy" in missing(counts(), pod("a", 12))


def test_cpus_in_use_prove_that_they_are_pinned() -> None:
    verdict = partial_node(counts("single-numa-node", pod("x", 2))).admit(pod("a", 12))
    assert verdict.reason == "TopologyAffinityError"


def test_memory_in_use_may_be_in_use_by_groups_under_restricted() -> None:
    known = counts("restricted", pod("x", 2), memory=True)
    assert "groups of the Memory Manager" in missing(known, pod("a", 2))
    assert partial_node(counts("restricted", memory=True)).admit(pod("a", 2)).admitted
    assert partial_node(replace(known, memory_policy="None")).admit(pod("a", 2)).admitted


def test_single_numa_node_never_makes_groups() -> None:
    known = counts("single-numa-node", pod("x", 2), memory=True)
    assert partial_node(known).admit(pod("a", 2)).admitted


def test_devices_that_may_be_broken_make_wide_requests_uncertain() -> None:
    wide = pod("a", 12, gpu=3)
    known = counts("restricted")
    assert partial_node(known).admit(wide).admitted
    assert "devices that are not healthy" in missing(replace(known, devices=()), wide)
    assert partial_node(replace(known, devices=())).admit(pod("a", 2, gpu=2)).admitted


def test_devices_that_no_zone_lists_may_be_anywhere() -> None:
    asking = pod("a", 2, nic=1)
    assert "NUMA nodes of vendor.example/nic" in missing(counts(), asking)
    assert partial_node(counts("none")).admit(asking).admitted


def test_shares_of_gpus_need_a_node_that_is_known() -> None:
    assert "shares of GPUs" in missing(counts("none"), share_pod("a", 500))


def test_ids_with_gaps_may_crash_a_kubelet_that_looks_for_the_closest() -> None:
    known = counts("restricted")
    gaps = replace(known, zones=(known.zones[0], replace(known.zones[1], id=3)))
    assert missing(gaps, pod("a", 2)) == "topologyManagerPolicyOptions"
    assert partial_node(replace(gaps, topology_options=())).admit(pod("a", 2)).admitted


def test_a_policy_that_nobody_told_is_any() -> None:
    hidden = replace(counts("none"), policy=None, scope=None, cpu_policy="static")
    assert partial_node(hidden).admit(pod("a", 4)).admitted
    assert missing(hidden, pod("a", 12, gpu=3)) == "topologyManagerPolicy"


def test_later_containers_need_to_know_what_the_first_took() -> None:
    two = pod_of("a", container("x", {"cpu": 2, "memory": 1}), container("y", {"cpu": 2, "memory": 1}))
    assert partial_node(counts("single-numa-node")).admit(two).admitted
    assert missing(counts("restricted"), two) == "how CPUs and devices are cut between NUMA nodes"
    assert partial_node(counts("restricted", scope="pod")).admit(two).admitted
    assert partial_node(replace(counts("restricted"), cpu_options=())).admit(two).admitted


def test_stale_counts_take_only_pods_that_want_nothing() -> None:
    stale = partial_node(replace(counts(), current=False))
    assert stale.admit(pod("a")).admitted
    assert missing(replace(counts(), current=False), pod("b", 2)) == "what has changed since the last report"


def test_what_was_placed_counts_and_is_given_back() -> None:
    node: Node = partial_node(counts())
    for uid in "abc":
        verdict = node.admit(pod(uid, 4))
        assert verdict.admitted
        node = verdict.node
    assert not node.admit(pod("d", 4)).admitted
    assert node.release("b").admit(pod("d", 4)).admitted


def test_a_placement_over_two_numa_nodes_leaves_the_rest_unknown_until_there_are_new_counts() -> None:
    known = replace(counts("restricted"), cpu_options=(), cpu_policy="static")
    after = partial_node(known).admit(pod("wide", 10)).node
    verdict = after.admit(pod("a", 2))
    assert (verdict.reason, "what has changed since the last report" in verdict.message) == (UNKNOWN, True)
    assert isinstance(after, PartialNode)
    assert not after.exact


def test_counts_and_guesses_make_the_class_of_a_node() -> None:
    one, same, other = (partial_node(counts("none", *pods)) for pods in ((), (), (pod("x", 2),)))
    assert class_of(one) == class_of(same) != class_of(other)
    assert class_of(gpu_node()) != class_of(one)


def test_the_engine_prefers_no_guess_to_knowledge() -> None:
    """Two nodes in one cluster: what the partly known one cannot promise goes to the known one."""
    known = gpu_node("single-numa-node")
    partial = partial_node(counts())
    engine = Engine(Cluster([(facts_of("a-partial", known), partial), (facts_of("b-known", known), known)]))
    assert engine.decide(pod("odd", 3)).node == "b-known"
    for number in range(5):
        decision = engine.decide(pod(f"p{number}", 4))
        assert decision.node is not None
        assert engine.bind(decision).admitted
    assert engine.cluster.by_name["a-partial"].pods


def test_a_refusal_on_partly_known_nodes_is_counted_with_what_is_missing() -> None:
    node = gpu_node("single-numa-node")
    engine = Engine(Cluster((facts_of(name, node), partial_node(counts())) for name in "ab"))
    ((reason, number),) = engine.decide(pod("odd", 3)).reasons
    assert (say(reason), number) == (
        "node(s) where the outcome depends on what is not known (cpuManagerPolicyOptions)",
        2,
    )


def test_nodes_that_keep_no_cpus_for_the_system_cannot_pin_any() -> None:
    zone = ZoneCounts(0, (("cpu", 8),), (("cpu", 8),), (("cpu", 8),))
    assert partial_node(Counts((zone,), "single-numa-node", "container")).admit(pod("a", 3)).admitted


@pytest.mark.parametrize("number", [9, 12])
def test_machines_of_many_numa_nodes_are_known_by_counts_too(number: int) -> None:
    hardware = machine(number, 4)
    options = (("max-allowable-numa-nodes", str(number)),)
    node = Node.fresh(hardware, config("single-numa-node", topology_options=options))
    assert partial_node(published(node)).admit(pod("a", 2, GI)).admitted
    assert GPU not in node.kubelet.devices.inventories
