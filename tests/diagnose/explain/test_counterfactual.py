"""The changes that are proposed, kind by kind; that each is admitted is a law of its own (tests/property)."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from numaware.diagnose.explain.change import Change
from numaware.diagnose.explain.explanation import explain
from numaware.diagnose.texts import say
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod
from support.applied_changes import verdict_after
from support.twin_nodes import GI, GPU, HUGE, NIC, admitted, config, container, machine, pod, pod_of


def proposed(node: Node, asked: Pod) -> list[Change]:
    """The changes for a refused pod, each applied once more by its patch alone."""
    explanation = explain("n1", node, asked)
    assert not explanation.admitted
    for change in explanation.changes:
        assert verdict_after(node, asked, change.kind, change.patch).admitted
    return list(explanation.changes)


def texts(node: Node, asked: Pod, kind: str) -> list[str]:
    return [say(change.text) for change in proposed(node, asked) if change.kind == kind]


def floating(uid: str, memory: int) -> Pod:
    amounts = (("cpu", NANO // 2), ("memory", memory * GI * NANO))
    return pod_of(uid, Container("app", amounts, amounts))


def test_fewer_cpus() -> None:
    node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 4), pod("b", 4))
    (change,) = [change for change in proposed(node, pod("new", 5)) if change.kind == "request"]
    assert say(change.text) == "ask for 4 CPUs instead of 5 in container app"
    assert change.patch == {
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}}]
    }


def test_the_largest_that_fits_is_found_although_smaller_ones_do_not_fit() -> None:
    # Each node has 6 CPUs left: 7 and 8 belong on one node and are refused, 9 to 12 belong on both and are not.
    node = Node.fresh(machine(devices={NIC: {"n1": (1,)}}), config("restricted", reserved="2"))
    node = admitted(node, pod("a", 2, nic=1))
    assert [node.admit(pod("new", count)).admitted for count in (6, 7, 8, 9, 12, 13)] == [
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert texts(node, pod("new", 15), "request") == ["ask for 12 CPUs instead of 15 in container app"]
    assert texts(node, pod("new", 8), "request") == ["ask for 6 CPUs instead of 8 in container app"]


def test_a_request_beyond_all_bounds_is_brought_back_to_the_machine() -> None:
    node = Node.fresh(machine(), config("restricted"))
    assert texts(node, pod("new", 10**15), "request") == [
        "ask for 15 CPUs instead of 1000000000000000 in container app"
    ]


def test_fewer_devices() -> None:
    hardware = machine(devices={GPU: {"g0": (0,), "g1": (0,), "g2": (1,)}})
    assert texts(Node.fresh(hardware, config("single-numa-node")), pod("new", 1, gpu=3), "request") == [
        f"ask for 2 {GPU} instead of 3 in container app"
    ]


def test_less_memory_in_whole_mebibytes() -> None:
    node = Node.fresh(machine(), config(memory=True))
    (change,) = [change for change in proposed(node, floating("new", 130)) if change.kind == "request"]
    assert say(change.text) == "ask for 127 GiB of memory instead of 130 GiB in container app"
    assert change.patch["containers"][0]["resources"] == {
        "requests": {"memory": "127Gi"},
        "limits": {"memory": "127Gi"},
    }


def test_fewer_huge_pages_are_whole_pages() -> None:
    node = Node.fresh(machine(hugepages=2 * GI), config(memory=True))
    (change,) = [c for c in proposed(node, pod("new", 1, GI, huge=5 * GI)) if c.kind == "request"]
    assert change.patch["containers"][0]["resources"]["limits"] == {HUGE: "4Gi"}


def test_only_the_container_that_was_refused_is_changed() -> None:
    node = Node.fresh(machine(), config("single-numa-node"))
    parts = [container(name, {"cpu": cpus, "memory": GI}) for name, cpus in (("c0", 5), ("c1", 5), ("c2", 4))]
    assert texts(node, pod_of("new", *parts), "request") == ["ask for 3 CPUs instead of 4 in container c2"]


def test_several_requests_at_once_where_one_is_not_enough() -> None:
    hardware = machine(devices={GPU: {"g0": (0,), "g1": (1,)}})
    node = Node.fresh(hardware, config("single-numa-node"))
    (change,) = [change for change in proposed(node, pod("new", 9, gpu=2)) if change.kind == "request"]
    assert say(change.text) == (f"ask for 8 CPUs instead of 9, 1 {GPU} instead of 2 in container app")
    assert change.patch == {
        "containers": [
            {
                "name": "app",
                "resources": {"requests": {"cpu": "8", GPU: "1"}, "limits": {"cpu": "8", GPU: "1"}},
            }
        ]
    }


def test_requests_of_several_containers_at_once() -> None:
    node = Node.fresh(machine(), config("single-numa-node"))
    # The init container and the one that takes over its CPUs share NUMA 0 with the system, the last has NUMA 1.
    parts = [container(name, {"cpu": 9, "memory": GI}) for name in ("left", "right")]
    asked = pod_of("new", *parts, init=(container("first", {"cpu": 20, "memory": GI}),))
    (change,) = [change for change in proposed(node, asked) if change.kind == "request"]
    assert say(change.text) == (
        "ask for 7 CPUs instead of 20 in init container first and 7 CPUs instead of 9 in container left "
        "and 8 CPUs instead of 9 in container right"
    )
    assert change.patch.keys() == {"initContainers", "containers"}
    assert [part["name"] for part in change.patch["containers"]] == ["left", "right"]


def test_a_fractional_cpu_is_never_made_a_whole_one() -> None:
    hardware = machine(devices={NIC: {"n0": (0,)}})
    amounts = (("cpu", 3 * NANO // 2), ("memory", GI * NANO), (NIC, 2 * NANO))
    node = Node.fresh(hardware, config("restricted", scope="pod"))
    found = texts(node, pod_of("new", Container("app", amounts, amounts)), "request")
    assert found == [f"ask for 1 {NIC} instead of 2 in container app"]


def test_the_strictest_laxer_policy_is_proposed() -> None:
    node = Node.fresh(machine(), config("single-numa-node"))
    assert texts(node, pod("new", 9), "policy") == [
        "set topologyManagerPolicy to restricted (now single-numa-node)"
    ]


def test_another_scope() -> None:
    node = Node.fresh(machine(), config("single-numa-node", scope="pod"))
    asked = pod_of("new", *(container(name, {"cpu": 6, "memory": GI}) for name in ("left", "right")))
    (scope,) = [change for change in proposed(node, asked) if "topologyManagerScope" in change.patch]
    assert say(scope.text) == "set topologyManagerScope to container (now pod)"
    assert scope.patch == {"topologyManagerScope": "container"}


def test_an_option_to_remove() -> None:
    options = (("full-pcpus-only", "true"), ("distribute-cpus-across-numa", "true"))
    node = Node.fresh(machine(threads=2), config(cpu_options=options))
    (change,) = [change for change in proposed(node, pod("new", 3)) if change.kind == "option"]
    assert say(change.text) == "remove option full-pcpus-only"
    assert change.patch == {"cpuManagerPolicyOptions": {"distribute-cpus-across-numa": "true"}}


def test_an_option_to_add() -> None:
    # Two NUMA nodes in one socket: aligned by socket, 5 CPUs may lie on both.
    hardware = machine()
    numa = tuple(
        msgspec.structs.replace(
            node, cpus=tuple(msgspec.structs.replace(cpu, socket=0, core=cpu.id) for cpu in node.cpus)
        )
        for node in hardware.numa
    )
    node = Node.fresh(msgspec.structs.replace(hardware, numa=numa), config("restricted"))
    node = admitted(node, pod("a", 4), pod("b", 4))
    (change,) = [change for change in proposed(node, pod("new", 5)) if change.kind == "option"]
    assert say(change.text) == "add option align-by-socket"
    assert change.patch == {"cpuManagerPolicyOptions": {"align-by-socket": "true"}}


def test_an_option_whose_gate_is_shut_is_not_proposed() -> None:
    hardware = machine()
    numa = tuple(
        msgspec.structs.replace(
            node, cpus=tuple(msgspec.structs.replace(cpu, socket=0, core=cpu.id) for cpu in node.cpus)
        )
        for node in hardware.numa
    )
    shut = msgspec.structs.replace(config("restricted"), feature_gates=())
    node = admitted(Node.fresh(msgspec.structs.replace(hardware, numa=numa), shut), pod("a", 4), pod("b", 4))
    assert texts(node, pod("new", 5), "option") == []


def test_the_smallest_pod_whose_leaving_helps() -> None:
    node = Node.fresh(machine(), config("restricted"))
    node = admitted(node, pod("large", 6), pod("small", 2), pod("tiny", 1))
    # NUMA 0: 1 left, NUMA 1: 5 left (small and tiny are there).
    (change,) = [change for change in proposed(node, pod("new", 7)) if change.kind == "evict"]
    assert say(change.text) == "remove pod default/small"
    assert change.patch == {"evict": [{"namespace": "default", "name": "small", "uid": "small"}]}


def test_two_pods_that_must_leave_together() -> None:
    node = admitted(Node.fresh(machine(1), config("restricted")), *(pod(name, 2) for name in ("a", "b", "c")))
    assert texts(node, pod("new", 5), "evict") == ["remove pods default/a, default/b"]


def test_more_than_three_pods_that_must_leave() -> None:
    node = Node.fresh(machine(1), config("restricted"))
    node = admitted(node, *(pod(f"p{number}", 1) for number in range(7)))
    (change,) = [change for change in proposed(node, pod("new", 5)) if change.kind == "evict"]
    assert len(change.patch["evict"]) == 5


def test_the_pod_itself_is_not_asked_to_leave() -> None:
    node = Node.fresh(machine(1, threads=2), config(cpu_options=(("full-pcpus-only", "true"),)))
    running = pod("new", 2)
    node = admitted(node, running, pod("other", 4))
    # Asked again, as after a restart, the kubelet forgets that the pod has its CPUs already.
    assert texts(node, running, "evict") == ["remove pod default/other"]


def test_a_pod_known_only_from_a_state_file_goes_by_its_uid() -> None:
    node = admitted(Node.fresh(machine(1), config("restricted")), pod("u-1", 6))
    nameless = Pod(name="u-1", namespace="", uid="u-1")
    node = Node(node.kubelet, replace(node.state, pods={"u-1": nameless}))
    (change,) = [change for change in proposed(node, pod("new", 5)) if change.kind == "evict"]
    assert say(change.text) == "remove pod u-1"
    assert change.patch == {"evict": [{"uid": "u-1"}]}


@pytest.mark.parametrize("nodes", [12, 16])
def test_a_large_machine_gets_an_answer_all_the_same(nodes: int) -> None:
    options = (("max-allowable-numa-nodes", "16"),)
    node = Node.fresh(machine(nodes, 4), config("restricted", topology_options=options))
    node = admitted(node, *(pod(f"p{number}", 3) for number in range(nodes)))
    assert texts(node, pod("new", 4), "request") == ["ask for 1 CPU instead of 4 in container app"]
