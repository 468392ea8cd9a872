"""Tables of the terminal, as kubectl prints them: a heading, columns as wide as they must be, nothing to be cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaware.machine.words import printable

_LONGEST = 120


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; the last column is not padded."""
    shown = [heading, *([printable(cell, _LONGEST) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(heading))]
    for row in shown:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
