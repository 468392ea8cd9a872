from __future__ import annotations

from collections.abc import Iterable

import pytest

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.machine.hwloc import read
from numaware.machine.hwloc_tree import parse_mask
from numaware.machine.topology import HugePages
from support.invented_machines import numa_node


def obj(kind: str, *inside: str, **attributes: object) -> str:
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<object type="{kind}"{written}>{"".join(inside)}</object>'


def info(name: str, value: str) -> str:
    return f'<info name="{name}" value="{value}"/>'


def topology(*inside: str, version: str | None = "2.0") -> bytes:
    number = "" if version is None else f' version="{version}"'
    return f'<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology{number}>{"".join(inside)}</topology>'.encode()


def mask(cpus: Iterable[int]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


def core(number: int, *threads: int) -> str:
    pus = (obj("PU", os_index=thread, cpuset=mask([thread])) for thread in threads)
    return obj("Core", *pus, os_index=number, cpuset=mask(threads))


def node(number: int, cpus: Iterable[int], *inside: str, **attributes: object) -> str:
    return obj("NUMANode", *inside, os_index=number, cpuset=mask(cpus), **attributes)


def package(number: int, cpus: Iterable[int], *inside: str, **attributes: object) -> str:
    return obj("Package", *inside, os_index=number, cpuset=mask(cpus), **attributes)


def machine_object(cpus: Iterable[int], *inside: str, **attributes: object) -> str:
    return obj("Machine", *inside, os_index=0, cpuset=mask(cpus), **attributes)


PAGES = '<page_type size="4096" count="9"/><page_type size="1073741824" count="1"/><page_type size="2097152" count="3"/>'
L3 = {"cache_size": 1 << 20, "depth": 3, "cache_type": 0}
MATRIX = (
    '<distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="{}">'
    '<indexes length="4">{}</indexes><u64values length="9">10 21 </u64values><u64values length="6">22 10 </u64values>'
    "</distances2>"
)
TWO_PACKAGES = machine_object(
    range(8),
    info("DMIProductName", "Box 3000"),
    info("DMISysVendor", "Maker"),
    info("Architecture", "x86_64"),
    package(
        0,
        [0, 1, 4, 5],
        info("CPUModel", "Fast CPU"),
        node(0, [0, 1, 4, 5], PAGES, local_memory=1 << 33, gp_index=11),
        obj("L3Cache", core(0, 0, 4), core(1, 1, 5), cpuset=mask([0, 1, 4, 5]), **L3),
    ),
    package(
        1,
        [2, 3, 6, 7],
        info("CPUModel", "Fast CPU"),
        node(8, [2, 3, 6, 7], local_memory=1 << 32, gp_index=12),
        obj("L3Cache", core(0, 2, 6), core(1, 3, 7), cpuset=mask([2, 3, 6, 7]), **L3),
        obj(
            "Bridge",
            obj(
                "Bridge",
                obj(
                    "PCIDev",
                    obj("OSDev", name="cuda0", subtype="CUDA", osdev_type=5),
                    obj("OSDev", name="card0", osdev_type=1),
                    pci_busid="0000:86:00.0",
                    pci_type="0302 [10de:1db6] [10de:1249] a1",
                ),
                pci_busid="0000:85:00.0",
                pci_type="0604 [8086:2030] [0000:0000] 04",
                bridge_type="1-1",
            ),
            bridge_type="0-1",
        ),
    ),
    complete_cpuset=mask(range(8)),
    allowed_cpuset=mask(range(7)),
    allowed_nodeset=mask([0]),
)


def test_the_tree_gives_cpus_packages_cores_and_nodes() -> None:
    machine = read(topology(TWO_PACKAGES))
    assert [(cpu.package, cpu.core, cpu.numa, str(cpu.siblings)) for cpu in machine.cpus[:4]] == [
        (0, 0, 0, "0,4"),
        (0, 1, 0, "1,5"),
        (1, 0, 8, "2,6"),
        (1, 1, 8, "3,7"),
    ]
    assert [(each.id, str(each.cpus), each.memory_bytes) for each in machine.numa] == [
        (0, "0-1,4-5", 1 << 33),
        (8, "2-3,6-7", 1 << 32),
    ]
    assert [(c.level, c.type, str(c.cpus), c.size_bytes) for c in machine.caches] == [
        (3, "Unified", "0-1,4-5", 1 << 20),
        (3, "Unified", "2-3,6-7", 1 << 20),
    ]
    assert (machine.vendor, machine.product, machine.model, machine.architecture) == (
        "Maker",
        "Box 3000",
        "Fast CPU",
        "x86_64",
    )


def test_what_a_cgroup_forbids_is_listed_as_not_allowed() -> None:
    machine = read(topology(TWO_PACKAGES))
    assert [cpu.id for cpu in machine.cpus if not cpu.allowed] == [7]
    assert [each.allowed for each in machine.numa] == [True, False]


def test_the_smallest_page_is_not_huge() -> None:
    assert numa_node(read(topology(TWO_PACKAGES)), 0).hugepages == (
        HugePages(2 << 20, 3),
        HugePages(1 << 30, 1),
    )


@pytest.mark.parametrize(("indexing", "indexes"), [("os", "0 8 "), ("gp", "11 12 ")])
def test_distances_are_read_by_either_index(indexing: str, indexes: str) -> None:
    machine = read(topology(TWO_PACKAGES, MATRIX.format(indexing, indexes)))
    assert [each.distances for each in machine.numa] == [((0, 10), (8, 21)), ((0, 22), (8, 10))]


@pytest.mark.parametrize(
    "matrix",
    [
        MATRIX.format("os", "0 3 "),
        MATRIX.format("os", "0 8 9 "),
        MATRIX.format("os", "0 8 ").replace('kind="5"', 'kind="9"'),
        MATRIX.format("os", "0 8 ").replace("NUMANode", "OSDev"),
        MATRIX.format("os", "0 8 ").replace("22 10", "22 " * 1000),
    ],
)
def test_a_matrix_of_something_else_is_no_distances(matrix: str) -> None:
    assert {each.distances for each in read(topology(TWO_PACKAGES, matrix)).numa} == {()}


def test_pci_functions_know_their_bridge_and_their_node() -> None:
    bridge, gpu = read(topology(TWO_PACKAGES)).pci
    assert (bridge.address, bridge.class_code, bridge.parent, bridge.numa) == (
        "0000:85:00.0",
        "060400",
        None,
        8,
    )
    assert (gpu.address, gpu.class_code, gpu.vendor, gpu.device) == ("0000:86:00.0", "030200", "10de", "1db6")
    assert (gpu.parent, gpu.numa, str(gpu.local_cpus)) == ("0000:85:00.0", 8, "2-3,6-7")


def test_a_function_local_to_several_nodes_has_none() -> None:
    device = obj("PCIDev", pci_busid="0000:01:00.0", pci_type="0200 [8086:1521] [1137:008b] 01")
    inside = (node(0, [0]), node(1, [1]), core(0, 0), core(1, 1), device)
    (function,) = read(topology(machine_object([0, 1], *inside))).pci
    assert (function.numa, str(function.local_cpus)) == (None, "0-1")


def test_the_programming_interface_is_taken_where_it_is_written() -> None:
    device = obj("PCIDev", pci_busid="0000:01:00.0", pci_type="0108 [144d:a80a] [144d:a801] 00 02")
    assert (
        read(topology(machine_object([0], core(0, 0), device), version="3.0")).pci[0].class_code == "010802"
    )


@pytest.mark.parametrize(
    ("version", "name", "code", "pci_type", "kind"),
    [
        ("2.0", "eth0", 2, "0200", "nic"),
        ("2.0", "mlx5_0", 3, "0207", "nic"),
        ("2.0", "nvme0n1", 0, "0108", "nvme"),
        ("2.0", "sda", 0, "0106", "other"),
        ("2.0", "card0", 1, "0300", "gpu"),
        ("2.0", "opencl0d0", 5, "0302", "gpu"),
        ("2.0", "mic0", 5, "0b40", "other"),
        ("2.0", "dma0chan0", 4, "0880", "other"),
        ("3.0", "eth0", 16, "0200", "nic"),
        ("3.0", "mlx5_0", 48, "0207", "nic"),
        ("3.0", "nvme0n1", 1, "0108", "nvme"),
        ("3.0", "cuda0", 12, "0302", "gpu"),
        ("3.0", "dma0chan0", 64, "0880", "other"),
        ("2.0", "odd0", 99, "0000", "other"),
    ],
)
def test_devices_have_the_kind_of_their_type(
    version: str, name: str, code: int, pci_type: str, kind: str
) -> None:
    device = obj("OSDev", name=name, osdev_type=code)
    function = obj("PCIDev", device, pci_busid="0000:01:00.0", pci_type=f"{pci_type} [1234:5678]")
    machine = read(topology(machine_object([0], node(0, [0]), core(0, 0), function), version=version))
    (found,) = machine.devices
    assert (found.name, found.kind, found.pci, found.numa) == (name, kind, "0000:01:00.0", 0)


def test_an_address_listed_twice_is_kept_and_told() -> None:
    device = obj("PCIDev", pci_busid="0000:01:00.0", pci_type="0200 [8086:1521]")
    machine = read(topology(machine_object([0], core(0, 0), device, device)))
    assert len(machine.pci) == 2
    assert machine.warnings == ("PCI function 0000:01:00.0 is listed twice",)


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("DRAM", "dram"),
        ("HBM", "hbm"),
        ("MCDRAM", "hbm"),
        ("NVM", "nvm"),
        ("GPUMemory", "gpu"),
        ("CXL-DRAM", "cxl"),
        ("CXLMemory", "cxl"),
        ("Other", None),
    ],
)
def test_the_subtype_of_a_node_is_its_kind(subtype: str, kind: str | None) -> None:
    machine = read(topology(machine_object([0], node(0, [0], subtype=subtype), core(0, 0))))
    assert numa_node(machine, 0).kind == kind


