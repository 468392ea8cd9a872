from __future__ import annotations

import msgspec
import pytest

from numaware.machine import lscpu, numactl, nvidia_smi, synthetic
from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.merge import merge
from numaware.machine.topology import Cache, Cpu, Device, HugePages, Link, Machine, NumaNode, PciDevice
from support.invented_machines import numa_node

TOPO = b"""      GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity
GPU0   X   SYS  PIX  0-3,8-11     0
GPU1  SYS   X   SYS  4-7,12-15    1
NIC0  PIX  SYS   X
NIC0: mlx5_0
"""


def warnings(*machines: Machine) -> tuple[str, ...]:
    return merge([(name, machine) for name, machine in zip("abc", machines, strict=False)]).warnings


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="nothing"):
        merge([])


def test_every_source_adds_what_it_knows() -> None:
    summary = lscpu.read(
        b"Architecture: x86_64\nModel name: Fast\nNUMA node0 CPU(s): 0-1\nNUMA node1 CPU(s): 2-3\n"
    )
    table = lscpu.read(b"# CPU,Core,Socket,Node,,L3\n0,0,0,0,,0\n1,0,0,0,,0\n2,1,1,1,,1\n3,1,1,1,,1\n")
    nodes = numactl.read(
        b"node 0 cpus: 0 1\nnode 0 size: 5 MB\nnode 1 cpus: 2 3\nnode 0 1\n0: 10 21\n1: 21 10\n"
    )
    merged = merge([("lscpu", summary), ("lscpu -p", table), ("numactl", nodes)])
    assert merged.warnings == ()
    assert (merged.architecture, merged.model) == ("x86_64", "Fast")
    assert merged.cpus == table.cpus
    assert merged.caches == table.caches
    assert merged.numa == nodes.numa


def test_a_contradiction_names_both_sources_and_values_and_the_first_wins() -> None:
    a = Machine(architecture="x86_64", cpus=(Cpu(0, package=1), Cpu(1, package=1)))
    b = Machine(architecture="aarch64", cpus=(Cpu(0, package=2), Cpu(1, package=3)))
    merged = merge([("lscpu", a), ("hwloc", b)])
    assert merged.cpus == a.cpus
    assert merged.warnings == (
        "machine: architecture is x86_64 in lscpu but aarch64 in hwloc; lscpu is taken",
        "CPU 0 (and 1 more): package is 1 in lscpu but 2 in hwloc; lscpu is taken",
    )


def test_the_third_source_is_compared_with_the_first_that_knew() -> None:
    machines = [Machine(), Machine(vendor="X"), Machine(vendor="Y")]
    assert warnings(*machines) == ("machine: vendor is X in b but Y in c; b is taken",)


def test_cpus_that_only_one_source_lists_do_not_contradict() -> None:
    part = Machine(cpus=(Cpu(0, siblings=CpuSet([0])),), caches=(Cache(3, "Unified", CpuSet([0])),))
    both = CpuSet([0, 1])
    whole = Machine(
        cpus=(Cpu(0, siblings=both), Cpu(1, siblings=both)), caches=(Cache(3, "Unified", both, 1024),)
    )
    assert merge([("container", part), ("host", whole)]) == whole
    assert merge([("host", whole), ("container", part)]) == whole


def test_cpus_that_both_sources_list_do() -> None:
    a = Machine(cpus=(Cpu(0, siblings=CpuSet([0])), Cpu(1, siblings=CpuSet([1]))))
    b = Machine(cpus=(Cpu(0, siblings=CpuSet([0, 1])), Cpu(1, siblings=CpuSet([0, 1]))))
    assert warnings(a, b) == ("CPU 0 (and 1 more): siblings is 0 in a but 0-1 in b; a is taken",)


def test_caches_cut_differently_are_told() -> None:
    cpus = tuple(Cpu(cpu) for cpu in range(4))
    a = Machine(cpus=cpus, caches=(Cache(2, "Unified", CpuSet([0, 1])), Cache(2, "Unified", CpuSet([2, 3]))))
    b = Machine(cpus=cpus, caches=(Cache(2, "Unified", CpuSet([1, 2])), Cache(1, "Data", CpuSet([0]))))
    merged = merge([("a", a), ("b", b)])
    assert [(cache.level, str(cache.cpus)) for cache in merged.caches] == [(1, "0"), (2, "0-1"), (2, "2-3")]
    assert merged.warnings == ("L2 unified cache of CPUs 0-1: cpus is 0-1 in a but 1-2 in b; a is taken",)


def test_memory_in_whole_megabytes_agrees_with_the_exact_number() -> None:
    exact, rounded = 193129 * 2**20 + 4096, 193129 * 2**20
    for first, second in ((exact, rounded), (rounded, exact)):
        a, b = (Machine(numa=(NumaNode(0, memory_bytes=size),)) for size in (first, second))
        merged = merge([("a", a), ("b", b)])
        assert (numa_node(merged, 0).memory_bytes, merged.warnings) == (exact, ())
    a, b = (Machine(memory_bytes=size) for size in (exact, exact + 4096))
    assert len(warnings(a, b)) == 1


