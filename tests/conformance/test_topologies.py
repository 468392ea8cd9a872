"""Every captured machine, read and compared with what lstopo and the kernel's own files say about it.

The expectations are data: what lstopo printed (`lstopo`, and `lstopo_including_disallowed` with what a cgroup
forbids) and what stands in the tree (`sysfs`). Where the two disagree the kernel's files are right, as the
format promises; the few places where lstopo invents something are skipped by rule, never by name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any

import pytest

from numaware.machine import sysfs
from numaware.machine.codec import page_size_bytes, to_builtins
from numaware.machine.cpuset import CpuSet
from numaware.machine.tree import open_tree
from support.shared_data import ROOT, shared

FOLDER = ("data", "topologies")
NAMES = sorted(path.parent.name for path in ROOT.joinpath(*FOLDER).glob("*/expected.json"))

machines = pytest.mark.parametrize("name", NAMES)
Document = dict[str, Any]


@functools.cache
def expected(name: str) -> Document:
    document: Document = json.loads(shared(*FOLDER, name, "expected.json").read_bytes())
    return document


@functools.cache
def actual(name: str) -> Document:
    return to_builtins(sysfs.read(open_tree(shared(*FOLDER, name, expected(name)["archive"]))))


def lstopo(name: str) -> Document:
    """The whole machine as lstopo sees it; 4qs22 and its like, which it refuses, have only the kernel's files."""
    document = expected(name)
    found: Document | None = document.get("lstopo_including_disallowed") or document["lstopo"]
    return found or {
        "packages": [],
        "numa": [],
        "pci_devices": [],
        "cpukinds": [],
        "cores": 0,
        "pus": 0,
        "l2_groups": 0,
    }


def cpus(text: str | None) -> CpuSet:
    return CpuSet.parse((text or "").strip("\x00 \n"))


def online(name: str) -> CpuSet:
    return CpuSet(cpu["id"] for cpu in actual(name)["cpus"] if cpu["online"])


def groups(texts: Iterable[str | None]) -> list[str]:
    return sorted(str(cpus(text)) for text in texts)


def test_there_are_machines_to_compare_with() -> None:
    assert shared(*FOLDER).is_dir()
    assert NAMES


@machines
def test_the_cpus_are_those_with_a_directory(name: str) -> None:
    files = expected(name)["sysfs"]
    assert str(CpuSet(cpu["id"] for cpu in actual(name)["cpus"])) == files["cpu_dirs"]


@machines
def test_cpus_are_on_line_and_off_line_as_the_kernel_says(name: str) -> None:
    files, document = expected(name)["sysfs"], actual(name)
    if files.get("cpu_online"):
        assert str(online(name)) == files["cpu_online"]
    assert cpus(document["offlineCpus"]) == CpuSet(expected(name)["features"]["offline_cpus"])
    assert document["cpuCount"] == len(online(name))
    if expected(name)["lstopo"] is not None:
        assert lstopo(name)["pu_os_indexes"] == str(online(name))


@machines
def test_each_cpu_has_the_ids_and_siblings_of_its_topology_files(name: str) -> None:
    found = {cpu["id"]: cpu for cpu in actual(name)["cpus"]}
    for cpu in expected(name)["sysfs"]["cpus"]:
        mine = found[cpu["id"]]
        if not mine["online"]:
            continue
        for key in ("core", "die", "cluster", "package"):
            value = cpu.get(key)
            if value is not None and value >= 0:
                assert mine.get(key) == value, (cpu["id"], key)
            elif key != "package":
                assert mine.get(key) is None, (cpu["id"], key)
        if cpu.get("thread_siblings") is not None:
            assert cpus(mine["siblings"]) == cpus(cpu["thread_siblings"]) & online(name), cpu["id"]


@machines
def test_packages_are_the_kernels(name: str) -> None:
    document = expected(name)
    by_id: dict[int, list[int]] = {}
    for cpu in document["sysfs"]["cpus"]:
        if cpu.get("package") is not None and cpu["package"] >= 0 and cpu["id"] in online(name):
            by_id.setdefault(cpu["package"], []).append(cpu["id"])
    found = {package["id"]: package["cpus"] for package in actual(name)["packages"]}
    if by_id:
        assert found == {package: str(CpuSet(members)) for package, members in by_id.items()}
    if document["lstopo"] is not None and (len(by_id) == len(lstopo(name)["packages"]) or not by_id):
        assert groups(found.values()) == groups(package["cpus"] for package in lstopo(name)["packages"])


