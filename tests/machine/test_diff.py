from __future__ import annotations

import msgspec
import pytest

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.diff import compare
from numaware.machine.topology import Device, HugePages, Link, Machine
from numaware.machine.words import TIMES
from support.invented_machines import changed, with_cpu, with_memory_node, with_node, with_virtual_functions

SERVER = synthetic.read("2s x 2n x 8c x 2t +gpu@0,2 +nic@1 mem=64Gi")


def said(a: Machine, b: Machine) -> list[str]:
    return [str(difference) for difference in compare(a, b)]


def test_a_machine_is_like_itself() -> None:
    assert said(SERVER, SERVER) == []


def test_missing_memory_is_told_by_node() -> None:
    assert said(SERVER, with_node(SERVER, 1, memory_bytes=60 << 30)) == [
        "NUMA node 1: memory 64 GiB vs 60 GiB"
    ]


def test_the_same_missing_memory_on_two_nodes_is_one_line() -> None:
    other = with_node(with_node(SERVER, 1, memory_bytes=60 << 30), 3, memory_bytes=60 << 30)
    assert said(SERVER, other) == ["NUMA nodes 1,3: memory 64 GiB vs 60 GiB"]


def test_what_firmware_keeps_is_no_difference() -> None:
    assert said(SERVER, with_node(SERVER, 1, memory_bytes=(64 << 30) - (600 << 20))) == []


def test_free_huge_pages_are_no_difference_but_their_total_is() -> None:
    some, fewer_free, fewer = (
        with_node(SERVER, 0, hugepages=(HugePages(2 << 20, total, free),))
        for total, free in ((512, 512), (512, 3), (256, 3))
    )
    assert said(some, fewer_free) == []
    assert said(some, fewer) == ["NUMA node 0: huge pages of 2Mi 512 vs 256"]


def test_many_offline_cpus_are_one_line_and_move_nothing_else() -> None:
    other = SERVER
    for number in range(32, 64):
        other = with_cpu(other, number, online=False, package=None, numa=None, siblings=CpuSet())
    for node in SERVER.numa:
        other = with_node(other, node.id, cpus=node.cpus - CpuSet(range(32, 64)))
    lines = said(SERVER, other)
    assert "CPUs 32-63: online vs offline" in lines
    assert not [line for line in lines if line.startswith(("NUMA node", "L1", "L2", "L3"))]


def test_sub_numa_clustering_is_named() -> None:
    lines = said(synthetic.read("2s x 1n x 8c"), synthetic.read("2s x 2n x 4c"))
    assert "machine: NUMA nodes 2 vs 4" in lines
    assert "machine: NUMA nodes in each package (SNC or NPS setting) 1 vs 2" in lines


def test_a_device_on_another_node_is_told_by_its_name() -> None:
    gpu = SERVER.devices[0].pci
    moved = tuple(msgspec.structs.replace(f, numa=1) if f.address == gpu else f for f in SERVER.pci)
    assert said(SERVER, changed(SERVER, pci=moved)) == [f"GPU0 at {gpu}: NUMA node 0 vs 1"]


def test_a_missing_device_is_told_once() -> None:
    gpu = SERVER.devices[0].pci
    fewer = tuple(function for function in SERVER.pci if function.address != gpu)
    devices = tuple(device for device in SERVER.devices if device.pci != gpu)
    assert said(SERVER, changed(SERVER, pci=fewer, devices=devices)) == [f"GPU0 at {gpu}: there vs missing"]


def test_another_driver_on_alike_devices_is_one_line() -> None:
    other = tuple(
        msgspec.structs.replace(f, driver="vfio-pci") if f.vendor == "10de" else f for f in SERVER.pci
    )
    [line] = said(changed(SERVER, pci=tuple(f for f in SERVER.pci)), changed(SERVER, pci=other))
    assert line.startswith("GPU0, GPU1 at ")
    assert line.endswith(" vs vfio-pci")


def test_another_chip_at_an_address_is_named() -> None:
    gpu = SERVER.devices[0].pci
    other = tuple(msgspec.structs.replace(f, device="2330") if f.address == gpu else f for f in SERVER.pci)
    [line] = said(SERVER, changed(SERVER, pci=other))
    assert line.endswith("is a NVIDIA 20b0 vs NVIDIA 2330")


def test_virtual_functions_are_one_line_by_card() -> None:
    [line] = said(SERVER, with_virtual_functions(SERVER, 32))
    assert line.startswith(f"32 virtual functions of {SERVER.devices[0].pci} (")
    assert line.endswith("and 29 more): missing vs there")


def test_caches_are_compared_by_size_and_sharing() -> None:
    smaller = tuple(
        msgspec.structs.replace(cache, size_bytes=16 << 20) if cache.level == 3 else cache
        for cache in SERVER.caches
    )
    [line] = said(SERVER, changed(SERVER, caches=smaller))
    assert line == f"L3: 4 {TIMES} 32 MiB for 16 CPUs vs 4 {TIMES} 16 MiB for 16 CPUs"


def test_equal_distance_changes_are_one_line() -> None:
    further = changed(
        SERVER,
        numa=tuple(
            msgspec.structs.replace(
                node, distances=tuple((other, 31 if far == 21 else far) for other, far in node.distances)
            )
            for node in SERVER.numa
        ),
    )
    assert said(SERVER, further) == ["NUMA nodes 0 to 2, 0 to 3, 1 to 2 and 5 more: distance 21 vs 31"]


def test_a_source_without_devices_is_one_line_not_many() -> None:
    lines = said(SERVER, changed(SERVER, pci=(), devices=()))
    assert lines == [f"PCI functions: {len(SERVER.pci)} vs not known"]


def test_links_are_compared_in_either_direction() -> None:
    here = changed(SERVER, links=(Link("GPU0", "GPU1", "NV4"),))
    turned = changed(SERVER, links=(Link("GPU1", "GPU0", "NV4"),))
    slower = changed(SERVER, links=(Link("GPU1", "GPU0", "SYS"),))
    assert said(here, turned) == []
    assert said(here, slower) == ["GPU0 to GPU1: link NV4 vs SYS"]


def test_devices_known_only_by_name_are_compared_by_name() -> None:
    a, b = (changed(Machine(), devices=(Device("GPU0", "gpu", numa=node),)) for node in (0, 1))
    assert said(a, b) == ["GPU0: NUMA node 0 vs 1"]


def test_another_numbering_of_threads_is_one_line_with_an_example() -> None:
    paired = changed(
        SERVER,
        cpus=tuple(
            msgspec.structs.replace(cpu, siblings=CpuSet([cpu.id & ~1, cpu.id | 1])) for cpu in SERVER.cpus
        ),
    )
    assert "CPUs 0-63: other thread siblings, CPU 0 for example: 0,32 vs 0-1" in said(SERVER, paired)


@pytest.mark.parametrize("kind", ["hbm", "cxl"])
def test_an_extra_memory_node_is_missing_in_the_other(kind: str) -> None:
    lines = said(SERVER, with_memory_node(SERVER, kind))
    assert "NUMA node 4: missing vs there" in lines


def test_comparing_the_other_way_round_says_the_same_the_other_way_round() -> None:
    other = with_virtual_functions(with_node(with_cpu(SERVER, 3, online=False), 1, memory_bytes=1 << 30), 4)
    forth, back = compare(SERVER, other), compare(other, SERVER)
    turned = [msgspec.structs.replace(difference, a=difference.b, b=difference.a) for difference in back]
    assert sorted(forth, key=str) == sorted(turned, key=str)
    assert len(forth) > 3
