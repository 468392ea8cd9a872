"""What tools printed on real machines, read and compared with facts found in the files by other means.

Each check looks at the raw text with a plain expression of its own, or at a second sample of the same machine.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from numaware.machine.codec import decode, encode
from numaware.machine.cpuset import CpuSet
from numaware.machine.merge import merge
from numaware.machine.sources import read_source
from numaware.machine.topology import Machine
from support.shared_data import ROOT, shared

FOLDERS = {
    "numactl": "numactl",
    "lscpu": "lscpu",
    "nvidia-smi": "nvidia-smi-topo",
    "hwloc": "topology-xml",
    "nccl": "nccl-topo",
    "cadvisor": "machineinfo",
}


def samples(kind: str) -> list[str]:
    return sorted(p.name for p in ROOT.joinpath("data", FOLDERS[kind]).glob("*") if p.name != "index.json")


def beside(pattern: str) -> list[str]:
    """Files published with the captured machines."""
    topologies = ROOT / "data" / "topologies"
    return sorted(str(path.relative_to(topologies)) for path in topologies.glob(pattern))


def path_of(kind: str, name: str) -> Path:
    return shared("data", FOLDERS[kind], name)


def load(kind: str, name: str) -> Machine:
    return read_source(kind, path_of(kind, name).read_bytes(), name)


def text_of(kind: str, name: str) -> str:
    return path_of(kind, name).read_text()


@pytest.mark.parametrize("kind", FOLDERS)
def test_there_are_samples(kind: str) -> None:
    assert shared("data", FOLDERS[kind]).is_dir()
    assert samples(kind)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in FOLDERS for name in samples(kind)])
def test_every_sample_is_read_and_written_as_json(kind: str, name: str) -> None:
    machine = load(kind, name)
    assert machine.cpus or machine.devices
    assert decode(encode(machine)) == machine


@pytest.mark.parametrize("name", samples("numactl"))
def test_numactl_says_the_same_line_by_line(name: str) -> None:
    machine, text = load("numactl", name), text_of("numactl", name)
    cpus = {int(node): words.split() for node, words in re.findall(r"node (\d+) cpus:([ \d]*)", text)}
    sizes = {int(node): int(size) for node, size in re.findall(r"node (\d+) size: (\d+) MB", text)}
    rows = [list(map(int, row.split())) for row in re.findall(r"^ *\d+: ([ \d]+)$", text, re.MULTILINE)]
    assert {node.id: [str(cpu) for cpu in node.cpus] for node in machine.numa} == cpus
    assert {node.id: (node.memory_bytes or 0) / 2**20 for node in machine.numa} == sizes
    assert [[distance for _, distance in node.distances] for node in machine.numa] == rows
    assert len(machine.cpus) == sum(map(len, cpus.values()))
    assert machine.warnings == ()


@pytest.mark.parametrize("name", samples("lscpu"))
def test_lscpu_says_the_same_about_nodes_and_counts(name: str) -> None:
    machine, text = load("lscpu", name), text_of("lscpu", name)
    listed = {int(node): cpus for node, cpus in re.findall(r"NUMA node(\d+) CPU\(s\): *([\d,-]*)", text)}
    if listed:
        assert {node.id: str(node.cpus) for node in machine.numa} == {
            node: str(CpuSet.parse(cpus)) for node, cpus in listed.items()
        }
    counts = {
        field: int(number)
        for field, number in re.findall(r"^ *(\S+\(s\)[ a-z]*): +(\d+)$", text, re.MULTILINE)
    }
    if "CPU(s)" in counts:
        assert len(machine.cpus) == counts["CPU(s)"]
        assert machine.core_count == counts["CPU(s)"] // counts["Thread(s) per core"]
    if machine.packages and "Socket(s)" in counts:
        assert len(machine.packages) == counts["Socket(s)"]
    assert machine.warnings == ()


@pytest.mark.parametrize("name", beside("*/lscpu*.expected"))
def test_lscpu_agrees_with_the_captured_machine_it_was_run_on(name: str) -> None:
    path = shared("data", "topologies", name)
    machine = read_source("lscpu", path.read_bytes(), name)
    files: dict[str, Any] = json.loads((path.parent / "expected.json").read_text())["sysfs"]
    kernel = {cpu["id"]: cpu for cpu in files["cpus"]}
    assert str(machine.online) == str(CpuSet.parse(files["cpu_online"]))
    for cpu in machine.cpus:
        found = kernel[cpu.id]
        assert (cpu.package, cpu.core) == tuple(
            None if found[key] == -1 else found[key] for key in ("package", "core")
        )
        assert cpu.siblings == CpuSet.parse(found["thread_siblings"] or "")
    last_level = sorted(str(CpuSet.parse(cache["cpus"])) for cache in files["l3_shared_cpu_lists"])
    assert sorted(str(cache.cpus) for cache in machine.caches if cache.level == 3) == last_level
    assert {node.id: str(node.cpus) for node in machine.numa} == {
        node["id"]: str(CpuSet.parse(node.get("cpulist") or node.get("cpulist_from_cpumap") or ""))
        for node in files["nodes"]
    }


@pytest.mark.parametrize("name", samples("nvidia-smi"))
def test_nvidia_smi_says_the_same_cell_by_cell(name: str) -> None:
    machine, text = load("nvidia-smi", name), text_of("nvidia-smi", name)
    lines = [re.sub(r"\x1b\[\d*m", "", line).split() for line in text.split("Legend")[0].splitlines()]
    names = lines[0][: lines[0].index("CPU")]
    rows = {words[0]: words[1:] for words in lines[1:] if words}
    assert [device.name for device in machine.devices] == names == list(rows)
    printed = {
        (a, b): cell
        for a, cells in rows.items()
        for b, cell in zip(names, cells, strict=False)
        if cell != "X"
    }
    linked = {(link.a, link.b): link.type for link in machine.links}
    assert {**linked, **{(b, a): kind for (a, b), kind in linked.items()}} == printed
    for device in machine.devices:
        affinity = rows[device.name][len(names) :]
        if device.kind == "gpu":
            assert device.cpus == CpuSet.parse(affinity[0])
            assert device.numa == (int(affinity[1]) if affinity[1].isdigit() else None)
        else:
            assert (device.cpus, device.numa, affinity) == (None, None, [])
    aliases = dict(re.findall(r"^ *(NIC\d+): (\S+)$", text, re.MULTILINE))
    assert {device.name: device.alias for device in machine.devices if device.alias} == aliases
    assert machine.warnings == ()


@pytest.mark.parametrize("name", samples("hwloc"))
def test_hwloc_finds_every_object_of_the_file(name: str) -> None:
    machine, text = load("hwloc", name), text_of("hwloc", name)
    objects = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in re.findall(r"<object [^>]*>", text)]
    by_type: dict[str, list[dict[str, str]]] = {}
    for each in objects:
        by_type.setdefault(each["type"], []).append(each)
    assert [cpu.id for cpu in machine.cpus] == sorted(int(pu["os_index"]) for pu in by_type["PU"])
    assert {node.id: node.memory_bytes for node in machine.numa} == {
        int(node["os_index"]): int(node["local_memory"]) for node in by_type["NUMANode"]
    }
    assert [p.id for p in machine.packages] == sorted(int(p["os_index"]) for p in by_type.get("Package", []))
    if "Core" in by_type:
        assert machine.core_count == len(by_type["Core"])
    caches = Counter(re.findall(r'<object type="(L\d)i?Cache"', text))
    assert Counter(f"L{cache.level}" for cache in machine.caches) == caches
    assert Counter(function.address for function in machine.pci) == Counter(
        each["pci_busid"] for each in objects if "pci_busid" in each
    )
    assert {device.name for device in machine.devices} == {
        device["name"] for device in by_type.get("OSDev", [])
    }


def test_hwloc_reads_classes_bridges_and_nodes_of_functions() -> None:
    for name in samples("hwloc"):
        functions = {function.address: function for function in load("hwloc", name).pci}
        types = dict(
            re.findall(r'pci_busid="([^"]*)" pci_type="(\w{4} \[\w{4}:\w{4}\])', text_of("hwloc", name))
        )
        for function in functions.values():
            written = f"{function.class_code[:4]} [{function.vendor}:{function.device}]"
            assert written == types[function.address]
            if function.parent is not None:
                bridge = functions[function.parent]
                assert (bridge.class_code[:4], bridge.numa) == ("0604", function.numa)


@pytest.mark.parametrize("name", beside("*/*.xml"))
def test_hwloc_agrees_with_what_lstopo_says_of_the_same_machine(name: str) -> None:
    path = shared("data", "topologies", name)
    machine = read_source("hwloc", path.read_bytes(), name)
    expected: dict[str, Any] = json.loads((path.parent / "expected.json").read_text())["lstopo"]
    assert str(machine.online) == str(CpuSet.parse(expected["machine"]["cpuset"]))
    assert machine.core_count == expected["cores"]
    assert {node.id: str(node.nearest_cpus) for node in machine.numa} == {
        node["os_index"]: str(CpuSet.parse(node["cpus"])) for node in expected["numa"]
    }
    assert [node.memory_bytes or 0 for node in machine.numa] == [
        node["local_memory_bytes"] or 0 for node in expected["numa"]
    ]
    distances = [
        {int(other): value for other, value in (node["distances"] or {}).items()} for node in expected["numa"]
    ]
    assert [dict(node.distances) for node in machine.numa] == distances
    assert sorted(str(cache.cpus) for cache in machine.caches if cache.level == 3) == sorted(
        str(CpuSet.parse(cpus)) for cpus in expected["l3_groups"]
    )


@pytest.mark.parametrize("name", samples("nccl"))
def test_nccl_finds_every_function_on_its_node(name: str) -> None:
    machine, text = load("nccl", name), text_of("nccl", name)
    on_nodes = {
        int(part.split('"')[1]): part for part in text.split("<cpu numaid=")[1:] for part in [f"={part}"]
    }
    assert {node.id: len(node.cpus) for node in machine.numa} == {
        node: sum(int(word, 16).bit_count() for word in re.findall(r'affinity="([^"]*)"', part)[0].split(","))
        for node, part in on_nodes.items()
    }
    assert {function.address: function.numa for function in machine.pci} == {
        address: node
        for node, part in on_nodes.items()
        for address in re.findall(r'<pci busid="([^"]*)"', part)
    }
    classes = Counter(code[:2] for code in re.findall(r'class="0x(\w+)" ', text.replace("tclass", "t")))
    assert Counter(function.class_code[:2] for function in machine.pci) == classes
    kinds = Counter(device.kind for device in machine.devices)
    assert kinds["gpu"] == classes["03"]
    assert kinds["nic"] == classes["02"] + text.count("<net ")
    assert machine.warnings == ()


@pytest.mark.parametrize("name", samples("cadvisor"))
def test_cadvisor_adds_up(name: str) -> None:
    machine = load("cadvisor", name)
    document = json.loads(text_of("cadvisor", name))
    threads = [
        (node["node_id"], core["socket_id"], core["core_id"], sorted(core["thread_ids"]))
        for node in document["topology"]
        for core in node["cores"]
    ]
    assert len(machine.cpus) == document["num_cores"] == sum(len(each[3]) for each in threads)
    assert machine.core_count == len(threads)
    assert len(machine.packages) == document["num_sockets"]
    assert (machine.memory_bytes, len(machine.numa)) == (
        document["memory_capacity"],
        len(document["topology"]),
    )
    assert sum(node.memory_bytes or 0 for node in machine.numa) == machine.memory_bytes
    for node, socket, core, ids in threads:
        for cpu in ids:
            found = machine.cpus[cpu]
            assert (found.numa, found.package, found.core, list(found.siblings)) == (node, socket, core, ids)
    assert machine.warnings == ()


@pytest.mark.parametrize(
    "files",
    [
        [
            ("numactl", "2nodes-asus-esc8000a.txt"),
            ("lscpu", "asus-esc8000a-2-numa.txt"),
            ("lscpu", "asus-esc8000a-lscpu-e.txt"),
            ("nvidia-smi", "4gpu-4nic-2numa-rtx6000ada.txt"),
        ],
        [
            ("numactl", "1node-threadripper.txt"),
            ("lscpu", "threadripper-1-numa.txt"),
            ("nvidia-smi", "threadripper-1numa.txt"),
        ],
        [("lscpu", "dgx-a100-grep-numa.txt"), ("nvidia-smi", "dgx-a100-8numa-12mlx5.txt")],
        [("lscpu", "epyc7451-8-numa-nodes.txt"), ("lscpu", "x86_64-epyc_7451.txt")],
    ],
)
def test_samples_of_one_machine_agree(files: list[tuple[str, str]]) -> None:
    machines = [(name, load(kind, name)) for kind, name in files]
    merged = merge(machines)
    assert merged.warnings == ()
    assert len(merged.cpus) == max(len(machine.cpus) for _, machine in machines)
    assert merged.links == next((machine.links for _, machine in machines if machine.links), ())
