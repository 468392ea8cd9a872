"""Rectangles and text in SVG, and blocks of them set beside and below one another.

A block knows its size and nothing of where it will stand; whoever places it wraps it in a translation. Fonts
differ between readers' machines, so widths of text are estimates on the safe side and too long text is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numaware.machine.drawing.lines import GLUE, clip, width, wrap

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


class Block(NamedTuple):
    """A piece of drawing with its size in pixels."""

    width: int
    height: int
    body: str = ""


class Font(NamedTuple):
    """A CSS class of text with its line height and the widest average letter to expect, in tenths of a pixel."""

    name: str
    line: int
    letter: int


TITLE = Font("t18", 26, 106)
BODY = Font("t13", 19, 74)
STRONG = Font("t13 b", 19, 80)
SMALL = Font("t12", 17, 71)
LABEL = Font("t11", 15, 63)
MONO = Font("m11", 15, 68)


def escape(text: str) -> str:
    """Text for XML; what XML cannot hold at all (control characters, half characters) becomes a question mark."""
    safe = "".join(letter if _is_xml(letter) else "?" for letter in text)
    return safe.translate(_ESCAPES)


def _is_xml(letter: str) -> bool:
    number = ord(letter)
    return number in (9, 10, 13) or (
        number >= 32 and not 0xD800 <= number <= 0xDFFF and number not in (0xFFFE, 0xFFFF)
    )


def text_width(text: str, font: Font) -> int:
    return (width(text) * font.letter + 9) // 10


def rect(size: tuple[int, int], name: str, at: tuple[int, int] = (0, 0), radius: int = 4) -> str:
    return (
        f'<rect class="{name}" x="{at[0]}" y="{at[1]}" width="{size[0]}" height="{size[1]}" rx="{radius}"/>'
    )


def text(line: str, font: Font, at: tuple[int, int], name: str = "", anchor: str = "start") -> str:
    """One line of text whose line box begins at `at`."""
    style = f"{font.name} {name}".strip()
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    baseline = at[1] + font.line * 3 // 4
    return f'<text class="{style}" x="{at[0]}" y="{baseline}"{end}>{escape(line.replace(GLUE, " "))}</text>'


def one_line(line: str, font: Font, room: int, name: str = "") -> Block:
    """Text cut to its room."""
    shown = clip(line, room * 10 // font.letter)
    return Block(text_width(shown, font), font.line, text(shown, font, (0, 0), name))


def paragraph(words: Sequence[str], font: Font, room: int, name: str = "", hang: int = 2) -> Block:
    """Lines of text, each broken to fit the room."""
    lines = [part for line in words for part in wrap(line, max(8, room * 10 // font.letter), hang)]
    body = ""
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        body += text(line.lstrip(" "), font, (indent * 4, index * font.line), name)
    widest = max((text_width(line, font) for line in lines), default=0)
    return Block(min(widest, room), len(lines) * font.line, body)


def place(block: Block, x: int, y: int) -> str:
    if not block.body:
        return ""
    return block.body if (x, y) == (0, 0) else f'<g transform="translate({x} {y})">{block.body}</g>\n'


def column(blocks: Sequence[Block], gap: int) -> Block:
    """Blocks below one another; empty ones take no room."""
    body, y = "", 0
    shown = [block for block in blocks if block.height]
    for block in shown:
        body += place(block, 0, y)
        y += block.height + gap
    return Block(max((block.width for block in shown), default=0), max(0, y - gap), body)


def row(blocks: Sequence[Block], gap: int) -> Block:
    """Blocks beside one another."""
    body, x = "", 0
    for block in blocks:
        body += place(block, x, 0)
        x += block.width + gap
    return Block(max(0, x - gap), max((block.height for block in blocks), default=0), body)


def grid(blocks: Sequence[Block], columns: int, gap: int) -> Block:
    """Blocks in rows of at most so many."""
    rows = [row(blocks[start : start + columns], gap) for start in range(0, len(blocks), columns)]
    return column(rows, gap)


def padded(block: Block, padding: int, size: tuple[int, int], frame: str, radius: int = 6) -> Block:
    """The block inside a frame of the given size."""
    return Block(*size, rect(size, frame, radius=radius) + place(block, padding, padding))