@machines
def test_cores_and_threads_are_as_many_as_lstopo_counts(name: str) -> None:
    if lstopo(name)["cores"]:
        assert actual(name)["coreCount"] == lstopo(name)["cores"]


@machines
def test_caches_of_level_2_and_3_are_shared_as_lstopo_says(name: str) -> None:
    document = expected(name)
    if document["lstopo"] is None:
        return
    data = [cache for cache in actual(name)["caches"] if cache["type"] != "Instruction"]
    level = {n: [cache for cache in data if cache["level"] == n] for n in (2, 3)}
    assert len(level[2]) == lstopo(name)["l2_groups"]
    if "MemoryMode" in lstopo(name)["machine"]:
        # On Knights Landing lstopo shows the memory in front of the memory as a third level of cache.
        assert level[3] == []
        return
    assert groups(cache["cpus"] for cache in level[3]) == groups(lstopo(name)["l3_groups"])
    assert sorted({cache["sizeBytes"] or 0 for cache in level[3]}) == sorted(lstopo(name)["l3_sizes"])


@machines
def test_numa_nodes_have_the_cpus_of_their_directories(name: str) -> None:
    files = expected(name)["sysfs"]
    found = {node["id"]: node for node in actual(name)["numa"]}
    if not files["nodes"]:
        assert list(found) == [0]
        assert cpus(found[0]["cpus"]) == online(name)
        return
    assert list(found) == [node["id"] for node in files["nodes"]]
    for node in files["nodes"]:
        listed = cpus(node.get("cpulist") or node.get("cpulist_from_cpumap"))
        assert cpus(found[node["id"]]["cpus"]) == listed & online(name), node["id"]


@machines
def test_numa_nodes_are_close_to_the_cpus_where_lstopo_puts_them(name: str) -> None:
    found = {node["id"]: node for node in actual(name)["numa"]}
    kept = expected(name).get("lstopo_keeping_gpu_numa_nodes") or lstopo(name)
    for node in kept["numa"]:
        mine = found[node["os_index"]]
        if not mine["cpus"]:
            assert str(cpus(mine["nearestCpus"])) == node["cpus"], node["os_index"]
        else:
            assert mine["nearestCpus"] == mine["cpus"]
            assert cpus(mine["cpus"]) <= cpus(node["cpus"])


@machines
def test_numa_nodes_have_their_memory_and_huge_pages(name: str) -> None:
    files = expected(name)["sysfs"]
    found = {node["id"]: node for node in actual(name)["numa"]}
    for node in files["nodes"]:
        mine = found[node["id"]]
        assert mine["memoryBytes"] == node.get("meminfo", {}).get("MemTotal_bytes"), node["id"]
        pools = {page_size_bytes(size): pool for size, pool in mine["hugepages"].items()}
        listed = {
            int(size): {"total": pool["nr_hugepages"], "free": pool["free_hugepages"]}
            for size, pool in (node.get("hugepages") or {}).items()
        }
        assert pools == listed, node["id"]
    for node in lstopo(name)["numa"]:
        mine = found[node["os_index"]]
        assert (mine["memoryBytes"] or 0) == node["local_memory_bytes"], node["os_index"]
        totals = {str(page_size_bytes(size)): pool["total"] for size, pool in mine["hugepages"].items()}
        assert totals == node["hugepages"], node["os_index"]


@machines
def test_distances_are_those_of_the_kernel_and_of_lstopo(name: str) -> None:
    files = expected(name)["sysfs"]
    found = {node["id"]: node["distances"] for node in actual(name)["numa"]}
    for node in files["nodes"]:
        assert list(found[node["id"]].values()) == (node.get("distance") or []), node["id"]
    for node in lstopo(name)["numa"]:
        for other, distance in (node.get("distances") or {}).items():
            assert found[node["os_index"]][other] == distance, (node["os_index"], other)


