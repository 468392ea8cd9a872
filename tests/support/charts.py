"""Curves for pages of docs, as SVG that is right on light and on dark: lines over one axis, each named where it ends.

One room for `make scale` and `make soak`; what they measure they know, here it is only drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from numaware.machine.drawing.palette import TOKENS, variables
from numaware.machine.drawing.shapes import LABEL, STRONG, Block, column, escape, text, text_width

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 190, 52, 30, 40
_LABEL_STEP = 14
_STEPS = (1, 2, 2.5, 5, 10)
_STYLE = """
text{font-family:-apple-system,"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",Arial,sans-serif;fill:var(--text)}
.t13{font-size:13px}.t11{font-size:11px}.b{font-weight:600}.q{fill:var(--text-2)}
.grid{stroke:var(--line);fill:none}.mark{stroke:var(--line-strong);fill:none}
.trail{fill:none;stroke-width:1.75;stroke-linejoin:round}
"""


class Line(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]


class Chart(NamedTuple):
    """Lines over the same axis; `marks` are moments to be seen on it, `logarithmic` says that both axes count tens."""

    title: str
    across: str
    lines: Sequence[Line]
    marks: Sequence[float] = ()
    logarithmic: bool = False


def svg(charts: Sequence[Chart], spoken: str) -> str:
    """All charts below one another, as a file; `spoken` says what they show to those who listen."""
    drawn = column([_draw(chart) for chart in charts], 20)
    hues = "".join(
        f".h{number}{{stroke:var(--numa-{number})}}text.h{number}{{fill:var(--numa-{number});stroke:none}}"
        for number in range(8)
    )
    style = f"svg{{{variables(0)}}}@media(prefers-color-scheme:dark){{svg{{{variables(1)}}}}}{_STYLE.strip()}{hues}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {drawn.width} {drawn.height}" '
        f'width="{drawn.width}" height="{drawn.height}" aria-label="{escape(spoken)}">\n<style>{style}</style>\n'
        f'<rect width="100%" height="100%" fill="{TOKENS["surface"][0]}" style="fill:var(--surface)"/>\n'
        f"{drawn.body}</svg>\n"
    )


class _Axis(NamedTuple):
    """Values from `low` to `high` over so many pixels from `begin` on, backwards where `length` is negative."""

    low: float
    high: float
    begin: float
    length: float
    logarithmic: bool

    def at(self, value: float) -> float:
        if self.logarithmic:
            part = log10(value / self.low) / log10(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(self.begin + self.length * part, 1)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            return [10.0**power for power in range(round(log10(self.low)), round(log10(self.high)) + 1)]
        step = _step(self.high - self.low)
        return [self.low + step * number for number in range(int((self.high - self.low) / step + 1e-9) + 1)]


def _draw(chart: Chart) -> Block:
    label = max(text_width(f"{line.name} {_short(line.points[-1][1])}", LABEL) for line in chart.lines)
    right = _WIDTH - label - 18
    xs = [x for line in chart.lines for x, _ in line.points]
    ys = [y for line in chart.lines for _, y in line.points]
    x_axis = _axis(xs, _LEFT, right - _LEFT, logarithmic=chart.logarithmic, from_nothing=False)
    y_axis = _axis(ys, _TOP + _HEIGHT, -_HEIGHT, logarithmic=chart.logarithmic, from_nothing=True)
    body = text(chart.title, STRONG, (0, 0))
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        body += f'<path class="grid" d="M{_LEFT} {y}H{right}"/>'
        body += text(_short(tick), LABEL, (_LEFT - 6, round(y) - 7), "q", "end")
    bottom = _TOP + _HEIGHT
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        body += f'<path class="grid" d="M{x} {bottom}v4"/>'
        body += text(_short(tick), LABEL, (round(x), bottom + 5), "q", "middle")
    body += text(chart.across, LABEL, (_LEFT, bottom + 21), "q")
    body += "".join(f'<path class="mark" d="M{x_axis.at(mark)} {bottom}v-6"/>' for mark in chart.marks)
    ends = [y_axis.at(line.points[-1][1]) for line in chart.lines]
    for number, (line, y) in enumerate(zip(chart.lines, _apart(ends), strict=True)):
        places = "L".join(f"{x_axis.at(x)} {y_axis.at(value)}" for x, value in line.points)
        body += f'<path class="trail h{number % 8}" d="M{places}"/>'
        body += f'<text class="t11 h{number % 8}" x="{right + 8}" y="{y + 4}">{escape(line.name)}'
        body += f" {_short(line.points[-1][1])}</text>"
    return Block(_WIDTH, bottom + _BOTTOM, body)


def _axis(
    values: Sequence[float], begin: float, length: float, *, logarithmic: bool, from_nothing: bool
) -> _Axis:
    """Wide enough for all values, from and to a round number."""
    if logarithmic:
        power, top = floor(log10(min(values))), ceil(log10(max(values)))
        return _Axis(10.0**power, 10.0 ** max(top, power + 1), begin, length, logarithmic=True)
    low = 0.0 if from_nothing else min(values)
    step = _step((max(values) - low) or 1)
    high = low + step * ceil((max(values) - low) / step) if from_nothing else max(values)
    return _Axis(low, max(high, low + step), begin, length, logarithmic=False)


def _step(reach: float) -> float:
    """A round number of which about five make the reach."""
    power = 10.0 ** floor(log10(reach / 5))
    return next(step * power for step in _STEPS if step * power * 6 >= reach)


def _apart(wanted: Sequence[float]) -> list[float]:
    """Heights for names near where their lines end, none over another."""
    placed = dict.fromkeys(range(len(wanted)), 0.0)
    least: float = _TOP
    for number in sorted(placed, key=lambda one: wanted[one]):
        placed[number] = least = max(wanted[number], least)
        least += _LABEL_STEP
    return [placed[number] for number in range(len(wanted))]


def _short(value: float) -> str:
    """A number that a reader takes in at a glance."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
