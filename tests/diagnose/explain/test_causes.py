"""Every cause of a refusal, on machines small enough to work the numbers out by hand.

The usual machine: 2 NUMA nodes of 8 CPUs and 64 GiB; CPU 0 is the system's, and 1 GiB of node 0 where memory is managed.
"""

from __future__ import annotations

import msgspec
import pytest

from numaware.diagnose.explain.explanation import Explanation, explain
from numaware.diagnose.texts import say
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod
from support.in_words import CauseInWords, cause_in_words, causes_of, changes_of
from support.twin_nodes import GI, GPU, HUGE, NIC, admitted, config, container, machine, pod, pod_of

FULL_CORES = (("full-pcpus-only", "true"),)
CLOSEST = (("prefer-closest-numa-nodes", "true"),)


def why(node: Node, asked: Pod) -> dict[str, CauseInWords]:
    """The causes of a refusal by resource."""
    explanation = refused(node, asked)
    assert len({cause.resource for cause in explanation.why}) == len(explanation.why)
    return {cause.resource: cause_in_words(cause) for cause in explanation.why}


def refused(node: Node, asked: Pod) -> Explanation:
    explanation = explain("n1", node, asked)
    assert not explanation.admitted
    return explanation


def floating(uid: str, memory: int) -> Pod:
    """A Guaranteed pod with half a CPU, so that memory alone decides where it goes."""
    amounts = (("cpu", NANO // 2), ("memory", memory * GI * NANO))
    return pod_of(uid, Container("app", amounts, amounts))


# Topology Manager: the merge fails


def test_more_cpus_than_are_free_anywhere() -> None:
    node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 4))
    cause = why(node, pod("new", 12))["cpu"]
    assert cause.text == "12 CPUs cannot be had on any set of NUMA nodes: 11 free to pin in all."
    assert cause.wants == ()
    assert cause.blocked_by == (
        "default/a (app) holds 4 CPUs on NUMA 0",
        "the system keeps 1 CPU on NUMA 0",
    )


def test_free_cpus_in_pieces() -> None:
    node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 4), pod("b", 4))
    cause = why(node, pod("new", 5))["cpu"]
    assert cause.text == (
        "5 CPUs belong on 1 NUMA node by the size of the machine, but now fit only on NUMA 0+1, "
        "which restricted does not accept: NUMA 0 has 3 free to pin (2 short), NUMA 1 has 4 free to pin (1 short)."
    )
    assert cause.wants == ()
    assert cause.blocked_by == (
        "default/a (app) holds 4 CPUs on NUMA 0",
        "default/b (app) holds 4 CPUs on NUMA 1",
        "the system keeps 1 CPU on NUMA 0",
    )


def test_cpus_on_one_node_and_the_device_on_the_other() -> None:
    hardware = machine(devices={GPU: {"g0": (0,)}})
    node = admitted(Node.fresh(hardware, config("restricted")), pod("a", 4))
    found = why(node, pod("new", 5, gpu=1))
    assert found["cpu"].text == f"5 CPUs would fit on NUMA 1, but {GPU} only on NUMA 0."
    assert found["cpu"].wants == ((1,),)
    assert found["cpu"].blocked_by[0] == "default/a (app) holds 4 CPUs on NUMA 0"
    assert found[GPU].text == f"1 {GPU} would fit on NUMA 0, but cpu only on NUMA 1."
    assert found[GPU].wants == ((0,),)
    assert found[GPU].blocked_by == ()


def test_three_resources_that_agree_only_in_pairs() -> None:
    where = {GPU: {"g0": (0,), "g1": (1,)}, NIC: {"n1": (1,), "n2": (2,)}}
    hardware = machine(3, 8, devices=where)
    # a and b leave 2 CPUs on NUMA 0; c takes 7 of 8, and the NIC, on NUMA 1.
    node = admitted(Node.fresh(hardware, config("restricted")), pod("a", 2), pod("b", 3), pod("c", 7, nic=1))
    found = why(node, pod("new", 4, gpu=1, nic=1))
    assert found["cpu"].wants == ((2,),)
    assert found[NIC].wants == ((2,),)
    assert (
        found[GPU].text
        == f"1 {GPU} would fit on NUMA 0 or NUMA 1, but cpu only on NUMA 2 and {NIC} only on NUMA 2."
    )


