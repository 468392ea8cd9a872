from __future__ import annotations

from numaware.schedule.shares import Share, choices, device_for, wanted_share, with_shared
from numaware.twin.node import Node
from support.small_clusters import gpu_node, share_pod
from support.twin_nodes import GPU, admitted, config, devices_of, machine, pod, state_key


def test_a_pod_without_a_share_has_one_way_that_changes_nothing() -> None:
    assert wanted_share(pod("a", 2)) == 0
    assert list(choices(gpu_node(), {1: 500}, pod("a", 2))) == [(None, {1: 500})]


def test_every_distinct_choice_of_device_is_offered_once() -> None:
    ways = list(choices(with_shared(gpu_node(), {1: 500}), {1: 500}, share_pod("a", 300)))
    assert ways == [
        (Share(0, 1000), {1: 500, 0: 700}),
        (Share(0, 500), {1: 200}),
        (Share(1, 1000), {1: 500, 2: 700}),
    ]


def test_a_device_with_too_little_left_is_no_choice() -> None:
    shared = dict.fromkeys(range(4), 200)
    assert list(choices(with_shared(gpu_node(), shared), shared, share_pod("a", 300))) == []


def test_a_choice_names_the_lowest_device_of_its_kind() -> None:
    assert device_for(gpu_node(), {}, Share(1, 1000)) == 2


def test_the_kubelet_gives_no_device_in_shared_use_to_anybody() -> None:
    shared = with_shared(gpu_node(), {0: 500, 1: 100})
    assert devices_of(admitted(shared, pod("a", 2, gpu=2)), "a") == {1: 2}
    assert not shared.admit(pod("a", 2, gpu=3)).admitted


def test_what_is_no_longer_shared_is_the_kubelets_again() -> None:
    fresh = gpu_node()
    assert state_key(with_shared(with_shared(fresh, {0: 500}), {})) == state_key(fresh)


def test_a_node_without_gpus_shares_nothing() -> None:
    bare = Node.fresh(machine(2), config())
    assert with_shared(bare, {0: 1}) is bare
    assert list(choices(bare, {}, share_pod("a", 100))) == []
    assert GPU not in bare.kubelet.devices.inventories
