from __future__ import annotations

import io
import re

import pytest

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import (
    LIGHT,
    Span,
    clip,
    frame,
    line_width,
    plain,
    to_ascii,
    to_plain,
    width,
    wrap,
)
from numaware.machine.drawing.picture import draw
from numaware.machine.drawing.text import render
from numaware.machine.topology import Device, HugePages, Link, Machine
from numaware.machine.words import TIMES
from support.colour_contrast import contrast
from support.invented_machines import changed, hostile, with_cpu, with_memory_node, with_node, with_switch

WIDTHS = (40, 60, 80, 100, 120, 140, 200)


def shown(machine: Machine, room: int = 100) -> str:
    return to_plain(render(draw(machine), room))


def large() -> Machine:
    return with_switch(synthetic.read("2s x 4n x 16c x 2t +gpu@0,0,0 +nic@0 mem=64Gi"))


@pytest.mark.parametrize("room", WIDTHS)
@pytest.mark.parametrize(
    "machine",
    [
        synthetic.read("1s x 1n x 1c"),
        large(),
        synthetic.read("64s x 1n x 4c"),
        with_memory_node(synthetic.read("2s x 1n x 4c"), "hbm"),
        hostile(),
        Machine(),
    ],
    ids=["small", "large", "monster", "memory-node", "hostile", "empty"],
)
def test_no_line_is_wider_than_the_terminal(machine: Machine, room: int) -> None:
    assert max(line_width(line) for line in render(draw(machine), room)) <= room


@pytest.mark.parametrize("room", WIDTHS)
def test_frames_close_at_every_width(room: int) -> None:
    text = shown(large(), room)
    for opening, closing in ("┏┗", "┓┛", "╭╰", "╮╯"):
        assert text.count(opening) == text.count(closing) > 0
    assert all(line.count("┃") % 2 == 0 for line in text.splitlines())


@pytest.mark.parametrize("room", WIDTHS)
def test_every_node_and_device_is_named_at_every_width(room: int) -> None:
    text = shown(large(), room)
    for name in (*(f"NUMA {number} " for number in range(8)), "GPU0", "GPU1", "GPU2", "NIC0", "64 GiB"):
        assert name in text


def test_columns_are_used_when_there_is_room() -> None:
    machine = synthetic.read("2s x 1n x 4c")
    wide = next(line for line in shown(machine, 100).splitlines() if "Package 0" in line)
    narrow = next(line for line in shown(machine, 60).splitlines() if "Package 0" in line)
    assert "Package 1" in wide
    assert "Package 1" not in narrow


def test_each_core_is_one_character_and_odd_ones_differ() -> None:
    machine = synthetic.read("1s x 1n x 6c x 2t")
    for number in (3, 9):
        machine = with_cpu(machine, number, online=False)
    machine = with_cpu(with_cpu(machine, 4, allowed=False), 10, allowed=False)
    machine = with_cpu(machine, 5, kind="E")
    text = shown(changed(machine, isolated=CpuSet([1, 7])))
    assert "■◆■□▨▪" in text
    assert "■ core   ▪ E-core   ◆ isolated   □ offline   ▨ not allowed" in text


def test_no_legend_without_odd_cores() -> None:
    assert "■ core" not in shown(synthetic.read("1s x 1n x 6c"))


def test_a_matrix_too_wide_is_shown_grouped() -> None:
    text = shown(synthetic.read("4s x 8n x 1c"), 60)
    assert "NUMA 0-7" in text
    assert "10/12" in text


def test_links_too_wide_continue_below() -> None:
    links = tuple(Link("GPU0", f"GPU{number}", f"NV{number}") for number in range(1, 16))
    text = shown(changed(synthetic.read("1s x 1n x 1c"), links=links), 60)
    assert all(f"GPU{number}" in text for number in range(16))


def test_warnings_come_last_and_are_marked() -> None:
    text = shown(changed(large(), warnings=("node3 has no distance",)))
    assert text.splitlines()[-1] == "⚠ node3 has no distance"


def test_unplaced_devices_have_their_own_section() -> None:
    machine = changed(synthetic.read("1s x 1n x 1c"), devices=(Device("GPU7", "gpu"),))
    lines = shown(machine).splitlines()
    assert lines[lines.index("NUMA node not known") + 1].strip() == "GPU7"


def test_huge_pages_say_how_many_are_free() -> None:
    made = synthetic.read("1s x 1n x 1c")
    pools = (HugePages(1 << 30, 16, 12),)
    assert "huge pages 1Gi: 16, 12 free" in shown(with_node(made, 0, hugepages=pools))


def test_a_hostile_name_does_not_reach_the_terminal() -> None:
    text = shown(hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, *, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


@pytest.mark.parametrize(
    ("tty", "environment", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_those_who_can_see_it(
    tty: bool, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal(tty=tty)
    terminal.write(render(draw(large()), 100), stream)
    assert ("\x1b[" in stream.getvalue()) is coloured


def test_colour_changes_nothing_about_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    lines = render(draw(large()), 100)
    stream = Terminal()
    terminal.write(lines, stream)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert [line.rstrip() for line in bare.splitlines()] == to_plain(lines).splitlines()


def test_a_terminal_without_unicode_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.write(render(draw(large()), 80), stream)
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert "+ NUMA 0 ---" in text
    assert "16 cores x 2 threads" in text


@pytest.mark.parametrize("name", [name for name, style in terminal.STYLES.items() if "#" in style])
def test_terminal_colours_read_on_black_and_on_white(name: str) -> None:
    words = terminal.STYLES[name].split()
    inks = [word for word in words if word.startswith("#")]
    grounds = inks[1:] or ["#000000", "#ffffff"]
    assert min(contrast(inks[0], ground) for ground in grounds) >= 4


def test_a_long_list_is_broken_after_a_comma() -> None:
    lines = wrap("CPUs 0-1,10-11,20-21,30-31,40-41", 16, 2)
    assert lines == ["CPUs", "  0-1,10-11,", "  20-21,30-31,", "  40-41"]


def test_a_word_without_a_break_is_broken_anywhere() -> None:
    assert wrap("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_wide_letters_count_double() -> None:
    assert width("节点") == 4
    assert clip("节点节点", 5) == "节点…"


def test_a_frame_has_exactly_its_room() -> None:
    lines = frame("a title that is far too long", "64 GiB", [(Span("x" * 50),)], 20, LIGHT, "")
    assert {line_width(line) for line in lines} == {20}
    assert plain(lines[1]).endswith("… │")


def test_ascii_keeps_the_shape() -> None:
    assert to_ascii(f"┏━┓ ■ {TIMES} é") == "+-+ # x ?"


def test_chinese_is_broken_between_its_words_and_no_line_begins_with_a_comma() -> None:
    text = "请求 5 个 CPU：按机器的大小 1 个 NUMA 节点就够，现在却只能放在 NUMA 0+1（restricted 不接受）。"
    for room in range(12, 60):
        lines = wrap(text, room)
        assert all(width(line) <= room for line in lines)
        assert not any(line.lstrip().startswith(tuple("，。：；、）")) for line in lines)
        assert not any(line.endswith("（") for line in lines)
        assert "".join("".join(lines).split()) == "".join(text.split())
    # A line is filled before the next one begins.
    assert wrap("一二三四五六七八九十", 8) == ["一二三四", "五六七八", "九十"]
    assert wrap("abc 一二三四五", 9) == ["abc 一二", "三四五"]
