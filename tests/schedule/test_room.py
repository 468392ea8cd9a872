from __future__ import annotations

from numaware.schedule.room import WHOLE, NumaRoom, gpu_resource, numa_rooms, room, site
from numaware.schedule.shares import with_shared
from numaware.twin.node import Node
from support.small_clusters import facts_of, gpu_node
from support.twin_nodes import GI, GPU, admitted, config, machine, pod


def test_a_fresh_node_has_all_but_what_the_system_keeps() -> None:
    assert numa_rooms(gpu_node(), {}) == (
        NumaRoom(7, 64 * GI, (WHOLE, WHOLE)),
        NumaRoom(8, 64 * GI, (WHOLE, WHOLE)),
    )


def test_a_pod_takes_from_the_zone_its_kubelet_puts_it_on() -> None:
    node = admitted(gpu_node(), pod("a", 8, gpu=1))
    assert numa_rooms(node, {}) == (NumaRoom(7, 64 * GI, (WHOLE, WHOLE)), NumaRoom(0, 64 * GI, (WHOLE,)))


def test_cpus_of_a_pod_that_is_gone_are_free_even_where_the_kubelet_has_not_let_go_of_them_yet() -> None:
    fresh = Node.fresh(machine(2), config(version="v1.28.0"))
    gone = admitted(fresh, pod("a", 4)).release("a")
    assert gone.state.cpu.owned
    assert numa_rooms(gone, {}) == numa_rooms(fresh, {})


def test_memory_counts_by_zone_where_the_memory_manager_does() -> None:
    node = admitted(gpu_node(memory=True), pod("a", 2, 4 * GI))
    assert [zone.memory for zone in numa_rooms(node, {})] == [59 * GI, 64 * GI]


def test_devices_in_shared_use_count_with_what_is_left_of_them() -> None:
    shares = {1: 400, 2: 0}
    assert [zone.gpus for zone in numa_rooms(with_shared(gpu_node(), shares), shares)] == [
        (400, WHOLE),
        (WHOLE,),
    ]


def test_devices_without_a_numa_node_count_with_the_first_zone() -> None:
    loose = Node.fresh(machine(2, devices={GPU: {"g0": (), "g1": (1,)}}), config())
    assert [zone.gpus for zone in numa_rooms(loose, {})] == [(WHOLE,), (WHOLE,)]
    assert [zone.gpus for zone in numa_rooms(with_shared(loose, {0: 300}), {0: 300})] == [(300,), (WHOLE,)]


def test_a_node_without_gpus_has_no_gpu_resource() -> None:
    assert gpu_resource(Node.fresh(machine(2, devices={"vendor.example/nic": {"n": (0,)}}), config())) is None
    assert gpu_resource(gpu_node()) == GPU


def test_pods_that_own_nothing_take_from_the_node_as_a_whole() -> None:
    node = gpu_node()
    allocatable = dict(facts_of("n", node).allocatable)
    left = room(node, {}, allocatable, {"cpu": 13_500, "memory": GI})
    assert (left.cpus, left.memory) == (1, 127 * GI)
    assert [zone.cpus for zone in left.zones] == [7, 8]
    assert [zone.cpus for zone in left.capped] == [1, 1]
    assert left.whole == NumaRoom(1, 127 * GI, (WHOLE,) * 4)


def test_the_policy_says_when_pods_may_span_zones() -> None:
    spans = {
        policy: site(gpu_node(policy).kubelet, facts_of("n", gpu_node(policy)).allocatable).spans
        for policy in ("none", "best-effort", "restricted", "single-numa-node")
    }
    assert spans == {
        "none": "freely",
        "best-effort": "if needed",
        "restricted": "if needed",
        "single-numa-node": "never",
    }
