from __future__ import annotations

import re

import pytest
from defusedxml.ElementTree import fromstring

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing.palette import TOKENS
from numaware.machine.drawing.shapes import escape
from numaware.machine.drawing.svg import render
from numaware.machine.topology import Link, Machine
from numaware.machine.words import TIMES
from support.colour_contrast import contrast
from support.invented_machines import changed, hostile, with_cpu, with_memory_node, with_switch

SVG = "{http://www.w3.org/2000/svg}"


def words(machine: Machine) -> list[str]:
    return [element.text or "" for element in fromstring(render(machine)).iter(f"{SVG}text")]


def rich() -> Machine:
    machine = with_switch(synthetic.read("2s x 2n x 4c x 2t +gpu@0,0,0 +nic@0 mem=64Gi"))
    return changed(machine, links=(Link("GPU0", "GPU1", "NV4"),), warnings=("odd",), isolated=CpuSet([1]))


MACHINES = {
    "small": synthetic.read("1s x 1n x 1c"),
    "rich": rich(),
    "monster": synthetic.read("64s x 1n x 16c x 2t"),
    "many-cores": synthetic.read("1s x 1n x 300c x 2t"),
    "memory-node": with_memory_node(synthetic.read("2s x 1n x 4c"), "cxl"),
    "hostile": hostile(),
    "empty": Machine(),
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_drawing_is_well_formed_and_names_nothing_outside_itself(machine: Machine) -> None:
    document = render(machine)
    root = fromstring(document)
    assert root.tag == f"{SVG}svg"
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "desc", "style", "g", "rect", "text", "path", "circle",
    }  # fmt: skip
    assert re.findall(rb"https?:[^\"]*|url\(|@import|href", document) == [b"http://www.w3.org/2000/svg"]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_everything_lies_inside_the_drawing(machine: Machine) -> None:
    root = fromstring(render(machine))
    width, height = int(root.get("width", "0")), int(root.get("height", "0"))

    def check(element: object, x: int, y: int) -> None:
        for child in element:  # type: ignore[attr-defined]
            dx, dy = x, y
            moved = re.match(r"translate\((\d+) (\d+)\)", child.get("transform", ""))
            if moved:
                dx, dy = x + int(moved[1]), y + int(moved[2])
            if child.tag == f"{SVG}rect":
                assert dx + int(child.get("x")) + int(child.get("width")) <= width
                assert dy + int(child.get("y")) + int(child.get("height")) <= height
            check(child, dx, dy)

    check(root, 0, 0)


def test_equal_machines_give_equal_bytes() -> None:
    assert render(rich()) == render(rich())


def test_every_cpu_is_drawn_where_there_are_few() -> None:
    assert {str(number) for number in range(32)} <= set(words(rich()))


def test_a_machine_too_large_for_cells_is_told_in_words() -> None:
    said = words(MACHINES["many-cores"])
    assert "599" not in said
    assert any(f"300 cores {TIMES} 2 threads" in line for line in said)


def test_a_reader_of_the_description_hears_every_node_and_device() -> None:
    root = fromstring(render(rich()))
    spoken = root.findtext(f"{SVG}desc", "")
    for name in ("NUMA 0, 64 GiB.", "NUMA 3, 64 GiB.", "GPU0", "NIC0", "CPUs 12-15,28-31", "odd."):
        assert name in spoken
    assert "2 packages · 4 NUMA nodes" in (root.get("aria-label") or "")
    assert root.get("role") == "img"


def test_states_of_cores_are_shapes_with_a_legend() -> None:
    machine = synthetic.read("1s x 1n x 4c")
    machine = with_cpu(with_cpu(machine, 1, online=False), 2, allowed=False)
    machine = with_cpu(changed(machine, isolated=CpuSet([3])), 0, kind="E")
    document = render(machine).decode()
    assert {"E-core", "isolated", "offline", "not allowed"} <= set(words(machine))
    # One for the core and one for the legend.
    assert document.count('class="edge"') == 2
    assert document.count('class="small"') == 2
    assert document.count('class="cross"') == 4


def test_hostile_names_stay_text() -> None:
    document = render(hostile())
    assert b"<script" not in document
    assert b"\x1b" not in document


def test_what_xml_cannot_hold_is_replaced() -> None:
    assert escape("a\x00\ud800\uffff<&>\"'") == "a???&lt;&amp;&gt;&quot;&#39;"


def test_the_drawing_has_both_themes_and_a_light_default() -> None:
    style = fromstring(render(rich())).findtext(f"{SVG}style", "")
    assert "@media (prefers-color-scheme:dark)" in style
    assert f"fill:{TOKENS['text'][0]};fill:var(--text)" in style
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", style))
    assert used <= set(TOKENS)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        *(("text", ground, 4.5) for ground in ("bg", "surface", "surface-2", "free", "reserved-bg")),
        *(("text-2", ground, 4.5) for ground in ("bg", "surface", "surface-2")),
        *((f"numa-{hue}", "surface", 4.5) for hue in range(8)),
        *(("heat-ink-lo", f"heat-{step}", 4.5) for step in (0, 1, 2)),
        *(("heat-ink-hi", f"heat-{step}", 4.5) for step in (3, 4)),
        ("split", "split-bg", 4.5),
        ("free-line", "free", 3),
        ("line-strong", "surface", 3),
        ("text-3", "reserved-bg", 3),
    ],
)
def test_colours_can_be_told_apart(ink: str, ground: str, least: float, theme: int) -> None:
    assert contrast(TOKENS[ink][theme], TOKENS[ground][theme]) >= least