def test_a_class_without_interface_agrees_with_the_full_one() -> None:
    short = Machine(pci=(PciDevice("0000:01:00.0", "010800", "144d", ""),))
    full = Machine(pci=(PciDevice("0000:01:00.0", "010802", "", "a80a"),))
    (function,) = merge([("a", short), ("b", full)]).pci
    assert (function.class_code, function.vendor, function.device) == ("010802", "144d", "a80a")
    other = Machine(pci=(PciDevice("0000:01:00.0", "020000", "", ""),))
    assert len(warnings(short, other)) == 1


def test_a_cpu_placed_twice_stays_where_the_first_source_has_it() -> None:
    a = numactl.read(b"node 0 cpus: 0 1\nnode 1 cpus: 2\n")
    b = numactl.read(b"node 0 cpus: 0\nnode 1 cpus: 1 2 3\n")
    merged = merge([("a", a), ("b", b)])
    assert [(node.id, str(node.cpus), str(node.nearest_cpus)) for node in merged.numa] == [
        (0, "0-1", "0-1"),
        (1, "2-3", "2-3"),
    ]
    assert merged.warnings == ("CPU 1: numa is 0 in a but 1 in b; a is taken",)


def test_distances_and_pages_are_joined_pair_by_pair() -> None:
    a = Machine(numa=(NumaNode(0, distances=((0, 10),), hugepages=(HugePages(1024, 5, None),)),))
    b = Machine(
        numa=(
            NumaNode(0, distances=((0, 11), (1, 20)), hugepages=(HugePages(1024, 5, 2), HugePages(2048, 1))),
        )
    )
    merged = merge([("a", a), ("b", b)])
    assert numa_node(merged, 0).distances == ((0, 10), (1, 20))
    assert numa_node(merged, 0).hugepages == (HugePages(1024, 5, 2), HugePages(2048, 1))
    assert merged.warnings == ("NUMA node 0: distance to 0 is 10 in a but 11 in b; a is taken",)


def test_what_one_source_forbids_is_forbidden() -> None:
    free, bound = (
        Machine(cpus=(Cpu(0, allowed=allowed),), numa=(NumaNode(0, allowed=allowed),))
        for allowed in (True, False)
    )
    merged = merge([("a", free), ("b", bound)])
    assert (merged.cpus[0].allowed, merged.numa[0].allowed, merged.warnings) == (False, False, ())


def test_the_near_cpus_of_a_node_without_cpus_are_kept() -> None:
    a = Machine(numa=(NumaNode(2, kind="hbm", nearest_cpus=CpuSet([1])),))
    b = Machine(numa=(NumaNode(2, memory_bytes=5),))
    (node,) = merge([("a", a), ("b", b)]).numa
    assert (node.cpus, node.nearest_cpus, node.kind, node.memory_bytes) == (EMPTY, CpuSet([1]), "hbm", 5)


def test_a_link_is_the_same_in_either_direction() -> None:
    a, b = (
        Machine(links=(Link("x", "y", "PIX"),)),
        Machine(links=(Link("y", "x", "PIX"), Link("x", "z", "SYS"))),
    )
    assert merge([("a", a), ("b", b)]).links == (Link("x", "y", "PIX"), Link("x", "z", "SYS"))
    c = Machine(links=(Link("y", "x", "NODE"),))
    assert warnings(a, c) == ("link x to y: type is PIX in a but NODE in b; a is taken",)


def test_gpus_get_the_addresses_that_come_in_the_same_order() -> None:
    tree = msgspec.structs.replace(synthetic.read("2s x 4c x 2t +gpu@0,1 +nic@0"), devices=())
    tree = msgspec.structs.replace(tree, devices=(Device("mlx5_0", "nic", "0000:01:01.0"),))
    table = nvidia_smi.read(TOPO)
    for machines in ([("sysfs", tree), ("nvidia-smi", table)], [("nvidia-smi", table), ("sysfs", tree)]):
        merged = merge(machines)
        assert {device.name: device.pci for device in merged.devices} == {
            "GPU0": "0000:01:00.0",
            "GPU1": "0001:01:00.0",
            "NIC0": "0000:01:01.0",
            "mlx5_0": "0000:01:01.0",
        }
        assert {device.name: device.numa for device in merged.devices}["NIC0"] == 0
        assert merged.links == table.links
        assert merged.warnings == ()


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ("2s x 4c x 2t +gpu@0,1,1", "nvidia-smi: 2 GPUs, but 3 NVIDIA GPUs on PCI"),
        ("2s x 4c x 2t +gpu@1,1", "nvidia-smi: GPU0 is on NUMA node 0, but 0001:01:00.0 on 1"),
    ],
)
def test_gpus_that_do_not_fit_are_kept_apart(shape: str, problem: str) -> None:
    tree, table = synthetic.read(shape), nvidia_smi.read(TOPO)
    merged = merge([("sysfs", tree), ("nvidia-smi", table)])
    assert [device.name for device in merged.devices if device.pci is None] == [
        "nvidia-smi:GPU0",
        "nvidia-smi:GPU1",
        "NIC0",
    ]
    assert merged.links[0] == Link("nvidia-smi:GPU0", "nvidia-smi:GPU1", "SYS")
    assert [device for device in merged.devices if device.pci] == list(tree.devices)
    assert merged.warnings == (f"{problem}; its GPUs are kept apart from those of other sources",)


def test_warnings_of_the_sources_are_kept_once() -> None:
    assert warnings(Machine(warnings=("one", "two")), Machine(warnings=("two", "three"))) == (
        "one",
        "two",
        "three",
    )