def test_two_nodes_needed_where_only_one_is_given() -> None:
    found = why(Node.fresh(machine(), config("single-numa-node", memory=True)), pod("new", 9, 2 * GI))
    assert found["cpu"].text == (
        "9 CPUs need 2 NUMA nodes even on an empty machine (the largest has 8), and single-numa-node gives one."
    )
    assert found["cpu"].wants == ((0, 1),)
    assert found["memory"].text == "2 GiB of memory would fit on NUMA 0 or NUMA 1 if cpu did too."


def test_memory_counts_without_what_the_system_keeps() -> None:
    node = Node.fresh(machine(1, memory=8 * GI), config("single-numa-node", memory=True))
    cause = why(node, floating("new", 8))["memory"]
    # One node and no mask at all: the Memory Manager says so only when it has to give.
    assert cause.text == "8 GiB of memory asked for, 7 GiB free to pin in all."
    assert cause.blocked_by == ("the system keeps 1 GiB of memory on NUMA 0",)


def test_huge_pages_that_widen_the_memory_beside_them() -> None:
    node = Node.fresh(machine(hugepages=2 * GI), config("single-numa-node", memory=True))
    found = why(node, pod("new", 2, 4 * GI, huge=3 * GI))
    assert found[HUGE].text == (
        f"3 GiB of {HUGE} need 2 NUMA nodes even on an empty machine (the largest has 2 GiB), "
        "and single-numa-node gives one."
    )
    assert found["memory"].text == (
        f"4 GiB of memory come from the same nodes as {HUGE}, which takes 2 NUMA nodes even on an empty machine."
    )


def test_the_containers_of_a_pod_stand_in_each_others_way() -> None:
    node = Node.fresh(machine(), config("single-numa-node"))
    parts = [container(name, {"cpu": cpus, "memory": GI}) for name, cpus in (("c0", 5), ("c1", 5), ("c2", 4))]
    cause = why(node, pod_of("new", *parts))["cpu"]
    assert "NUMA 0 has 2 free to pin (2 short), NUMA 1 has 3 free to pin (1 short)" in cause.text
    assert cause.blocked_by == (
        "this pod (c0) holds 5 CPUs on NUMA 0",
        "this pod (c1) holds 5 CPUs on NUMA 1",
        "the system keeps 1 CPU on NUMA 0",
    )


def test_a_container_that_must_follow_its_init_container() -> None:
    node = Node.fresh(machine(), config("single-numa-node"))
    first = container("warm-up", {"cpu": 1, "memory": GI})
    main = container("main", {"cpu": 8, "memory": GI})
    explanation = refused(node, pod_of("new", main, init=(first,)))
    (cause,) = causes_of(explanation)
    assert cause.text == (
        "8 CPUs belong on 1 NUMA node by the size of the machine, but now fit only on NUMA 0+1, which "
        "single-numa-node does not accept: NUMA 0 has 7 free to pin (1 short), NUMA 1 has 8 free to pin; "
        "an init container of this pod had its own on NUMA 0, so this one must go there too."
    )
    assert changes_of(explanation) == [
        "ask for 7 CPUs instead of 8 in container main",
        "ask for 8 CPUs instead of 1 in init container warm-up",
        "set topologyManagerPolicy to best-effort (now single-numa-node)",
        "set topologyManagerScope to pod (now container)",
    ]


def test_in_pod_scope_the_sum_of_the_containers_counts() -> None:
    node = Node.fresh(machine(), config("single-numa-node", scope="pod"))
    parts = [container(name, {"cpu": 6, "memory": GI}) for name in ("left", "right")]
    cause = why(node, pod_of("new", *parts))["cpu"]
    assert cause.text.startswith("12 CPUs need 2 NUMA nodes even on an empty machine (the largest has 8)")