def test_nodes_that_name_the_same_cpus_share_them_by_kind_then_by_id() -> None:
    nodes = (node(0, [0], subtype="HBM"), node(1, [1]), node(2, [0], subtype="DRAM"), node(3, [1]))
    machine = read(topology(machine_object([0, 1], *nodes, core(0, 0), core(1, 1))))
    assert [(each.id, str(each.cpus), str(each.nearest_cpus)) for each in machine.numa] == [
        (0, "", "0"),
        (1, "1", "1"),
        (2, "0", "0"),
        (3, "", "1"),
    ]
    assert [cpu.numa for cpu in machine.cpus] == [2, 1]


def kinds(*described: tuple[str, str]) -> bytes:
    elements = (
        f'<cpukind cpuset="{mask([cpu])}"{attribute}>{inside}</cpukind>'
        for cpu, (attribute, inside) in enumerate(described)
    )
    cpus = range(len(described))
    return topology(machine_object(cpus, *(core(cpu, cpu) for cpu in cpus)), *elements)


def test_cores_are_told_apart_by_type_or_by_efficiency() -> None:
    by_type = kinds(("", info("CoreType", "IntelAtom")), ("", info("CoreType", "IntelCore")))
    assert [cpu.kind for cpu in read(by_type).cpus] == ["E", "P"]
    by_rank = kinds((' forced_efficiency="1"', ""), (' forced_efficiency="0"', ""))
    assert [cpu.kind for cpu in read(by_rank).cpus] == ["P", "E"]


