from __future__ import annotations

import pytest

from numaware.machine.cpuset import CpuSet, list_form
from numaware.schedule.peers.volcano import Fit, NumaInfo, Task, bind, predicate, scores
from numaware.schedule.peers.volcano_cpus import Cpu, machine, take
from support.peer_nodes import burstable, guaranteed, pod


def node(
    policy: str = "best-effort",
    free: str | None = "0-15",
    *,
    nodes: int = 2,
    cpu_policy: str = "static",
    reserved: int | None = None,
    first: int = 0,
) -> NumaInfo:
    """`nodes` sockets of one NUMA node each and 8 CPUs without siblings."""
    return NumaInfo(
        tuple(Cpu(cpu, first + cpu // 8, cpu // 8, cpu) for cpu in range(8 * nodes)),
        None if free is None else CpuSet.parse(free).mask,
        cpu_policy,
        policy,
        None if reserved is None else reserved * 10**9,
    )


def task(*cpus: int | str, policy: str = "") -> Task:
    """A task with one container per amount of CPU."""
    return Task(
        pod(*(guaranteed({"cpu": count, "memory": 1}, f"c{index}") for index, count in enumerate(cpus))),
        policy,
    )


def cpus(fit: Fit) -> str:
    assert fit.fits
    assert fit.cpus is not None
    return list_form(fit.cpus)


ANYWHERE = Fit(fits=True)


@pytest.mark.parametrize(
    "where",
    [None, node(cpu_policy="none"), node("none"), node("")],
    ids=["no data", "not static", "policy none", "no policy"],
)
def test_a_task_without_a_policy_fits_where_the_kubelet_does_not_care(where: NumaInfo | None) -> None:
    assert predicate(where, task(99)) == ANYWHERE


def test_a_task_without_a_policy_is_judged_by_the_policy_of_the_node() -> None:
    assert not predicate(node("single-numa-node"), task(9)).fits
    assert cpus(predicate(node("best-effort"), task(2))) == "0-1"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (None, "numa info is empty"),
        (node(cpu_policy="none"), "cpu manager policy isn't static"),
        (node("best-effort"), "task topology policy[restricted] is different with node[best-effort]"),
        (node("restricted", None), "cpu allocatable map is empty"),
        (node("restricted", ""), "cpu allocatable map is empty"),
    ],
)
def test_a_task_with_a_policy_needs_a_node_that_has_the_same(where: NumaInfo | None, reason: str) -> None:
    fit = predicate(where, task(1, policy="restricted"))
    assert (fit.fits, fit.code, fit.reason) == (False, "Error", reason)


def test_a_pod_that_is_not_guaranteed_fits_without_a_look() -> None:
    assert predicate(None, Task(pod(burstable({"cpu": 99})), "restricted")) == ANYWHERE


@pytest.mark.parametrize(
    ("policy", "free", "count", "expected"),
    [
        ("single-numa-node", "0-15", 8, "0-7"),
        ("single-numa-node", "4-15", 5, "8-12"),
        ("single-numa-node", "0-15", 9, None),
        ("single-numa-node", "0-3,8-11", 5, None),
        ("restricted", "0-15", 9, "0-8"),
        ("restricted", "0-3,8-11", 5, None),
        ("best-effort", "0-3,8-11", 5, "0-3,8"),
        ("best-effort", "0-3,8-15", 5, "8-12"),
        ("best-effort", "0-3", 5, ""),
    ],
)
def test_policies_judge_the_cpus_of_one_container(
    policy: str, free: str, count: int, expected: str | None
) -> None:
    fit = predicate(node(policy, free), task(count, policy=policy))
    if expected is None:
        assert fit.code == "UnschedulableAndUnresolvable"
        assert fit.reason == "container c0 cannot be assigned by numa"
    else:
        assert cpus(fit) == expected


