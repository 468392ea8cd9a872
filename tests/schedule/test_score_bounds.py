from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from numaware.schedule.evaluation_cache import REFUSED
from numaware.schedule.need import Need
from numaware.schedule.pod_footprint import footprint
from numaware.schedule.profile import DEFAULT_PROFILE
from numaware.schedule.room import SHARE_RESOURCE, WHOLE, NumaRoom
from numaware.schedule.score_bounds import score_bounds
from numaware.schedule.standing import Standing
from numaware.schedule.stranding import Mix
from numaware.schedule.stranding_bound import stranding_bound
from numaware.twin.node import Node
from numaware.workload.pod import Container, Pod
from support.small_clusters import cluster_of, gpu_node, share_pod
from support.twin_nodes import GI, GPU, config, container, machine, pod, pod_of, sized

GPUS = Mix({Need(2, GI, 1, WHOLE): 1})
CPUS = Mix({Need(2, GI, 0, WHOLE): 1})


def seen(node: Node, asking: Pod, mix: Mix = GPUS) -> Sequence[Any] | None:
    wanted = footprint(node, asking)
    assert wanted is not None
    return score_bounds(Standing(cluster_of(node).members[0]), wanted, mix)


def test_an_aligned_pod_takes_all_it_owns_from_the_lowest_numa_node_that_has_enough() -> None:
    node = gpu_node("single-numa-node", memory=True)
    for cpus, expected in ((4, (0, 3)), (8, (1, 0))):
        found = seen(node, pod("a", cpus, GI, gpu=1))
        assert found is not None
        assert [(one.used[0], one.after[0].cpus, one.after[0].gpus) for one in found] == [
            (*expected, (WHOLE,))
        ]
        assert found[0].idle == (4 * WHOLE, 3 * WHOLE)


def test_which_numa_node_it_is_cannot_be_told_of_a_pod_that_wants_huge_pages_too() -> None:
    found = seen(gpu_node("single-numa-node", memory=True), pod("a", 4, GI, huge=1))
    assert found is not None
    assert [one.used for one in found] == [(0,), (1,)]


def test_there_is_no_prospect_where_no_numa_node_has_enough() -> None:
    assert seen(gpu_node("single-numa-node"), pod("a", 12)) == []


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_nothing_is_foretold_of_a_pod_that_has_to_lie_on_several_numa_nodes(policy: str) -> None:
    assert seen(gpu_node(policy), pod("a", 12)) is None


def test_where_the_kubelet_does_its_best_a_pod_lies_on_the_lowest_numa_node_that_has_enough() -> None:
    assert [[one.used for one in seen(gpu_node("best-effort"), pod("a", cpus)) or ()] for cpus in (4, 8)] == [
        [(0,)],
        [(1,)],
    ]


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
@pytest.mark.parametrize("option", ["align-by-socket", "distribute-cpus-across-numa"])
def test_nothing_is_foretold_where_cpus_need_not_come_from_the_chosen_numa_node(
    policy: str, option: str
) -> None:
    node = Node.fresh(machine(2, 8), config(policy, cpu_options=((option, "true"),)))
    assert seen(node, pod("a", 4)) is None


def pair(*cpus: int, init: tuple[Container, ...] = ()) -> Pod:
    parts = [container(f"c{count}", {"cpu": count, "memory": GI}) for count in cpus]
    return pod_of("pair", *parts, init=init)


def test_containers_that_are_aligned_one_by_one_get_the_lowest_numa_node_in_their_turn() -> None:
    """Of the first node's eight CPUs one is kept back."""
    node = gpu_node("single-numa-node")
    for cpus, expected in (((5, 2), {0: 0}), ((5, 3), {0: 2, 1: 5}), ((8, 3), {0: 4, 1: 0})):
        found = seen(node, pair(*cpus))
        assert found is not None
        assert [dict(zip(one.used, [zone.cpus for zone in one.after], strict=True)) for one in found] == [
            expected
        ]
        after = node.admit(pair(*cpus)).node
        assert [zone.cpus for zone in Standing(cluster_of(after).members[0]).room.zones] == [
            expected.get(0, 7),
            expected.get(1, 8),
        ], "as the kubelet does it"
    assert seen(node, pair(8, 8)) == []


