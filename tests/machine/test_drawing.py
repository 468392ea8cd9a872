from __future__ import annotations

import msgspec
import pytest

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing.box import Box, Picture
from numaware.machine.drawing.matrices import heat
from numaware.machine.drawing.picture import core_lines, draw
from numaware.machine.topology import Cpu, Device, Link, Machine, NumaNode
from numaware.machine.words import NOTHING, TIMES
from support.invented_machines import (
    changed,
    with_cpu,
    with_memory_node,
    with_node,
    with_switch,
    with_virtual_functions,
)


def boxes(picture: Picture, role: str) -> list[Box]:
    def within(box: Box) -> list[Box]:
        return [box, *(inner for child in box.children for inner in within(child))]

    return [box for top in picture.boxes for box in within(top) if box.role == role]


def test_packages_hold_nodes_and_nodes_hold_caches_and_devices() -> None:
    picture = draw(synthetic.read("2s x 2n x 4c x 2t +gpu@3 mem=64Gi"))
    assert [box.title for box in picture.boxes] == ["Package 0", "Package 1"]
    assert [box.title for box in boxes(picture, "numa")] == ["NUMA 0", "NUMA 1", "NUMA 2", "NUMA 3"]
    last = boxes(picture, "numa")[3]
    assert last.aside == "64 GiB"
    assert [child.role for child in last.children] == ["cache", "device"]
    assert last.children[0].sentences[0].endswith("CPUs\N{NO-BREAK SPACE}12-15,28-31")


def test_the_summary_counts_what_people_count() -> None:
    picture = draw(synthetic.read("2s x 2n x 4c x 2t mem=64Gi"))
    assert picture.summary[0] == "2 packages · 4 NUMA nodes · 16 cores · 32 CPUs · 256 GiB"


@pytest.mark.parametrize(("kind", "word"), [("hbm", "HBM"), ("cxl", "CXL memory"), ("gpu", "GPU memory")])
def test_memory_without_cpus_stands_in_the_package_it_is_nearest_to(kind: str, word: str) -> None:
    picture = draw(with_memory_node(synthetic.read("2s x 1n x 4c"), kind))
    [package, _] = picture.boxes
    extra = package.children[-1]
    assert extra.title == f"NUMA 2 · {word}"
    assert extra.facts[0] == "no CPUs"
    assert "0-3" in extra.facts[1]


def test_a_node_that_spans_packages_stands_by_itself() -> None:
    machine = synthetic.read("1s x 1n x 4c")
    spread = changed(
        machine, cpus=tuple(msgspec.structs.replace(cpu, package=cpu.id) for cpu in machine.cpus)
    )
    picture = draw(spread)
    assert [box.role for box in picture.boxes] == ["numa"]
    assert "over 4 packages: 0-3" in picture.boxes[0].facts


def test_cpus_without_a_numa_node_are_still_drawn() -> None:
    picture = draw(Machine(cpus=tuple(Cpu(number, siblings=CpuSet([number])) for number in range(4))))
    [box] = picture.boxes
    assert box.title == "NUMA not known"
    assert len(box.children[0].cores) == 4


def test_cpus_without_a_numa_node_in_several_packages_are_still_drawn() -> None:
    # As the kernel of a large machine shows them whose capture has lost the folder of one node.
    whole = synthetic.read("32s x 1n x 2c")
    cpus = tuple(msgspec.structs.replace(cpu, numa=None) if cpu.numa in (5, 6) else cpu for cpu in whole.cpus)
    numa = tuple(node for node in whole.numa if node.id not in (5, 6))
    picture = draw(msgspec.structs.replace(whole, cpus=cpus, numa=numa))
    assert [box.title for box in picture.boxes] == ["Packages 0-4", "Packages 5-6", "Packages 7-31"]
    [lost] = [box for box in boxes(picture, "numa") if box.title == "No NUMA node"]
    assert lost.copies == 2
    assert lost.children[0].sentences == ("2 cores", "CPUs 10-11 · 12-13")


def test_more_than_eight_alike_nodes_are_folded_into_one_box() -> None:
    picture = draw(synthetic.read("16s x 4n x 4c"))
    assert [box.title for box in picture.boxes] == ["Packages 0-15"]
    [node] = boxes(picture, "numa")
    assert (node.title, node.copies) == ("NUMA 0-63", 64)