def test_a_long_list_of_holders_is_cut() -> None:
    node = Node.fresh(machine(1, 12), config("restricted"))
    node = admitted(node, *(pod(f"p{number}", 1) for number in range(9)))
    cause = why(node, pod("new", 4))["cpu"]
    assert len(cause.blocked_by) == 7
    assert cause.blocked_by[-1] == "and 4 more"


# The managers: what was agreed on cannot be given


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_not_enough_cpus(policy: str) -> None:
    cause = why(Node.fresh(machine(), config(policy)), pod("new", 16))["cpu"]
    assert (
        cause.text
        == "16 CPUs asked for, 15 free to pin in all: NUMA 0 has 7 free to pin, NUMA 1 has 8 free to pin."
    )
    assert cause.blocked_by == ("the system keeps 1 CPU on NUMA 0",)


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_not_enough_devices(policy: str) -> None:
    hardware = machine(devices={GPU: {"g0": (0,), "g1": (1,)}})
    node = admitted(Node.fresh(hardware, config(policy)), pod("a", gpu=1))
    cause = why(node, pod("new", 1, gpu=2))[GPU]
    assert (
        cause.text
        == f"2 {GPU} asked for, 1 free to pin in all: NUMA 0 has 0 free to pin, NUMA 1 has 1 free to pin."
    )
    assert cause.blocked_by == (f"default/a (app) holds 1 {GPU} on NUMA 0",)


def test_devices_without_a_numa_node_are_counted_all_the_same() -> None:
    hardware = machine(devices={GPU: {"g0": (), "g1": ()}})
    cause = why(Node.fresh(hardware, config()), pod("new", gpu=3))[GPU]
    assert cause.text == f"3 {GPU} asked for, 2 free to pin in all."


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_not_enough_memory_is_the_same_under_every_policy(policy: str) -> None:
    node = Node.fresh(machine(), config(policy, memory=True))
    explanation = refused(node, floating("new", 130))
    assert explanation.reason == "UnexpectedAdmissionError"
    (cause,) = causes_of(explanation)
    assert cause.resource == "memory"
    assert cause.text == (
        "130 GiB of memory asked for, 127 GiB free to pin in all: NUMA 0 has 63 GiB free to pin, NUMA 1 has 64 GiB free to pin."
    )


def test_the_kind_of_memory_that_is_short_is_named() -> None:
    node = Node.fresh(machine(hugepages=2 * GI), config(memory=True))
    (cause,) = causes_of(refused(node, pod("new", 1, GI, huge=5 * GI)))
    assert cause.resource == HUGE
    assert cause.text.startswith(f"5 GiB of {HUGE} asked for, 4 GiB free to pin in all")


def test_memory_of_a_group_of_nodes_serves_no_smaller_request() -> None:
    node = admitted(Node.fresh(machine(), config("restricted", memory=True)), floating("wide", 100))
    cause = why(node, floating("new", 10))["memory"]
    assert cause.text == (
        "10 GiB of memory belong on 1 NUMA node by the size of the machine, but now fit only on NUMA 0+1, which "
        "restricted does not accept: NUMA 0 has 0 B free to pin (10 GiB short), NUMA 1 has 27 GiB free to pin; "
        "NUMA 0+1 are one group and serve only requests for all of it."
    )
    # NUMA 1 has room, but belongs to the pod that made the group.
    assert cause.blocked_by[0] == "default/wide (app) holds 100 GiB of memory on NUMA 0+1"


def test_memory_in_use_by_one_node_requests_makes_no_group() -> None:
    node = admitted(Node.fresh(machine(), config(memory=True)), floating("a", 10))
    cause = why(node, floating("new", 100))["memory"]
    assert cause.text == (
        "100 GiB of memory asked for, 117 GiB free to pin in all: NUMA 0 has 53 GiB free to pin, NUMA 1 has 64 GiB free to pin; "
        "requests for one node already use NUMA 0, so no group can."
    )
    assert cause.blocked_by[0] == "default/a (app) holds 10 GiB of memory on NUMA 0"


# Whole cores