def test_one_kind_or_three_kinds_are_not_named() -> None:
    ranks = [(f' forced_efficiency="{rank}"', "") for rank in range(3)]
    assert {cpu.kind for cpu in read(kinds(*ranks)).cpus} == {None}
    assert {cpu.kind for cpu in read(kinds(("", info("FrequencyMaxMHz", "3000")))).cpus} == {None}


def test_cpus_that_hwloc_left_out_are_told() -> None:
    machine = read(topology(machine_object([0], core(0, 0), complete_cpuset="0xf")))
    assert machine.warnings == ("CPUs 1-3 are offline or forbidden; hwloc does not say which",)
    assert [cpu.id for cpu in machine.cpus] == [0]


def test_dies_and_clusters_have_their_ids() -> None:
    cluster = obj("Group", core(5, 0), os_index=7, subtype="Cluster", cpuset="0x1")
    die = obj("Die", cluster, os_index=3, cpuset="0x1")
    (cpu,) = read(topology(machine_object([0], package(1, [0], die)))).cpus
    assert (cpu.package, cpu.die, cpu.cluster, cpu.core) == (1, 3, 7, 5)


def test_threads_outside_of_cores_have_unknown_siblings() -> None:
    machine = read(topology(machine_object([0], obj("PU", os_index=0, cpuset="0x1"))))
    assert machine.cpus[0].siblings == CpuSet()


