"""Tables of the terminal, as kubectl prints them: columns as wide as they must be, nothing to be cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from numaware.machine.drawing.lines import width
from numaware.machine.words import printable

_LONGEST = 120


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table of what strangers wrote."""
    return aligned([heading, *([printable(cell, _LONGEST) for cell in row] for row in rows)], gap=3)


def aligned(
    rows: Sequence[Sequence[str]], *, gap: int, pad: Callable[[str, int], str] | None = None
) -> Iterator[str]:
    """Rows as lines, the first column padded on the right and the others by `pad`; no line ends in blanks."""
    first, *others = widths(rows)
    for row in rows:
        cells = (left(row[0], first), *map(pad or left, row[1:], others))
        yield (" " * gap).join(cells).rstrip() + "\n"


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column has to be."""
    return [max(map(width, column)) for column in zip(*rows, strict=True)]


def left(cell: str, room: int) -> str:
    """The cell in so many columns of a terminal, in which a Chinese character takes two."""
    return cell + " " * (room - width(cell))


def right(cell: str, room: int) -> str:
    """The same, with the blanks before it."""
    return " " * (room - width(cell)) + cell