def test_among_equally_narrow_masks_the_smallest_number_wins() -> None:
    wide = node("restricted", "0-3,8-15,16-23,24-31", nodes=4)
    # Nodes 0 and 1 have 12, not enough for 13; of the pairs that have, {1, 2} is the smallest mask.
    assert cpus(predicate(wide, task(13, policy="restricted"))) == "8-20"


def test_sparse_numa_ids_are_no_trouble() -> None:
    assert cpus(predicate(node("single-numa-node", first=5), task(8, policy="single-numa-node"))) == "0-7"


def test_later_containers_get_what_earlier_ones_left() -> None:
    two = predicate(node("single-numa-node"), task(5, 5, policy="single-numa-node"))
    assert cpus(two) == "0-4,8-12"
    three = predicate(node("single-numa-node"), task(5, 5, 5, policy="single-numa-node"))
    assert three.reason == "container c2 cannot be assigned by numa"


def test_fractions_have_no_preference_and_get_nothing() -> None:
    assert cpus(predicate(node("single-numa-node"), task("1500m", policy="single-numa-node"))) == ""


def test_the_reserved_amount_is_taken_by_topology_from_the_whole_machine() -> None:
    assert cpus(predicate(node(reserved=2), task(2))) == "2-3"
    # Reserved by number, whether or not they are free.
    assert cpus(predicate(node(free="4-15", reserved=2), task(2))) == "4-5"


def test_an_unknown_policy_of_the_node_admits_all_and_aligns_nothing() -> None:
    assert cpus(predicate(node("bogus", "6-15"), task(4))) == "6-9"


def test_a_node_without_a_cpu_entry_passes_the_first_container_only() -> None:
    """The plugin writes an entry into its books while it looks at the first one."""
    assert cpus(predicate(node("restricted", None), task(2))) == ""
    assert predicate(node("restricted", None), task(2, 2)).reason == "container c1 cannot be assigned by numa"


def test_a_whole_socket_is_tried_only_if_its_number_is_that_of_a_free_cpu() -> None:
    plan = machine(node().cpus)
    assert list_form(take(plan, CpuSet.parse("0-15").mask, 8) or 0) == "0-7"
    # CPU 1 is taken, so socket 1 is not tried although all of it is free; socket 0 is, with one free CPU.
    assert list_form(take(plan, CpuSet.parse("0,8-15").mask, 8) or 0) == "0,8-14"


def test_core_numbers_that_repeat_in_every_socket_are_taken_together() -> None:
    plan = machine(tuple(Cpu(cpu, cpu // 4, cpu // 4, cpu % 4) for cpu in range(8)))
    assert list_form(take(plan, 0xFF, 2) or 0) == "0,4"


def test_too_few_cpus_are_none() -> None:
    assert take(machine(node().cpus), 0b11, 3) is None
    assert take(machine(()), 0b11, 1) is None


def test_a_bound_task_takes_its_cpus_from_the_node() -> None:
    before = node()
    after = bind(before, predicate(before, task(3)))
    assert list_form(after.free or 0) == "3-15"
    assert bind(before, ANYWHERE) == before


def test_scores_compare_numa_nodes_touched_with_the_worst_candidate() -> None:
    wide = task(6, policy="best-effort")
    fits = [(where, predicate(where, wide)) for where in (node(), node(free="0-3,8-11"), node(free="0-2"))]
    assert [fit.cpus is None for _, fit in fits] == [False, False, False]
    # One NUMA node of two, two of two, and none at all where there are too few CPUs: the best score.
    assert scores(fits, wide) == [50, 0, 100]
    assert scores(fits, wide, weight=10) == [500, 0, 1000]
    assert scores(fits[:1], wide) == [0]
    assert scores(fits[2:], wide) == [100]


def test_without_a_policy_or_an_assignment_there_is_no_score() -> None:
    plain = task(6)
    assert scores([(node(), predicate(node(), plain))], plain) is None
    loose = Task(pod(burstable({"cpu": 1})), "restricted")
    assert scores([(node("restricted"), predicate(node("restricted"), loose))], loose) is None
