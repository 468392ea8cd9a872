"""The plots of a report, drawn by hand in SVG: lines with bands, bars, shares, and a wall of nodes.

Each is drawn for a given width, as text in a picture that shrinks is text nobody can read. Policies are told apart by
hue, dash, end mark and name together. Colours come from the page's style sheet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from numaware.machine.drawing.lines import clip
from numaware.machine.drawing.shapes import LABEL, Block, escape, rect, text, text_width
from numaware.simulate.comparison import Point, Spread, tenths
from numaware.simulate.result import Tile

WIDE, NARROW = 600, 340
HUES = 8
# How full a node is: from so many parts of a thousand on it has this shade of the wall.
LEVELS = ((0, "empty"), (1, "under half"), (500, "half and more"), (900, "90 % and more"), (1000, "full"))
# A node with less than this stranded, in parts of a thousand, gets no notch: every cluster has some.
NOTCH = 100

_LEAST_HEIGHT = 210
_LABEL_STEP = 14
_LOAD_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**12)
_ROW = 26
_MOST_CELLS, _MOST_LARGE = 2000, 400
_DOT = 2
_DASHES = ("", "6 3", "1.5 3", "7 3 1.5 3")
_MARKS = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-3.5-3.5h7v7h-7z", "M0-4.5L4.5 3.5h-9z", "M0-5L5 0 0 5-5 0z")


class Trail(NamedTuple):
    """One policy's line; `shown` is where it ends, in words."""

    place: int
    name: str
    points: Sequence[Point]
    shown: str


class Bar(NamedTuple):
    """One policy's bar; `shown` is its value in words."""

    place: int
    name: str
    value: Spread
    shown: str


def svg(block: Block, label: str, name: str) -> str:
    """A block as a picture in a page, with its words for those who listen."""
    return (
        f'<svg class="plot {name}" role="img" viewBox="0 0 {block.width} {block.height}" '
        f'aria-label="{escape(label)}"><g aria-hidden="true">{block.body}</g></svg>'
    )


def key(index: int) -> str:
    """The line and mark of a policy, small enough to stand beside its name."""
    return (
        f'<svg class="key" viewBox="0 0 28 12" aria-hidden="true"><path class="trail {_hue(index)}" d="M1 6h20"'
        f"{_dash(index)}/>{_mark(index, 21, 6)}</svg>"
    )


# Lines