OLD = topology(
    machine_object(
        [0, 1, 2],
        info("CPUModel", "Old CPU"),
        '<distances nbobjs="2" relative_depth="1" latency_base="10.000000">'
        '<latency value="1.000000"/><latency value="2.100000"/>'
        '<latency value="2.000000"/><latency value="1.000000"/></distances>',
        obj(
            "NUMANode",
            obj(
                "Socket",
                obj("Cache", core(0, 0), cpuset="0x1", cache_size=2048, depth=2, cache_type=1),
                os_index=0,
                cpuset="0x1",
            ),
            os_index=0,
            cpuset="0x1",
            local_memory=4096,
        ),
        obj("NUMANode", obj("Socket", core(0, 1, 2), os_index=1, cpuset="0x6"), os_index=1, cpuset="0x6"),
        online_cpuset="0x3",
        allowed_cpuset="0xf...f",
        allowed_nodeset="0xf...f,0x1",
    ),
    version=None,
)


def test_version_one_nests_sockets_in_nodes_and_scales_distances() -> None:
    machine = read(OLD)
    assert [(each.id, str(each.cpus), each.memory_bytes, each.distances) for each in machine.numa] == [
        (0, "0", 4096, ((0, 10), (1, 21))),
        (1, "1-2", None, ((0, 20), (1, 10))),
    ]
    assert [(cpu.package, cpu.numa, cpu.online) for cpu in machine.cpus] == [
        (0, 0, True),
        (1, 1, True),
        (1, 1, False),
    ]
    assert [(c.level, c.type, str(c.cpus), c.size_bytes) for c in machine.caches] == [(2, "Data", "0", 2048)]
    assert machine.model == "Old CPU"
    assert [each.allowed for each in machine.numa] == [True, False]


def test_a_machine_without_nodes_keeps_its_memory() -> None:
    machine = read(topology(machine_object([0], core(0, 0), local_memory=77), version=None))
    assert (machine.numa, machine.memory_bytes) == ((), 77)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0x0000000f", "0-3"),
        ("0x1,0x0", "32"),
        ("0x00000303,,0x3", "0-1,64-65,72-73"),
        ("0x0", ""),
        ("0xf...f,0xfffffffe", f"1-{65535}"),
    ],
)
def test_masks_have_words_blanks_and_endless_ones(text: str, cpus: str) -> None:
    assert str(parse_mask(text)) == cpus


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<system/>",
        b"<topology/>",
        topology(machine_object([0], core(0, 0), core(0, 0))),
        topology(machine_object([0], node(0, [0]), node(0, [0]))),
        topology(obj("Machine", obj("PU", os_index=70000))),
        topology(obj("Machine", obj("NUMANode", os_index=0, cpuset="zz"))),
        topology(obj("Machine", obj("L3Cache", depth=3, cpuset="0x1" + "," * 5000))),
        b"<topology>" + b'<object type="Group">' * 1000,
    ],
)
def test_what_is_not_such_a_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "m.xml")
    assert caught.value.source == "m.xml"