def test_a_request_that_is_no_whole_number_of_cores() -> None:
    node = Node.fresh(machine(threads=2), config(cpu_options=FULL_CORES))
    explanation = refused(node, pod("new", 3))
    assert explanation.reason == "SMTAlignmentError"
    assert causes_of(explanation)[0].text == (
        "3 CPUs cannot be whole cores: a core has 2 threads, and full-pcpus-only gives whole cores only."
    )
    assert changes_of(explanation) == [
        "ask for 4 CPUs instead of 3 in container app",
        "remove option full-pcpus-only",
    ]


def test_too_few_cores_that_the_system_leaves_alone() -> None:
    node = admitted(Node.fresh(machine(threads=2), config(cpu_options=FULL_CORES)), pod("a", 4))
    # CPU 0 is the system's and spoils CPU 1 too: 16 - 2 - 4 are left.
    (cause,) = causes_of(refused(node, pod("new", 12)))
    assert cause.text == "12 CPUs asked for, 10 left on cores that the system does not use (full-pcpus-only)."
    assert cause.blocked_by[0] == "default/a (app) holds 4 CPUs on NUMA 0"


def test_cores_that_an_earlier_container_of_the_pod_took_are_counted() -> None:
    node = Node.fresh(machine(threads=2), config(cpu_options=FULL_CORES))
    parts = [container(name, {"cpu": 8, "memory": GI}) for name in ("left", "right")]
    (cause,) = causes_of(refused(node, pod_of("new", *parts)))
    assert cause.text.startswith("8 CPUs asked for, 6 left")
    assert "this pod (left) holds 8 CPUs on NUMA 1" in cause.blocked_by


# The kubelet crashes


def test_a_huge_page_size_that_a_node_lacks_crashes_the_kubelet() -> None:
    hardware = machine()
    first = msgspec.structs.replace(hardware.numa[0], hugepages=((HUGE, 2 * GI),))
    node = Node.fresh(msgspec.structs.replace(hardware, numa=(first, hardware.numa[1])), config(memory=True))
    explanation = refused(node, pod("new", 1, GI, huge=GI))
    assert explanation.reason == "KubeletPanic"
    assert say(explanation.message).startswith("the kubelet itself would crash: runtime error")
    (cause,) = causes_of(explanation)
    assert (cause.resource, cause.wants, cause.blocked_by) == (HUGE, (), ())
    assert cause.text.startswith(f"NUMA 1 has no {HUGE} at all")
    assert explanation.after.state == node.state


def test_numa_numbers_with_gaps_crash_a_kubelet_that_compares_distances() -> None:
    hardware = machine(3)
    numa = tuple(
        msgspec.structs.replace(one, id=number) for one, number in zip(hardware.numa, (0, 2, 5), strict=True)
    )
    node = Node.fresh(
        msgspec.structs.replace(hardware, numa=numa), config("best-effort", topology_options=CLOSEST)
    )
    explanation = refused(node, pod("new", 2))
    assert explanation.reason == "KubeletPanic"
    (cause,) = causes_of(explanation)
    assert cause.resource == "topology"
    assert cause.text.endswith("here they are 0, 2, 5.")
    assert "remove option prefer-closest-numa-nodes" in changes_of(explanation)


def test_cpus_that_a_kubelet_deals_forever() -> None:
    hardware = machine(4, 8, threads=2)
    settings = config(cpu_options=(("distribute-cpus-across-numa", "true"), ("full-pcpus-only", "true")))
    # One thread of a core on every node is the system's: 7 CPUs left on each, but whole cores for 6.
    settings = msgspec.structs.replace(settings, reserved_cpus="0,8,16,24", kube_reserved=())
    explanation = refused(Node.fresh(hardware, settings), pod("new", 22))
    assert explanation.reason == "KubeletPanic"
    (cause,) = causes_of(explanation)
    assert (cause.resource, cause.wants) == ("cpu", ())
    assert cause.text.startswith("distribute-cpus-across-numa deals 22 CPUs in whole cores")
    assert "ask for 20 CPUs instead of 22 in container app" in changes_of(explanation)
