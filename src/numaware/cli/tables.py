"""Tables of the terminal, as kubectl prints them: columns as wide as they must be, nothing to be cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from numaware.machine.words import printable

_LONGEST = 120


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table of what strangers wrote."""
    return aligned([heading, *([printable(cell, _LONGEST) for cell in row] for row in rows)], gap=3)


def aligned(
    rows: Sequence[Sequence[str]], *, gap: int, pad: Callable[[str, int], str] = str.ljust
) -> Iterator[str]:
    """Rows as lines, the first column padded on the right and the others by `pad`; no line ends in blanks."""
    first, *others = widths(rows)
    for row in rows:
        cells = (row[0].ljust(first), *map(pad, row[1:], others))
        yield (" " * gap).join(cells).rstrip() + "\n"


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column has to be."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
