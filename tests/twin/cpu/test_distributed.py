"""CPUs dealt over NUMA nodes, on machines where the kubelet's own arithmetic matters."""

from __future__ import annotations

import pytest

from numaware.machine.cpuset import CpuSet, list_form
from numaware.twin.cpu.distributed import take_distributed
from numaware.twin.errors import KubeletPanic
from numaware.twin.hardware import CpuPlace, Layout, NumaHardware


def machine(nodes: int, cores: int, threads: int) -> Layout:
    """Nodes of one socket; the second threads of all cores are numbered after the first ones."""
    return Layout(
        tuple(
            NumaHardware(
                node,
                tuple(
                    CpuPlace(thread * nodes * cores + node * cores + core, node * cores + core, 0)
                    for thread in range(threads)
                    for core in range(cores)
                ),
            )
            for node in range(nodes)
        )
    )


def without(layout: Layout, cpus: str) -> int:
    return layout.all_cpus & ~CpuSet.parse(cpus).mask


def test_a_remainder_that_is_no_whole_core_anywhere_is_dealt_forever() -> None:
    """Seven CPUs are free on each of four nodes: 22 leave three on each, and two nodes cannot give three cores."""
    layout = machine(nodes=4, cores=4, threads=2)
    with pytest.raises(KubeletPanic, match="endless loop"):
        take_distributed(layout, without(layout, "0,4,8,12"), 22, 2)


def test_whole_cores_are_dealt_to_an_end() -> None:
    layout = machine(nodes=4, cores=4, threads=2)
    assert take_distributed(layout, without(layout, "0,16"), 22, 2).bit_count() == 22


def test_a_combination_of_ten_nodes_is_overwritten_from_the_tenth_on() -> None:
    """The first node has a CPU less, so the best ten leave it out; the twelfth has taken the eleventh's place by then."""
    layout = machine(nodes=12, cores=4, threads=1)
    taken = take_distributed(layout, without(layout, "0"), 40, 1)
    assert list_form(taken) == "4-39,44-47"
