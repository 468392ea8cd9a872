"""Pictures and captures of real machines: whatever hardware exists must be drawn in full and saved faithfully."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from defusedxml.ElementTree import fromstring

from numaware.machine import codec, sysfs
from numaware.machine.capture import Capture, write
from numaware.machine.diff import compare
from numaware.machine.drawing import svg
from numaware.machine.drawing.lines import line_width, to_plain
from numaware.machine.drawing.picture import draw
from numaware.machine.drawing.text import render
from numaware.machine.topology import Machine
from numaware.machine.tree import Tree, open_tree
from support.shared_data import ROOT, shared

NAMES = sorted(path.parent.name for path in ROOT.glob("data/topologies/*/expected.json")) or ["none"]


def tree(name: str) -> Tree:
    folder = shared("data", "topologies", name)
    return open_tree(folder / json.loads((folder / "expected.json").read_bytes())["archive"])


def unfolded(machine: Machine) -> bool:
    return len(machine.numa) <= 8


@pytest.mark.parametrize("name", NAMES)
def test_a_real_machine_is_drawn_in_full(name: str) -> None:
    machine = sysfs.read(tree(name))
    for room in (60, 80, 120):
        lines = render(draw(machine), room)
        assert max(line_width(line) for line in lines) <= room
        text = to_plain(lines)
        assert not unfolded(machine) or all(f"NUMA {node.id}" in text for node in machine.numa)
    drawing = fromstring(svg.render(machine))
    spoken = drawing.findtext("{http://www.w3.org/2000/svg}desc", "")
    assert not unfolded(machine) or all(f"NUMA {node.id}" in spoken for node in machine.numa)


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_of_a_real_machine_shows_the_same_machine(name: str, tmp_path: Path) -> None:
    captured = Capture(tree(name))
    stream = io.BytesIO()
    write(captured.entries, stream)
    path = tmp_path / "capture.tar.gz"
    path.write_bytes(stream.getvalue())
    again = sysfs.read(open_tree(path))
    assert codec.encode(again) == codec.encode(sysfs.read(tree(name)))
    assert compare(again, captured.machine) == ()