def test_a_node_with_less_memory_is_never_folded_away() -> None:
    machine = with_node(synthetic.read("16s x 1n x 4c mem=64Gi"), 5, memory_bytes=48 << 30)
    picture = draw(machine)
    assert [(box.title, box.aside) for box in boxes(picture, "numa")] == [
        ("NUMA 0-4", "64 GiB"),
        ("NUMA 5", "48 GiB"),
        ("NUMA 6-15", "64 GiB"),
    ]


def test_memory_that_firmware_kept_does_not_stop_the_folding() -> None:
    machine = with_node(synthetic.read("16s x 1n x 4c mem=64Gi"), 5, memory_bytes=(64 << 30) - (512 << 20))
    [node] = boxes(draw(machine), "numa")
    assert node.aside == "63.5 GiB to 64 GiB"


def test_up_to_eight_nodes_are_all_drawn() -> None:
    assert len(boxes(draw(synthetic.read("2s x 4n x 4c")), "numa")) == 8


def test_what_is_odd_about_cores_is_said() -> None:
    machine = synthetic.read("1s x 1n x 4c x 2t")
    machine = with_cpu(with_cpu(machine, 3, online=False), 7, allowed=False)
    picture = draw(changed(machine, isolated=CpuSet([1, 5])))
    [cache] = boxes(picture, "cache")
    words = [line for line, _ in core_lines(cache.cores)]
    assert words == [
        f"2 cores {TIMES} 2 threads",
        f"1 core {TIMES} 2 threads (isolated)",
        f"1 core {TIMES} 2 threads (partly offline, partly not allowed)",
    ]
    assert [note.replace("\N{NO-BREAK SPACE}", " ") for note in picture.notes] == [
        "CPU 3 is offline",
        "CPUs 1,5 are isolated from the scheduler",
        "CPU 7 is not allowed by the cgroup",
    ]


def test_a_card_with_several_names_is_drawn_once() -> None:
    machine = synthetic.read("1s x 1n x 2c +nic@0")
    second = Device("mlx5_0", "nic", machine.devices[0].pci, None, 0)
    [box] = boxes(draw(changed(machine, devices=(*machine.devices, second))), "device")
    assert {box.title, *box.facts} >= {"NIC0", "mlx5_0"}


def test_virtual_functions_are_counted_on_their_card() -> None:
    machine = with_virtual_functions(synthetic.read("1s x 1n x 2c +nic@0"), 8)
    [box] = boxes(draw(machine), "device")
    assert "8 virtual functions" in box.facts


def test_devices_below_one_root_port_share_a_switch() -> None:
    picture = draw(with_switch(synthetic.read("1s x 1n x 2c +gpu@0,0 +nic@0")))
    [switch] = boxes(picture, "switch")
    assert switch.aside == "0000:00:01.0"
    assert len(switch.children) == 3


def test_a_bridge_that_is_its_own_parent_ends_the_search() -> None:
    machine = with_switch(synthetic.read("1s x 1n x 2c +gpu@0,0"))
    looped = tuple(
        msgspec.structs.replace(function, parent=machine.pci[0].address) for function in machine.pci
    )
    assert boxes(draw(changed(machine, pci=looped)), "switch")


def test_many_alike_devices_are_one_line() -> None:
    picture = draw(synthetic.read("1s x 1n x 2c +nic@" + ",".join("0" * 24)))
    [box] = boxes(picture, "device")
    assert (box.title, box.copies) == (f"24 {TIMES} NIC", 24)


def test_a_device_without_a_numa_node_is_listed_apart() -> None:
    machine = synthetic.read("1s x 1n x 2c")
    picture = draw(changed(machine, devices=(Device("GPU0", "gpu"),)))
    assert [box.title for box in picture.unplaced] == ["GPU0"]


def test_a_node_known_only_from_its_devices_is_drawn() -> None:
    picture = draw(Machine(devices=(Device("GPU0", "gpu", numa=1),)))
    [node] = picture.boxes
    assert (node.title, node.children[0].title) == ("NUMA 1", "GPU0")