@machines
def test_what_a_cgroup_forbids_is_listed_and_marked(name: str) -> None:
    document = expected(name)
    if document["lstopo"] is None:
        return
    allowed = document["lstopo"]["machine"]
    mine = actual(name)
    usable = CpuSet(cpu["id"] for cpu in mine["cpus"] if cpu.get("allowed", True) and cpu["online"])
    assert str(usable) == allowed["allowed_cpuset"]
    nodes = CpuSet(node["id"] for node in mine["numa"] if node.get("allowed", True))
    assert nodes & cpus(allowed["complete_nodeset"]) == cpus(allowed["allowed_nodeset"])


@machines
def test_isolated_cpus_are_those_the_kernel_prints(name: str) -> None:
    assert cpus(actual(name)["isolatedCpus"]) == cpus(expected(name)["sysfs"].get("cpu_isolated"))


@machines
def test_every_pci_function_is_described_as_in_its_directory(name: str) -> None:
    found = {function["address"]: function for function in actual(name)["pci"]}
    files = expected(name)["sysfs"]["pci_devices"]
    assert list(found) == sorted(function["busid"] for function in files)
    for function in files:
        mine = found[function["busid"]]
        assert mine["class"] == function["class"].removeprefix("0x")
        assert mine["vendor"] == function.get("vendor", "").removeprefix("0x")
        assert mine["device"] == function.get("device", "").removeprefix("0x")
        assert mine["driver"] == function.get("driver")
        node = function.get("numa_node")
        assert mine["numa"] == (node if node is not None and node >= 0 else None)
        if function.get("local_cpulist") is not None:
            assert cpus(mine["localCpus"]) == cpus(function["local_cpulist"])


@machines
def test_lstopo_shows_the_same_pci_functions(name: str) -> None:
    found = {function["address"]: function for function in actual(name)["pci"]}
    for function in lstopo(name)["pci_devices"]:
        mine = found[function["busid"]]
        assert mine["class"][:4] == function["class"]
        if mine["vendor"]:
            assert (mine["vendor"], mine["device"]) == (function["vendor"], function["device"])


@machines
def test_hybrid_cores_are_told_apart_as_lstopo_ranks_them(name: str) -> None:
    kinds = {cpu["id"]: cpu["kind"] for cpu in actual(name)["cpus"]}
    ranked = lstopo(name)["cpukinds"]
    if len(ranked) == 2 and set(kinds.values()) != {None}:
        assert CpuSet(cpu for cpu, kind in kinds.items() if kind == "E") == cpus(ranked[0]["cpus"])
        assert CpuSet(cpu for cpu, kind in kinds.items() if kind == "P") == cpus(ranked[1]["cpus"])


@machines
def test_reading_a_good_capture_twice_gives_the_same_machine(name: str) -> None:
    again = to_builtins(sysfs.read(open_tree(shared(*FOLDER, name, expected(name)["archive"]))))
    assert again == actual(name)


def lscpu_table(name: str) -> list[dict[str, str]]:
    """The first parsable table of an lscpu output published beside the capture: one row for each CPU."""
    found = sorted(shared(*FOLDER, name).glob("lscpu-*.expected"))
    if not found:
        return []
    _, _, rest = found[0].read_text().partition("# CPU,")
    header, *lines = rest.split("\n\n")[0].splitlines()
    columns = ["CPU", *header.split(",")]
    return [dict(zip(columns, line.split(","), strict=False)) for line in lines]


def partition(pairs: Iterable[tuple[int, object]]) -> set[frozenset[int]]:
    """Which CPUs have the same value: lscpu numbers cores and sockets on its own."""
    parts: dict[object, set[int]] = {}
    for cpu, value in pairs:
        parts.setdefault(value, set()).add(cpu)
    return {frozenset(members) for members in parts.values()}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("ul-")])
def test_lscpu_puts_the_same_cpus_together(name: str) -> None:
    rows = lscpu_table(name)
    found = {cpu["id"]: cpu for cpu in actual(name)["cpus"] if cpu["online"]}
    assert [int(row["CPU"]) for row in rows] == list(found)
    for column, key in (("Core", "siblings"), ("Socket", "package")):
        if all(row.get(column) for row in rows):
            theirs = partition((int(row["CPU"]), row[column]) for row in rows)
            assert theirs == partition((cpu, value[key]) for cpu, value in found.items()), column
    if all(row.get("Node") for row in rows):
        assert [int(row["Node"]) for row in rows] == [cpu["numa"] for cpu in found.values()]
