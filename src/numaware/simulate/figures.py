"""The figures of a report: each a plot with a sentence above it and its numbers in a table behind a click."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from numaware.machine.drawing.shapes import Block, escape
from numaware.machine.words import NOTHING, printable
from numaware.simulate import comparison, plots
from numaware.simulate.comparison import Contest, Measure, Point, Spread, Standing, number, percent, tenths
from numaware.simulate.plots import NARROW, WIDE, Bar, Trail

_TABLE_STEPS = 10
# Of anything that is one piece of text; a sentence that names ten policies is far from it.
_LONGEST = 4000


def safe(text: str) -> str:
    """Text for the page, whoever wrote it."""
    return escape(printable(text, _LONGEST))


def allocation(contest: Contest) -> str:
    """How much of what matters was allocated while load arrived."""
    measure = comparison.allocated(contest)
    last = comparison.full_load(contest)
    has_devices = bool(contest.devices)
    curves = [
        comparison.curve(one, lambda at: at.device_percent if has_devices else at.cpu_percent, last)
        for one in contest.standings
    ]
    first = comparison.parting(curves) if all(curves) else 0
    curves = [points[first:] for points in curves]
    lowest = min((point.value.least for points in curves for point in points), default=0)
    said = []
    if first:
        said.append(f"The plot begins at {curves[0][0].load:.0f} % load; before, policies differ less.")
    stays = all(one.series[-1].running == one.series[-1].placed for one in contest.results if one.series)
    if stays:
        said.append("Dotted: all that arrived.")
    head = _Head(f"{contest.resource} allocated", "% of the cluster")
    return _curves(contest, measure, curves, (lowest // 20 * 20, 100), head, said, all_of_it=stays)


def stranding(contest: Contest) -> str:
    """How much became useless to the pods of the trace while load arrived."""
    last = comparison.full_load(contest)
    curves = [comparison.curve(one, lambda at: at.stranded_percent, last) for one in contest.standings]
    highest = max((point.value.most for points in curves for point in points), default=0)
    head = _Head(f"{contest.resource} stranded", "% of the cluster, free but of no use to these pods")
    return _curves(contest, comparison.STRANDED, curves, (0, plots.nice_top(highest)), head, [])


class _Head(NamedTuple):
    title: str
    unit: str


def _figure(head: _Head, sentence: str, drawn: str, table: str, legend: str = "") -> str:
    """A plot with its sentence above and its numbers behind a click."""
    numbers = (
        "<details><summary>Show as table</summary>"
        f'<div class="scroll" role="region" tabindex="0" aria-label="{safe(head.title)}, as a table">{table}</div>'
        "</details>"
    )
    return (
        f'<figure class="panel"><figcaption><h3>{safe(head.title)} <span>{safe(head.unit)}</span></h3>'
        f"<p>{safe(sentence)}</p></figcaption>{legend}{drawn}{numbers if table else ''}</figure>"
    )


def _both(draw: Callable[[int], Block], label: str) -> str:
    """The plot for a desk and for a phone; a reader meets only one."""
    return plots.svg(draw(WIDE), label, "wide") + plots.svg(draw(NARROW), label, "narrow")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{safe(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{safe(row[0])}</th>{"".join(f"<td>{safe(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _ranked(measure: Measure, contest: Contest) -> list[Standing]:
    return sorted(contest.standings, key=lambda one: -measure.better * one.of(measure.read).mean)


def _spoken(measure: Measure, contest: Contest) -> str:
    """All policies with their numbers, best first: what a plot says to those who listen."""
    return ", ".join(
        f"{one.policy} {measure.show(one.of(measure.read).mean)}" for one in _ranked(measure, contest)
    )


def _extremes(measure: Measure, contest: Contest) -> str:
    """The best, ours and the worst."""
    order = _ranked(measure, contest)
    places = {order[0].place, contest.ours.place, order[-1].place}
    return ", ".join(
        f"{one.policy} {percent(one.of(measure.read).mean)}" for one in order if one.place in places
    )


def _spread(show: Callable[[float], str], value: Spread) -> str:
    least, most = show(value.least), show(value.most)
    return show(value.mean) + (f" ({least}{NOTHING}{most})" if least != most else "")


def _curves(
    contest: Contest,
    measure: Measure,
    curves: Sequence[Sequence[Point]],
    heights: tuple[float, float],
    head: _Head,
    notes: list[str],
    *,
    all_of_it: bool = False,
) -> str:
    drawn = [(one, points) for one, points in zip(contest.standings, curves, strict=True) if points]
    if not drawn:
        return _figure(head, "No load arrived, so there is nothing to draw.", "", "")
    trails = [Trail(one.place, one.policy, points, tenths(points[-1].value.mean)) for one, points in drawn]
    bands = ["Bands: lowest to highest seed."] if len(contest.seeds) > 1 else []
    sentence = " ".join([f"When all had arrived: {_extremes(measure, contest)}.", *bands, *notes])
    loads = [point.load for point in drawn[0][1]]
    step = comparison.STEPS // _TABLE_STEPS
    rows = [
        [percent(loads[at]), *(_spread(tenths, points[at].value) for _, points in drawn)]
        for at in range((len(loads) - 1) % step, len(loads), step)
    ]
    label = f"{head.title}, {head.unit}, when all had arrived: {_spoken(measure, contest)}."
    across = f"load that has arrived, % of the cluster's {contest.resource}s"
    plot = _both(lambda width: plots.lines(trails, heights, across, width, all_of_it=all_of_it), label)
    return _figure(head, sentence, plot, _table(["load", *(one.policy for one, _ in drawn)], rows))


def _bars(
    contest: Contest, measure: Measure, show: Callable[[float, float], str], beside: Measure
) -> list[Bar]:
    """One bar for each policy; `show` words its value from the means of the measure and of the one beside it."""
    return [
        Bar(
            one.place,
            one.policy,
            one.of(measure.read),
            show(one.of(measure.read).mean, one.of(beside.read).mean),
        )
        for one in contest.standings
    ]


def _two_columns(contest: Contest, *columns: tuple[str, Measure, Callable[[float], str]]) -> str:
    """The numbers of a figure of bars, policy by policy."""
    rows = [
        [one.policy, *(_spread(show, one.of(measure.read)) for _, measure, show in columns)]
        for one in contest.standings
    ]
    return _table(["policy", *(title for title, _, _ in columns)], rows)


def refusals(contest: Contest) -> str:
    """How often kubelets refused."""
    rate, total = comparison.REFUSAL_RATE, comparison.REFUSALS
    rows = _bars(contest, rate, lambda of, all_: f"{tenths(of)} ({number(all_)})" if of else "none", total)
    without = [one.name for one in rows if not one.value.most]
    sentence = f"Without any: {', '.join(without)}." if without else "Every policy had some."
    table = _two_columns(contest, ("per 1,000 pods", rate, tenths), ("refusals", total, number))
    label = f"Refused by kubelets, per 1,000 pods: {_spoken(rate, contest)}."
    drawn = _both(lambda width: plots.bars(rows, "refused", width), label)
    return _figure(_Head("Refused by kubelets", "per 1,000 pods (and in all)"), sentence, drawn, table)


def alignment(contest: Contest) -> str:
    """How many pods lie on the fewest NUMA nodes that could hold them."""
    aligned, crossing = comparison.ALIGNED, comparison.CROSSING
    rows = _bars(contest, aligned, lambda share, cross: f"{percent(share)} · {number(cross)} cross", crossing)
    table = _two_columns(
        contest, ("aligned, % of pinned pods", aligned, tenths), ("cross-NUMA pods", crossing, number)
    )
    legend = (
        '<p class="legend" aria-hidden="true"><span><svg viewBox="0 0 14 10"><path class="aligned" d="M0 0h14v10H0z"/>'
        '</svg>aligned</span><span><svg viewBox="0 0 14 10"><path class="split" d="M0 0h14v10H0z"/></svg>'
        "on more NUMA nodes than needed</span></p>"
    )
    label = f"Pinned pods that are aligned, in percent: {_spoken(aligned, contest)}."
    drawn = _both(lambda width: plots.shares(rows, ("aligned", "split"), width), label)
    sentence = "Of the pods that own CPUs, memory or devices; beside it how many use several NUMA nodes."
    return _figure(_Head("Aligned", "% of pinned pods"), sentence, drawn, table, legend)


def talk(contest: Contest) -> str:
    """What is said between NUMA nodes, before and after those who talk were moved together; nothing where nobody talks."""
    if not comparison.talks(contest):
        return ""
    across, planned = comparison.ACROSS, comparison.PLANNED
    rows = [
        Bar(one.place, f"{one.policy}, {when}", one.of(measure.read), measure.show(one.of(measure.read).mean))
        for one in contest.standings
        for when, measure in (("before", across), ("after", planned))
    ]
    table = _two_columns(contest, ("before, MB/s", across, tenths), ("after, MB/s", planned, tenths))
    label = f"Talk between NUMA nodes, MB/s, before: {_spoken(across, contest)}; after: {_spoken(planned, contest)}."
    drawn = _both(lambda width: plots.bars(rows, "aligned", width), label)
    head = _Head("Talk between NUMA nodes", "MB/s, before and after agents move pods that talk")
    return _figure(head, _gain(contest), drawn, table)


def _gain(contest: Contest) -> str:
    """What moving would save with our policy, or that it would save nothing."""
    ours = contest.ours
    before, after = (ours.of(measure.read).mean for measure in (comparison.ACROSS, comparison.PLANNED))
    moves = ours.of(lambda one: one.talk.moves).mean
    if not moves:
        return f"{ours.policy}: no gain expected, nobody would be moved."
    return (
        f"{ours.policy}: {number(moves)} moves would leave {number(after)} of {number(before)} MB/s. "
        "Fewer bytes across are a cause, not yet a gain: measure before you believe."
    )