def test_containers_that_are_aligned_as_a_whole_get_one_numa_node() -> None:
    node = Node.fresh(machine(2, 8), config("single-numa-node", scope="pod"))
    assert [one.used for one in seen(node, pair(5, 3)) or ()] == [(1,)]
    assert seen(node, pair(5, 4)) == []


def test_nothing_is_foretold_of_several_containers_where_one_hands_its_cpus_on() -> None:
    init = (container("init", {"cpu": 4, "memory": GI}),)
    assert seen(gpu_node("single-numa-node"), pair(5, 2, init=init)) is None


@pytest.mark.parametrize(
    ("options", "certain"),
    [
        ((), True),
        ((("full-pcpus-only", "true"),), False),
        ((("distribute-cpus-across-cores", "true"),), False),
    ],
)
def test_the_kubelet_need_not_be_asked_where_only_numbers_count(
    options: tuple[tuple[str, str], ...], certain: bool
) -> None:
    node = Node.fresh(machine(2, 8), config("restricted", cpu_options=options))
    wanted = footprint(node, pod("a", 4))
    assert wanted is not None
    assert wanted.certain == certain


def test_it_is_asked_about_several_containers() -> None:
    parts = [container(name, {"cpu": 2, "memory": GI}) for name in ("x", "y")]
    two = footprint(Node.fresh(machine(2, 8), config("restricted")), pod_of("b", *parts))
    assert two is not None
    assert not two.certain


def test_nothing_is_foretold_of_gpus_that_are_not_on_one_numa_node() -> None:
    both = Node.fresh(machine(2, 8, devices={GPU: {"g0": (0, 1)}}), config("restricted"))
    assert footprint(both, pod("a", 2, gpu=1)) is None
    assert footprint(both, pod("a", 2)) is not None


def test_a_part_of_a_gpu_may_be_beside_the_cpus_or_not() -> None:
    amounts = sized({"cpu": 2, "memory": GI, SHARE_RESOURCE: 400})
    found = seen(gpu_node("single-numa-node"), pod_of("a", Container("app", amounts, amounts)))
    assert found is not None
    assert [one.used for one in found] == [(0,), (0, 1)]
    assert {zone.gpus for one in found for zone in one.after} == {(WHOLE, WHOLE), (600, WHOLE)}


def test_a_pod_that_owns_nothing_changes_the_totals_alone() -> None:
    found = seen(gpu_node("restricted"), pod_of("a", Container("app", sized({"cpu": 3}))))
    assert found is not None
    assert [(tuple(one.used), one.parts[0][0]) for one in found] == [
        ((), NumaRoom(12, 2 * 64 * GI, (WHOLE,) * 4))
    ]


def test_stranded_cpus_are_not_foretold_where_the_totals_limit_the_zones() -> None:
    node = gpu_node("single-numa-node")
    assert seen(node, pod("a", 2), CPUS) is not None
    made = cluster_of(node)
    made.place(pod_of("many", Container("app", sized({"cpu": 10}))), "n0")
    wanted = footprint(node, pod("a", 2))
    assert wanted is not None
    assert score_bounds(Standing(made.members[0]), wanted, CPUS) is None


MIXED = Mix({Need(2, GI, 1, WHOLE): 3, Need(1, GI, 1, 300): 2, Need(12, GI, 4, WHOLE): 1})


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("running", [0, 1, 3])
def test_where_only_alignment_and_stranding_count_the_best_bound_need_not_be_written_down(
    policy: str, running: int
) -> None:
    node = gpu_node(policy, memory=policy != "none")
    for number in range(running):
        node = node.admit(pod(f"runs-{number}", 3, GI, gpu=1)).node
    standing = Standing(cluster_of(node).members[0])
    asking = [pod("a", cpus, GI, gpu=gpus) for cpus in (1, 4, 8) for gpus in (0, 1, 2)]
    asking += [share_pod("a", milli) for milli in (100, 500, 900)]
    told = 0
    for each in asking:
        wanted = footprint(node, each)
        assert wanted is not None
        found = stranding_bound(wanted, MIXED, lambda _: None)(standing)
        if found is not None:
            told += 1
            bounds = score_bounds(standing, wanted, MIXED) or ()
            worth = [DEFAULT_PROFILE.weigh("medium", bound, MIXED) for bound in bounds]
            assert found == max(worth, default=REFUSED)
    assert told
