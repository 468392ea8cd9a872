"""Rules of the sysfs reader on small made-up machines; whole real machines are in conformance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from numaware.errors import InputError
from numaware.machine import sysfs
from numaware.machine.codec import decode, encode
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Cache, Machine
from numaware.machine.tree import open_tree
from support.invented_machines import numa_node
from support.made_machine import (
    CPU,
    NODE,
    cache_files,
    cpu_files,
    mask,
    node_files,
    pci_files,
    two_nodes,
    write,
)

STATUS = "proc/self/cgroup"


def read(root: Path, files: dict[str, str]) -> Machine:
    return sysfs.read(open_tree(write(root, files)))


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_a_plain_machine_is_read_whole(tmp_path: Path) -> None:
    machine = read(tmp_path, two_nodes())
    assert machine.warnings == ()
    assert [package.cpus for package in machine.packages] == [cpus("0,2,4,6"), cpus("1,3,5,7")]
    assert machine.core_count == 4
    assert machine.caches == (
        *(Cache(1, "Data", cpus(f"{cpu},{cpu + 4}"), 32 << 10) for cpu in range(4)),
        Cache(3, "Unified", cpus("0,2,4,6"), 1 << 20),
        Cache(3, "Unified", cpus("1,3,5,7"), 1 << 20),
    )
    assert [node.distances for node in machine.numa] == [((0, 10), (1, 21)), ((0, 21), (1, 10))]
    assert [node.kind for node in machine.numa] == ["dram", "dram"]
    assert machine.memory_bytes == 2048 << 10
    assert [cpu.numa for cpu in machine.cpus] == [0, 1] * 4
    assert decode(encode(machine)) == machine


def test_an_off_line_cpu_is_listed_without_a_place(tmp_path: Path) -> None:
    machine = read(tmp_path, two_nodes() | {f"{CPU}/online": "0-4,6-7\n"})
    offline = machine.cpus[5]
    assert (offline.online, offline.package, offline.core, offline.numa) == (False, None, None, None)
    assert machine.offline == cpus("5")
    assert machine.cpus[1].siblings == cpus("1")
    assert all(5 not in cache.cpus for cache in machine.caches)


def test_without_a_list_of_on_line_cpus_each_cpu_tells_for_itself(tmp_path: Path) -> None:
    files = two_nodes() | {f"{CPU}/cpu3/online": "0\n", f"{CPU}/cpu4/online": "1\n"}
    del files[f"{CPU}/online"]
    assert read(tmp_path, files).offline == cpus("3")


def test_packages_without_a_number_are_numbered_by_their_first_cpu(tmp_path: Path) -> None:
    files = two_nodes()
    for cpu in range(8):
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = "-1\n"
        files[f"{CPU}/cpu{cpu}/topology/core_siblings"] = mask(range(cpu % 2, 8, 2))
    machine = read(tmp_path, files)
    assert [(package.id, str(package.cpus)) for package in machine.packages] == [
        (0, "0,2,4,6"),
        (1, "1,3,5,7"),
    ]
    assert len(machine.warnings) == 1
    assert "does not number the packages" in machine.warnings[0]


def test_two_cores_that_share_a_unit_are_two_cores(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0-1\n"}
    for cpu in range(2):
        files |= cpu_files(cpu, package=0, core=cpu, threads=[0, 1])
    assert read(tmp_path, files).core_count == 2


def test_a_kernel_without_topology_files_is_described_by_cpuinfo(tmp_path: Path) -> None:
    block = "processor : {}\nphysical id : {}\ncore id : {}\nmodel name : Some  CPU\n\n"
    info = "".join(block.format(cpu, cpu // 4, cpu // 2 % 2) for cpu in range(8))
    directories = {f"{CPU}/cpu{cpu}/online": "1\n" for cpu in range(8)}
    for machine in (
        read(tmp_path / "bare", {"proc/cpuinfo": info}),
        read(tmp_path / "old", {"proc/cpuinfo": info} | directories),
    ):
        assert [package.cpus for package in machine.packages] == [cpus("0-3"), cpus("4-7")]
        assert machine.cpus[0].siblings == cpus("0-1")
        assert machine.core_count == 4
        assert machine.model == "Some CPU"
        assert machine.numa[0].cpus == cpus("0-7")


@pytest.mark.parametrize(
    ("text", "architecture", "model"),
    [
        ("processor : 0\nvendor_id : GenuineIntel\nmodel name : X\nflags : fpu lm\n", "x86_64", "X"),
        ("processor : 0\nvendor_id : GenuineIntel\nflags : fpu\n", "i686", None),
        ("processor : 0\nCPU architecture: 8\n", "aarch64", None),
        ("Processor : ARMv7 rev 4\nprocessor : 0\n\nCPU architecture: 7\n", "armv7l", "ARMv7 rev 4"),
        ("vendor_id : IBM/S390\nprocessor 0: version = FF\nprocessor 1: version = FF\n", "s390x", None),
        ("processor : 0\nhart : 1\nisa : rv64imafdc\nuarch : sifive,u74\n", "riscv64", "sifive,u74"),
        ("processor : 0\ncpu : POWER9\n", None, "POWER9"),
    ],
)
def test_cpuinfo_gives_architecture_and_model(
    tmp_path: Path, text: str, architecture: str | None, model: str | None
) -> None:
    machine = read(tmp_path, {"proc/cpuinfo": text})
    assert (machine.architecture, machine.model) == (architecture, model)


def test_the_kernels_own_word_on_the_architecture_comes_first(tmp_path: Path) -> None:
    files = two_nodes() | {"proc/cpuinfo": "processor : 0\nCPU architecture: 8\n"}
    assert read(tmp_path / "a", files | {"proc/sys/kernel/arch": "riscv64\n"}).architecture == "riscv64"
    note = {"proc/hwloc-nofile-info": "OSName: Linux\nArchitecture: ppc64le\n"}
    assert read(tmp_path / "b", files | note).architecture == "ppc64le"


def test_the_maker_is_read_from_dmi_or_the_device_tree(tmp_path: Path) -> None:
    dmi = {"sys/class/dmi/id/sys_vendor": "Acme\n", "sys/class/dmi/id/product_name": "Rack 1 \n"}
    machine = read(tmp_path / "a", two_nodes() | dmi)
    assert (machine.vendor, machine.product) == ("Acme", "Rack 1")
    board = read(tmp_path / "b", two_nodes() | {"sys/firmware/devicetree/base/model": "Board\x00"})
    assert (board.vendor, board.product) == (None, "Board")


def test_a_cache_of_a_map_without_cpus_belongs_to_its_core(tmp_path: Path) -> None:
    files = two_nodes()
    for cpu in range(8):
        files |= cache_files(cpu, 5, level=2, kind="Instruction", cpus=[], size="256K")
    shared = [str(cache.cpus) for cache in read(tmp_path, files).caches if cache.level == 2]
    assert shared == ["0,4", "1,5", "2,6", "3,7"]


def test_unlike_cores_may_have_unlike_caches(tmp_path: Path) -> None:
    files = two_nodes()
    for cpu in (3, 7):
        files |= cache_files(cpu, 0, level=1, kind="Data", cpus=[3, 7], size="48K")
        files |= cache_files(cpu, 2, level=2, kind="Unified", cpus=[3, 7], size="2048K")
    caches = read(tmp_path, files).caches
    assert Cache(1, "Data", cpus("3,7"), 48 << 10) in caches
    assert [cache for cache in caches if cache.level == 2] == [Cache(2, "Unified", cpus("3,7"), 2 << 20)]


def test_a_cache_is_found_by_its_list_where_there_is_no_map(tmp_path: Path) -> None:
    files = two_nodes()
    for cpu in range(8):
        del files[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_map"]
        files[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = "0-7\n"
    assert [str(cache.cpus) for cache in read(tmp_path, files).caches if cache.level == 3] == ["0-7"]


def test_a_kernel_without_numa_has_one_node_with_everything(tmp_path: Path) -> None:
    files = {name: text for name, text in two_nodes().items() if not name.startswith(NODE)}
    pool = "sys/kernel/mm/hugepages/hugepages-2048kB"
    machine = read(tmp_path, files | {f"{pool}/nr_hugepages": "8\n", f"{pool}/free_hugepages": "3\n"})
    (node,) = machine.numa
    assert (node.id, str(node.cpus), node.memory_bytes, node.distances) == (0, "0-7", 2048 << 10, ())
    assert [(pages.size_bytes, pages.total, pages.free) for pages in node.hugepages] == [(2 << 20, 8, 3)]


def cpuless(node: int = 4, distances: str = "17 28 10") -> dict[str, str]:
    """A third node, number 4, with memory and no CPUs, and distances of three to each node."""
    files = two_nodes() | {f"{NODE}/online": "0-1,4\n"}
    files |= node_files(node, cpus=[], memory_kb=4096, distances=distances)
    return files | {f"{NODE}/node0/distance": "10 21 17\n", f"{NODE}/node1/distance": "21 10 28\n"}


def test_a_sparse_node_has_its_distances_under_its_own_number(tmp_path: Path) -> None:
    machine = read(tmp_path, cpuless())
    assert [node.id for node in machine.numa] == [0, 1, 4]
    assert numa_node(machine, 4).distances == ((0, 17), (1, 28), (4, 10))


def test_memory_without_cpus_is_near_the_node_at_the_least_distance(tmp_path: Path) -> None:
    node = numa_node(read(tmp_path, cpuless()), 4)
    assert (str(node.cpus), str(node.nearest_cpus), node.kind) == ("", "0,2,4,6", None)


def test_memory_without_cpus_that_is_as_far_from_all_is_near_to_none(tmp_path: Path) -> None:
    assert str(numa_node(read(tmp_path, cpuless(distances="20 20 10")), 4).nearest_cpus) == ""


def test_initiators_tell_better_than_distances(tmp_path: Path) -> None:
    access = {f"{NODE}/node4/access0/initiators/node1": "->../../../node1"}
    assert str(numa_node(read(tmp_path, cpuless() | access), 4).nearest_cpus) == "1,3,5,7"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("LNXSYSTM:00/ACPI0012:00/ndbus0/region1/dax1.0", "nvm"),
        ("platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0", "cxl"),
        ("platform/hmem.0", None),
    ],
)
def test_memory_behind_a_dax_device_is_told_by_its_path(tmp_path: Path, path: str, kind: str | None) -> None:
    dax = {
        f"sys/devices/{path}/dax0.0/target_node": "4\n",
        "sys/bus/dax/devices/dax0.0": f"->../../../devices/{path}/dax0.0",
        "sys/bus/dax/drivers/kmem/dax0.0": f"->../../../../devices/{path}/dax0.0",
    }
    assert numa_node(read(tmp_path, cpuless() | dax), 4).kind == kind


def test_memory_of_many_times_the_bandwidth_is_hbm(tmp_path: Path) -> None:
    speeds = {f"{NODE}/node{n}/access0/initiators/read_bandwidth": f"{b}\n" for n, b in ((0, 100), (4, 400))}
    assert numa_node(read(tmp_path, cpuless() | speeds), 4).kind == "hbm"


def test_memory_of_a_faster_tier_is_hbm(tmp_path: Path) -> None:
    tiers = "sys/devices/virtual/memory_tiering/memory_tier"
    files = cpuless() | {f"{tiers}2/nodelist": "4\n", f"{tiers}4/nodelist": "0-1\n"}
    assert numa_node(read(tmp_path, files), 4).kind == "hbm"


def test_memory_of_a_gpu_is_near_the_gpu(tmp_path: Path) -> None:
    gpu = {
        "proc/driver/nvidia/gpus/0000:01:00.0/numa_status": "Node:  4\nStatus: online\n",
        "sys/bus/pci/devices/0000:01:00.0/local_cpus": mask(range(1, 8, 2)),
    }
    node = numa_node(read(tmp_path, cpuless() | gpu), 4)
    assert (node.kind, str(node.nearest_cpus)) == ("gpu", "1,3,5,7")


def test_a_cpu_in_two_nodes_goes_to_the_first_and_is_told(tmp_path: Path) -> None:
    machine = read(tmp_path, two_nodes() | {f"{NODE}/node1/cpumap": mask([0, 1, 3])})
    assert machine.cpus[0].numa == 0
    assert machine.warnings == (f"{NODE}/node1: CPUs 0 are also in an earlier node",)


@pytest.mark.parametrize("row", ["10", "10 21 31", "10 x", "10 -1", "10 99999999"])
def test_a_row_of_distances_that_fits_no_node_is_left_out_and_told(tmp_path: Path, row: str) -> None:
    machine = read(tmp_path, two_nodes() | {f"{NODE}/node0/distance": row})
    assert numa_node(machine, 0).distances == ()
    assert numa_node(machine, 1).distances == ((0, 21), (1, 10))
    assert any("node0/distance" in warning for warning in machine.warnings)


@pytest.mark.parametrize(
    "files",
    [
        {
            "sys/fs/cgroup/cpuset.cpus.effective": "0-7\n",
            "sys/fs/cgroup/pod/cpuset.cpus.effective": "0-3\n",
            "sys/fs/cgroup/pod/cpuset.mems.effective": "1\n",
            STATUS: "0::/pod\n",
        },
        {
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-7\n",
            "sys/fs/cgroup/cpuset/pod/cpuset.cpus": "0-3\n",
            "sys/fs/cgroup/cpuset/pod/cpuset.mems": "1\n",
            STATUS: "5:memory:/other\n4:cpuset:/pod\n",
        },
        {
            "dev/cpuset/cpus": "0-7\n",
            "dev/cpuset/pod/cpus": "0-3\n",
            "dev/cpuset/pod/mems": "1\n",
            "proc/self/cpuset": "/pod\n",
        },
        {
            "proc/mounts": "cgroup /cg cgroup rw,cpu 0 0\nnone /cs cgroup rw,cpuset 0 0\n",
            "cs/pod/cpuset.cpus": "0-3\n",
            "cs/pod/cpuset.mems": "1\n",
            "proc/self/cpuset": "/pod\n",
        },
        {
            "proc/mounts": "short line\ncgroup /a cgroup2 rw 0 0\ncgroup /b cgroup2 rw 0 0\n",
            "b/cgroup.controllers": "cpu cpuset\n",
            "b/pod/cpuset.cpus.effective": "0-3\n",
            "b/pod/cpuset.mems.effective": "1\n",
            STATUS: "0::/pod\n",
        },
        {
            "proc/mounts": "none /cs cgroup rw,cpuset,noprefix 0 0\n",
            "cs/pod/cpus": "0-3\n",
            "cs/pod/mems": "1\n",
            "proc/self/cpuset": "/pod\n",
        },
    ],
    ids=["cgroup v2", "cgroup v1", "cpuset", "v1 elsewhere", "v2 elsewhere", "cpuset elsewhere"],
)
def test_what_a_cgroup_forbids_is_marked(tmp_path: Path, files: dict[str, str]) -> None:
    machine = read(tmp_path, two_nodes() | files)
    assert CpuSet(cpu.id for cpu in machine.cpus if cpu.allowed) == cpus("0-3")
    assert [node.allowed for node in machine.numa] == [False, True]
    assert len(machine.cpus) == 8


def test_a_cgroup_that_is_not_in_the_capture_forbids_nothing(tmp_path: Path) -> None:
    files = two_nodes() | {"sys/fs/cgroup/cpuset.cpus.effective": "0-3\n", STATUS: "0::/gone\n"}
    assert all(cpu.allowed for cpu in read(tmp_path, files).cpus)


def test_intels_counters_tell_the_kinds_of_cores(tmp_path: Path) -> None:
    files = two_nodes() | {"sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n"}
    assert [cpu.kind for cpu in read(tmp_path, files).cpus] == ["P"] * 4 + ["E"] * 4


def per_core(name: str, slow: int, fast: int) -> dict[str, str]:
    """Cores without threads, the first four slow."""
    files = {f"{CPU}/online": "0-7\n"}
    for cpu in range(8):
        files |= cpu_files(cpu, package=0, core=cpu, threads=[cpu])
    return files | {f"{CPU}/cpu{cpu}/{name}": f"{slow if cpu < 4 else fast}\n" for cpu in range(8)}


@pytest.mark.parametrize(("slow", "kinds"), [(400, ["E", "P"]), (1000, [None, None])])
def test_capacities_far_apart_tell_the_kinds_of_cores(
    tmp_path: Path, slow: int, kinds: list[str | None]
) -> None:
    machine = read(tmp_path, per_core("cpu_capacity", slow, 1024))
    assert [cpu.kind for cpu in machine.cpus] == [kinds[0]] * 4 + [kinds[1]] * 4


@pytest.mark.parametrize(("top", "kinds"), [(3000, ["E", "P"]), (4000, [None, None])])
def test_a_lower_base_tells_a_kind_only_with_a_lower_top(
    tmp_path: Path, top: int, kinds: list[str | None]
) -> None:
    files = per_core("cpufreq/base_frequency", 1000, 2000) | per_core("cpufreq/cpuinfo_max_freq", top, 4000)
    assert [cpu.kind for cpu in read(tmp_path, files).cpus] == [kinds[0]] * 4 + [kinds[1]] * 4


def test_isolated_and_tickless_cpus_are_read_as_printed(tmp_path: Path) -> None:
    machine = read(tmp_path, two_nodes() | {f"{CPU}/isolated": "2-3\n", f"{CPU}/nohz_full": "  (null)\n"})
    assert (machine.isolated, machine.nohz_full) == (cpus("2-3"), cpus(""))
    assert machine.warnings == ()


def test_pci_functions_hang_from_their_bridges(tmp_path: Path) -> None:
    files = two_nodes()
    files |= pci_files("pci0000:00/0000:00:01.0", class_code="0x060400", node=-1)
    files |= pci_files("pci0000:00/0000:00:01.0/0000:01:00.0", class_code="0x020000")
    files |= pci_files("pci0000:00/0000:00:01.0/0000:01:10.0", class_code="0x020000")
    files |= {
        "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver": "->../../../../bus/pci/drivers/ixgbe",
        "sys/devices/pci0000:00/0000:00:01.0/0000:01:10.0/physfn": "->../0000:01:00.0",
    }
    bridge, card, virtual = read(tmp_path, files).pci
    assert (bridge.parent, bridge.numa, bridge.class_code) == (None, None, "060400")
    assert (card.parent, card.numa, card.driver) == ("0000:00:01.0", 0, "ixgbe")
    assert (card.vendor, card.device, str(card.local_cpus)) == ("8086", "0001", "0,2,4,6")
    assert (virtual.parent, virtual.virtual_function_of) == ("0000:00:01.0", "0000:01:00.0")


def test_devices_go_by_the_names_people_use(tmp_path: Path) -> None:
    files = two_nodes()
    root = "pci0000:00"
    files |= pci_files(f"{root}/0000:00:02.0", class_code="0x030200", vendor="0x10de")
    files |= pci_files(f"{root}/0000:00:03.0", class_code="0x030000", vendor="0x10de", node=1)
    files |= pci_files(f"{root}/0000:00:04.0", class_code="0x030000", vendor="0x1a03")
    files |= pci_files(f"{root}/0000:00:05.0", class_code="0x038000", vendor="0x1002")
    files |= pci_files(f"{root}/0000:00:06.0", class_code="0x020700", vendor="0x15b3")
    files |= pci_files(f"{root}/0000:00:07.0", class_code="0x010802")
    for name, address in (
        ("net/ib0", "06.0/net/ib0"),
        ("infiniband/mlx5_0", "06.0/infiniband/mlx5_0"),
        ("drm/card1", "05.0/drm/card1"),
        ("block/nvme0n1", "07.0/nvme/nvme0/nvme0n1"),
        ("block/nvme0n1p1", "07.0/nvme/nvme0/nvme0n1/nvme0n1p1"),
    ):
        files[f"sys/class/{name}"] = f"->../../devices/{root}/0000:00:{address}"
    files["sys/class/net/lo"] = "->../../devices/virtual/net/lo"
    found = [(device.name, device.kind, device.numa) for device in read(tmp_path, files).devices]
    assert found == [
        ("GPU0", "gpu", 0),
        ("GPU1", "gpu", 1),
        ("card1", "gpu", 0),
        ("ib0", "nic", 0),
        ("mlx5_0", "nic", 0),
        ("nvme0n1", "nvme", 0),
    ]


@pytest.mark.parametrize(
    ("path", "garbage"),
    [
        (f"{CPU}/cpu0/topology/core_id", "seven"),
        (f"{CPU}/cpu0/topology/thread_siblings", "xyz"),
        (f"{CPU}/online", "0-"),
        (f"{CPU}/cpu0/cache/index0/size", "32 apples"),
        (f"{NODE}/node0/cpumap", "g0"),
        (f"{CPU}/isolated", "all"),
    ],
)
def test_a_file_of_garbage_costs_only_itself_and_is_named(tmp_path: Path, path: str, garbage: str) -> None:
    machine = read(tmp_path, two_nodes() | {path: garbage})
    assert [warning for warning in machine.warnings if warning.startswith(f"{path}: ")]
    assert len(machine.cpus) == 8
    assert len(machine.numa) == 2
    json.loads(encode(machine))


def test_endless_garbage_gives_a_readable_number_of_warnings(tmp_path: Path) -> None:
    files = {f"{CPU}/cpu{cpu}/topology/core_id": "?" for cpu in range(200)}
    warnings = read(tmp_path, files).warnings
    assert len(warnings) == 51
    assert warnings[-1] == "150 more warnings of this kind are left out"


def test_a_folder_or_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = open_tree(write(tmp_path, two_nodes() | {f"{CPU}/isolated": "1\n"}))

    def deny(path: str) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        tree, "names", lambda path, names=tree.names: deny(path) if path == NODE else names(path)
    )
    read_file = tree.read
    monkeypatch.setattr(tree, "read", lambda path: deny(path) if "isolated" in path else read_file(path))
    machine = sysfs.read(tree)
    assert machine.warnings == (f"{NODE}: Permission denied", f"{CPU}/isolated: Permission denied")
    assert [node.id for node in machine.numa] == [0]


def test_more_nodes_than_a_kernel_can_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 1025 NUMA nodes"):
        read(tmp_path, two_nodes() | {f"{NODE}/node{node}/uevent": "" for node in range(1025)})


def test_a_tree_without_any_cpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no CPU is found in it"):
        read(tmp_path, {f"{CPU}/kernel_max": "8191\n"})


def test_more_cpus_than_a_kernel_can_have_are_refused(tmp_path: Path) -> None:
    info = "".join(f"processor : {cpu}\n\n" for cpu in range(8193))
    with pytest.raises(InputError, match="has 8193 CPUs"):
        read(tmp_path, {"proc/cpuinfo": info})


def test_entries_that_only_look_like_cpus_are_passed_over(tmp_path: Path) -> None:
    names = ("cpufreq", "cpu01", "cpu-1", "cpu99999999999", "cpu70000", "cpu1x")
    machine = read(tmp_path, two_nodes() | {f"{CPU}/{name}/x": "" for name in names})
    assert [cpu.id for cpu in machine.cpus] == list(range(8))
