"""Styled lines of text and how they are framed, wrapped and set side by side: the typesetter of the text picture.

A line is a tuple of spans; a span is text with the name of a style. Nothing here knows colours, so the same
lines go to a plain file and to a terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from numaware.machine.words import NOTHING, TIMES

# Keeps two words on one line; shown as a blank.
GLUE = "\N{NO-BREAK SPACE}"


class Span(NamedTuple):
    """A piece of a line in one style."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


class Border(NamedTuple):
    """The characters of a frame; another line style for each kind of box, so that nesting reads without colour."""

    top_left: str
    across: str
    top_right: str
    down: str
    bottom_left: str
    bottom_right: str


ROUND = Border("╭", "─", "╮", "│", "╰", "╯")
HEAVY = Border("┏", "━", "┓", "┃", "┗", "┛")
LIGHT = Border("┌", "─", "┐", "│", "└", "┘")
DASHED = Border("┌", "┄", "┐", "┆", "└", "┘")

# For terminals that cannot show anything else.
_ASCII = str.maketrans(
    {**dict.fromkeys("╭╮╰╯┏┓┗┛┌┐└┘", "+"), **dict.fromkeys("─━┄", "-"), **dict.fromkeys("│┃┆", "|")}
    | {"■": "#", "▪": "e", "◆": "i", "□": "o", "▨": "x", "·": "-", "…": "...", "⚠": "!", "✓": "+", "✗": "x"}
    | {TIMES: "x", NOTHING: "-"}
)


def width(text: str) -> int:
    """Columns a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def line_width(line: Line) -> int:
    return sum(width(span.text) for span in line)


def plain(line: Line) -> str:
    """The bare text of a line, without blanks at its end."""
    return "".join(span.text for span in line).rstrip()


def to_plain(lines: Iterable[Line]) -> str:
    return "".join(f"{plain(line)}\n" for line in lines)


def to_ascii(text: str) -> str:
    """The text in ASCII; what has no likeness becomes a question mark."""
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def clip(text: str, room: int) -> str:
    """The text, cut with an ellipsis if it is wider than the room."""
    if width(text) <= room:
        return text
    kept = ""
    for letter in text:
        if width(kept + letter) > room - 1:
            break
        kept += letter
    return kept + "…" if room > 0 else ""


# A line may end after a Chinese character, but not begin with punctuation that closes something.
_BREAK = re.compile(
    r"(?<=[\u3000-\u9fff\uff00-\uffef])(?<![（“])(?![，。：；、）”\uff1f\uff01…\s])|(?<=[^\s（“])(?=[\u4e00-\u9fff])"
)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces between which a line may end, and whether a blank stands before each."""
    for word in text.split(" "):
        if word.isascii() or GLUE in word:
            yield word, True
        else:
            for place, piece in enumerate(_BREAK.split(word)):
                yield piece, place == 0


def wrap(text: str, room: int, hang: int = 0) -> list[str]:
    """The text in lines no wider than the room, broken at blanks or between Chinese words; `hang` indents all but the first.

    A word that is too long for a line by itself (a CPU list) is broken after a comma, or anywhere if it must be.
    """
    room = max(room, hang + 4)
    lines = [""]
    for word, apart in _words(text):
        between = " " if apart and lines[-1].strip() else ""
        if width(lines[-1] + between + word) <= room:
            lines[-1] += between + word
            continue
        if lines[-1].strip():
            lines.append(" " * hang)
        rest = word
        while width(lines[-1] + rest) > room:
            most = clip(rest, room - width(lines[-1]) + 1)[:-1]
            piece = most[: most.rfind(",") + 1] or most or rest[:1]
            lines[-1] += piece
            lines.append(" " * hang)
            rest = rest[len(piece) :]
        lines[-1] += rest
    return [line.replace(GLUE, " ") for line in lines if line.strip()] or [""]


def pad(line: Line, room: int) -> Line:
    """The line filled with blanks to the room; never longer, whatever a name holds."""
    missing = room - line_width(line)
    if missing >= 0:
        return (*line, Span(" " * missing)) if missing else line
    kept: list[Span] = []
    for span in line:
        left = room - sum(width(other.text) for other in kept)
        kept.append(Span(clip(span.text, left), span.style))
        if width(span.text) > left:
            break
    return tuple(kept)


def frame(
    title: str, aside: str, body: Iterable[Line], room: int, border: Border, style: str, height: int = 0
) -> list[Line]:
    """A box of exactly `room` columns and at least `height` lines around the body, its title in the top edge."""
    inner = room - 4
    title = clip(title, inner - 2)
    left = inner - width(title) - (1 if title else -1)
    aside = aside if width(aside) + 1 <= left else ""
    rule = border.across * (left - (width(aside) + 1 if aside else 0))
    top = [Span(border.top_left + border.across, style)]
    if title:
        top = [Span(border.top_left, style), Span(f" {title} ", f"{style} bold")]
    top.append(Span(rule, style))
    if aside:
        top.append(Span(f" {aside} ", f"{style} bold"))
        top.append(Span(border.top_right, style))
    else:
        top.append(Span(border.across + border.top_right, style))
    lines: list[Line] = [tuple(top)]
    side = Span(border.down, style)
    inside = list(body)
    inside += [()] * (height - 2 - len(inside))
    lines += [(side, Span(" "), *pad(line, inner), Span(" "), side) for line in inside]
    lines.append((Span(border.bottom_left + border.across * (room - 2) + border.bottom_right, style),))
    return lines


def beside(blocks: Sequence[Sequence[Line]], rooms: Sequence[int]) -> list[Line]:
    """Blocks set side by side, each in its room, a blank between them."""
    lines: list[Line] = []
    for index in range(max(len(block) for block in blocks)):
        line: list[Span] = []
        for column, (block, room) in enumerate(zip(blocks, rooms, strict=True)):
            if column:
                line.append(Span(" "))
            line += pad(block[index] if index < len(block) else (), room)
        lines.append(tuple(line))
    return lines