def lines(
    trails: Sequence[Trail], heights: tuple[float, float], across: str, width: int, *, all_of_it: bool = False
) -> Block:
    """Percent over load, with the range of seeds as a band and each line named where it ends.

    `heights` are the lowest and the highest percent of the plot. `all_of_it` adds the line on which everything that arrived would be.
    """
    widest = max((text_width(f"{one.name} {one.shown}", LABEL) for one in trails), default=0)
    room = min(widest + 4, width * 2 // 5)
    high = max(_LEAST_HEIGHT, _LABEL_STEP * len(trails))
    loads = [point.load for one in trails for point in one.points]
    plot = _Plot(34, 8, width - 34 - room - 16, high, (min(loads), max(loads)), heights)
    body = plot.grid(across)
    if all_of_it:
        begin, end = max(plot.loads[0], heights[0]), min(plot.loads[1], heights[1])
        if end > begin:
            body += f'<path class="ideal" d="M{plot.place(begin, begin)}L{plot.place(end, end)}"/>'
    for one in trails:
        body += f'<g class="p p{one.place}">{_band(plot, one)}{_trail(plot, one)}</g>'
    ends = [plot.y(one.points[-1].value.mean) for one in trails]
    left = plot.left + plot.width + 14
    for one, end, label in zip(trails, ends, _apart(ends, plot.top, plot.top + high), strict=True):
        body += f'<g class="p p{one.place}">'
        if abs(end - label) > 3:
            body += f'<path class="lead" d="M{_n(left - 8)} {_n(end)}L{_n(left - 2)} {_n(label)}"/>'
        name = clip(one.name, (room - text_width(f" {one.shown}", LABEL)) * 10 // LABEL.letter)
        body += (
            f'<text class="t11" x="{left}" y="{_n(label + 4)}"><tspan class="b ink {_hue(one.place)}">{escape(name)}'
            f"</tspan> {escape(one.shown)}</text></g>"
        )
    return Block(width, plot.top + high + 36, body)


class _Plot(NamedTuple):
    """Where percent over load lies in the picture."""

    left: int
    top: int
    width: int
    height: int
    loads: tuple[float, float]
    heights: tuple[float, float]

    def x(self, load: float) -> float:
        first, last = self.loads
        return self.left + self.width * (load - first) / (last - first)

    def y(self, percent: float) -> float:
        low, high = self.heights
        return self.top + self.height * (high - min(max(percent, low), high)) / (high - low)

    def place(self, load: float, percent: float) -> str:
        return f"{_n(self.x(load))} {_n(self.y(percent))}"

    def grid(self, across: str) -> str:
        body = ""
        low, high = self.heights
        for part in range(5):
            value = low + (high - low) * part / 4
            y = self.y(value)
            body += f'<path class="grid" d="M{self.left} {_n(y)}h{self.width}"/>'
            body += text(f"{value:g}", LABEL, (self.left - 6, round(y) - 7), "q", "end")
        first, last = self.loads
        most = self.width // 36
        step = next(step for step in _LOAD_STEPS if (last - first) / step <= most)
        bottom = self.top + self.height
        for load in range(-int(-first // step) * step, int(last) + 1, step):
            x = self.x(load)
            body += f'<path class="grid" d="M{_n(x)} {bottom}v4"/>' + text(
                str(load), LABEL, (round(x), bottom + 4), "q", "middle"
            )
        return body + text(across, LABEL, (self.left, bottom + 20), "q")


def nice_top(highest: float) -> float:
    """A round number not below the highest value, that four equal steps lead to."""
    return next((top for top in (1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 60, 80, 100) if highest <= top), 100)


def _trail(plot: _Plot, one: Trail) -> str:
    places = [plot.place(point.load, point.value.mean) for point in one.points]
    end = one.points[-1]
    return (
        f'<path class="trail {_hue(one.place)}" d="M{"L".join(places)}"{_dash(one.place)}/>'
        f"{_mark(one.place, plot.x(end.load), plot.y(end.value.mean))}"
    )


def _band(plot: _Plot, one: Trail) -> str:
    """The range over the seeds, where there is one that can be seen."""
    if all(tenths(point.value.least) == tenths(point.value.most) for point in one.points):
        return ""
    upper = [plot.place(point.load, point.value.most) for point in one.points]
    lower = [plot.place(point.load, point.value.least) for point in reversed(one.points)]
    return f'<path class="band ink {_hue(one.place)}" d="M{"L".join(upper + lower)}z"/>'


def _apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Heights for labels near where they want to be, none over another."""
    order = sorted(range(len(wanted)), key=lambda at: (wanted[at], at))
    placed = [0.0] * len(wanted)
    least = top + 4
    for at in order:
        placed[at] = least = max(wanted[at], least)
        least += _LABEL_STEP
    most = bottom
    for at in reversed(order):
        placed[at] = min(placed[at], most)
        most = placed[at] - _LABEL_STEP
    return placed


# Bars


def bars(rows: Sequence[Bar], fill: str, width: int) -> Block:
    """One bar for each policy, with the range over the seeds as a line with ends."""
    most = max((row.value.most for row in rows), default=0) or 1

    def drawn(row: Bar, left: int, longest: int, top: int) -> tuple[str, int]:
        long, least, reach = (round(longest * part / most) for part in row.value)
        body = rect((long, 14), fill, (left + 1, top + 6), 1) if long else ""
        if row.value.least != row.value.most:
            body += f'<path class="range" d="M{left + 1 + least} {top + 9}v8m0-4H{left + 1 + reach}m0-4v8"/>'
        return body, max(long, reach)

    return _rows(rows, width, drawn, axis=True)


def shares(rows: Sequence[Bar], fills: tuple[str, str], width: int) -> Block:
    """A whole for each policy, in two parts: so many percent, and the rest."""

    def drawn(row: Bar, left: int, longest: int, top: int) -> tuple[str, int]:
        part = round(longest * min(max(row.value.mean, 0), 100) / 100)
        if part == longest and row.value.mean < 100:
            part -= 2  # what is not whole must not look whole
        body = rect((part, 14), fills[0], (left + 1, top + 6), 1)
        if longest > part:
            body += rect((longest - part, 14), fills[1], (left + 1 + part, top + 6), 1)
        return body, longest

    return _rows(rows, width, drawn)


def _rows(
    rows: Sequence[Bar],
    width: int,
    draw: Callable[[Bar, int, int, int], tuple[str, int]],
    *,
    axis: bool = False,
) -> Block:
    """Policies below one another: name, what `draw` makes of (row, left end, longest, top), and the value where it ends."""
    names = min(max((text_width(row.name, LABEL) for row in rows), default=0) + 10, width * 2 // 5)
    longest = width - names - max(text_width(row.shown, LABEL) for row in rows) - 12
    body = f'<path class="axis" d="M{names}.5 0v{_ROW * len(rows)}"/>' if axis else ""
    for at, row in enumerate(rows):
        top = at * _ROW
        bar, reach = draw(row, names, longest, top)
        name = clip(row.name, (names - 10) * 10 // LABEL.letter)
        body += f'<g class="p p{row.place}">{text(name, LABEL, (names - 8, top + 6), "", "end")}{bar}'
        body += text(row.shown, LABEL, (names + reach + 8, top + 6), "b") + "</g>"
    return Block(width, _ROW * len(rows), body)


# The wall


def cells(tiles: Iterable[Tile]) -> tuple[list[Tile], int]:
    """Nodes from full to empty, of one shade the stranded first, and how many nodes one square stands for."""
    ordered = sorted(tiles, key=lambda tile: (-level(tile), tile.stranded < NOTCH, -used(tile), tile.node))
    each = max(1, -(-len(ordered) // _MOST_CELLS))
    return ordered[::each], each


def used(tile: Tile) -> int:
    return tile.cpu if tile.device is None else tile.device


def level(tile: Tile) -> int:
    """The shade of a node; only what is exactly empty or full looks so."""
    return bisect_right([bound for bound, _ in LEVELS], used(tile)) - 1


def wall(tiles: Sequence[Tile], width: int) -> Block:
    """A square for each node, fullest first; a notch where much of what is free is stranded.

    A run of equal squares is one dashed stroke: a wall of two thousand nodes takes a few kilobytes.
    """
    square = _LARGE if len(tiles) <= _MOST_LARGE else _SMALL
    across = width // square.pitch
    strokes = [""] * len(LEVELS)
    notches = ""
    for number, start in enumerate(range(0, len(tiles), across)):
        row = tiles[start : start + across]
        x, y = 0, number * square.pitch
        for shade, run in groupby(row, level):
            long = len(list(run))
            strokes[shade] += square.several(shade, x, y, long)
            x += long * square.pitch
        notches += "".join(
            square.notch(at * square.pitch, y) for at, tile in enumerate(row) if tile.stranded >= NOTCH
        )
    body = "".join(square.stroke(shade, path) for shade, path in enumerate(strokes) if path)
    body += f'<path class="notch" d="{notches}"/>' if notches else ""
    rows = -(-len(tiles) // across)
    return Block(across * square.pitch - square.gap, max(1, rows * square.pitch - square.gap), body)


def sample(shade: int, *, notch: bool = False) -> str:
    """One square, for the legend."""
    square = _LARGE
    mark = f'<path class="notch" d="{square.notch(0, 0)}"/>' if notch else ""
    return square.stroke(shade, square.several(shade, 0, 0, 1)) + mark


class _Square(NamedTuple):
    """A node in the wall."""

    side: int
    gap: int

    @property
    def pitch(self) -> int:
        return self.side + self.gap

    def several(self, shade: int, x: int, y: int, number: int) -> str:
        """Squares beside one another; an empty node is a dot in the middle of its place."""
        inset = 0 if shade else (self.side - _DOT) // 2
        return f"M{x + inset} {y + self.side // 2}h{number * self.pitch - self.gap - 2 * inset}"

    def stroke(self, shade: int, path: str) -> str:
        long = self.side if shade else _DOT
        return (
            f'<path class="cells shade{shade}" d="{path}" stroke-width="{long}" '
            f'stroke-dasharray="{long} {self.pitch - long}"/>'
        )

    def notch(self, x: int, y: int) -> str:
        long = self.side * 3 // 4
        return f"M{x} {y + self.side - long}v{long}h{long}z"


_LARGE, _SMALL = _Square(8, 2), _Square(4, 1)


# Marks of a policy


def _hue(index: int) -> str:
    return f"hue{index % HUES}"


def _style(index: int) -> int:
    """Which dash and mark: policies that share a hue differ in them."""
    return (index + index // HUES) % len(_DASHES)


def _dash(index: int) -> str:
    dash = _DASHES[_style(index)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _mark(index: int, x: float, y: float) -> str:
    return f'<path class="ink {_hue(index)}" transform="translate({_n(x)} {_n(y)})" d="{_MARKS[_style(index)]}"/>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