def test_nodes_at_equal_distances_share_a_row() -> None:
    full, grouped, counted = draw(synthetic.read("4s x 4n x 1c")).distances
    assert len(full.rows) == 16
    assert [name for name, _ in grouped.rows] == ["NUMA 0-3", "NUMA 4-7", "NUMA 8-11", "NUMA 12-15"]
    assert [cell.text for cell in grouped.rows[0][1]] == ["10/12", "21", "21", "21"]
    assert counted.columns == ("10", "12", "21")
    assert [(name, [cell.text for cell in cells]) for name, cells in counted.rows] == [
        ("NUMA 0-15", ["1", "3", "12"])
    ]


def test_nodes_are_not_grouped_when_one_distance_differs() -> None:
    machine = with_node(synthetic.read("4s x 1n x 1c"), 0, distances=((0, 10), (1, 20), (2, 21), (3, 21)))
    assert [len(form.rows) for form in draw(machine).distances] == [4, 3, 2]


def test_a_hole_in_the_distances_is_shown_as_one() -> None:
    machine = with_node(synthetic.read("2s x 1n x 1c"), 0, distances=((0, 10),))
    [_, first] = draw(machine).distances[0].rows[0]
    assert [cell.text for cell in first] == ["10", NOTHING]


@pytest.mark.parametrize(
    ("distance", "step"), [(10, 0), (12, 1), (16, 1), (21, 2), (32, 3), (40, 4), (255, 4)]
)
def test_heat_means_the_same_on_every_machine(distance: int, step: int) -> None:
    assert heat(distance, 10) == step


def test_links_are_a_matrix_with_its_words() -> None:
    links = (Link("GPU0", "GPU1", "NV4"), Link("GPU0", "NIC0", "SYS"))
    [matrix] = draw(changed(synthetic.read("1s x 1n x 1c"), links=links)).links
    assert matrix.columns == ("GPU0", "GPU1", "NIC0")
    assert [cell.text for cell in matrix.rows[1][1]] == ["NV4", "·", NOTHING]
    assert [cell.heat for cell in matrix.rows[0][1]] == [None, 0, 4]
    assert matrix.caption == "NV#: that many NVLinks; SYS: across NUMA nodes"


def test_devices_with_equal_links_share_a_row() -> None:
    gpus = [Link(f"GPU{a}", f"GPU{b}", "NV4") for b in range(4) for a in range(b)]
    nics = [Link(f"GPU{gpu}", "mlx5_0", "PIX" if gpu < 2 else "SYS") for gpu in range(4)]
    full, grouped = draw(changed(synthetic.read("1s x 1n x 1c"), links=(*gpus, *nics))).links
    assert len(full.rows) == 5
    assert [(name, [cell.text for cell in cells]) for name, cells in grouped.rows] == [
        ("GPU0-1", ["NV4", "NV4", "PIX"]),
        ("GPU2-3", ["NV4", "NV4", "SYS"]),
        ("mlx5_0", ["PIX", "SYS", "·"]),
    ]


def test_cpus_are_not_called_cores_where_the_source_does_not_tell() -> None:
    machine = Machine(
        cpus=tuple(Cpu(number, numa=0) for number in range(4)), numa=(NumaNode(0, CpuSet(range(4))),)
    )
    picture = draw(machine)
    assert picture.summary == ("1 NUMA node · 4 CPUs",)
    [group] = boxes(picture, "cores")
    assert [words for words, _ in core_lines(group.cores)] == ["4 CPUs"]


def test_an_empty_machine_has_an_empty_picture() -> None:
    assert draw(Machine()) == Picture("Machine")


def test_a_cache_that_spans_nodes_says_so() -> None:
    machine = synthetic.read("1s x 2n x 2c")
    shared = msgspec.structs.replace(machine.caches[-1], level=3, cpus=CpuSet(range(4)))
    picture = draw(changed(machine, caches=(shared,)))
    assert [box.facts for box in boxes(picture, "cache")] == [
        ("shared with CPUs\N{NO-BREAK SPACE}2-3",),
        ("shared with CPUs\N{NO-BREAK SPACE}0-1",),
    ]


def test_a_node_without_memory_says_so() -> None:
    machine = changed(Machine(), numa=(NumaNode(0, CpuSet([0]), 0),))
    assert draw(machine).boxes[0].facts == ("CPUs 0", "no memory")
