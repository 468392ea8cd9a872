from __future__ import annotations

from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.numa_of_cpus import home_nodes, near_by_distance

CPUS_OF = {0: CpuSet.parse("0-1"), 1: CpuSet.parse("2-3"), 2: EMPTY, 3: EMPTY}


def test_every_cpu_has_the_node_that_lists_it() -> None:
    assert home_nodes(CPUS_OF) == ({0: 0, 1: 0, 2: 1, 3: 1}, [])


def test_the_first_node_keeps_a_cpu_that_two_list() -> None:
    homes, warnings = home_nodes({4: CpuSet([1, 2]), 2: CpuSet([2, 3])})
    assert homes == {1: 4, 2: 4, 3: 2}
    assert warnings == ["NUMA node 2 lists CPUs 2 that another node lists too"]


def test_the_closest_cpus_are_near() -> None:
    assert near_by_distance(2, {0: 17, 1: 28, 2: 10, 3: 11}, CPUS_OF) == CpuSet.parse("0-1")


def test_equal_distances_say_nothing() -> None:
    assert near_by_distance(2, {0: 28, 1: 28, 2: 10, 3: 40}, CPUS_OF) == EMPTY


def test_the_only_node_with_cpus_is_near() -> None:
    assert near_by_distance(2, {0: 28, 2: 10}, {0: CpuSet([5]), 2: EMPTY}) == CpuSet([5])
    assert near_by_distance(2, {}, CPUS_OF) == EMPTY
