"""A comparison of policies as one HTML file that needs nothing but itself: for a desk, a mail, a printer.

Equal results give equal bytes. The only numbers that depend on the clock on the wall, decisions per second, are marked
as such. Names come from users' files and are never trusted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence

from numaware import __version__
from numaware.errors import InputError
from numaware.machine.words import NOTHING, count, printable
from numaware.simulate import comparison, figures, headline, plots
from numaware.simulate.comparison import LONGEST_NAME, Contest, Measure, Spread, Standing, number
from numaware.simulate.figures import safe
from numaware.simulate.plots import NARROW, NOTCH
from numaware.simulate.report_style import SCRIPT, style
from numaware.simulate.result import Result

_STAR = "\N{BLACK STAR}"
_MOST_REASONS, _LONGEST_REASON = 12, 240

_WORDS = (
    ("Refused", "the kubelet would not start the pod on the node a scheduler chose; its owner makes it anew"),
    ("Aligned", "a pinned pod on no more NUMA nodes than it needs; pinned pods own CPUs, memory or devices"),
    ("Cross-NUMA", "a pod whose CPUs, memory and devices lie on several NUMA nodes, needed or not"),
    ("Allocated", "what placed pods had asked for when the last pod had arrived, of all there is"),
    ("Stranded", "free capacity that pods of this trace cannot use where it lies, of all there is"),
    (
        "Talk",
        "modelled: what services that the lab knows say to each other on their node; moves are those of agents with --affinity",
    ),
    ("Wait", "from the arrival of a pod to its admission, of the pods that were placed, by the lab's clock"),
)


def render(
    results: Sequence[Result], *, title: str, cluster: str, trace: str, settings: Mapping[str, str]
) -> bytes:
    """The report; `settings` are further facts on how the results came about, shown in their order."""
    if not results:
        raise InputError("report", "there are no runs to report on")
    contests = comparison.contests(results)
    policies = list(dict.fromkeys(result.run.policy for result in results))
    sheet = style(len(policies))
    facts = {"cluster": cluster, "trace": trace, **settings}
    body = "".join(
        (
            f"<h1>{safe(title)}</h1>",
            *(_opening(contest, alone=len(contests) == 1) for contest in contests[:1]),
            _pick(policies),
            *(_contest(contest, number, alone=len(contests) == 1) for number, contest in enumerate(contests)),
            _about(facts, results),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src '{_hash(sheet)}'; script-src '{_hash(SCRIPT)}'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{safe(title)}</title><style>{sheet}</style></head>\n<body>"
        '<header><strong>numaware</strong><span class="quiet">policies side by side</span>'
        f'<button id="theme" type="button" hidden>Dark</button></header>\n<main>{_PATTERN}{body}</main>\n'
        f"<footer>numaware {__version__}. Every number is modelled: the kubelets of the lab are twins.</footer>"
        f"<script>{SCRIPT}</script></body></html>\n"
    ).encode()


_PATTERN = (
    '<svg class="hidden" width="0" height="0" aria-hidden="true"><pattern id="split" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="split-ground" d="M0 0h6v6H0z"/>'
    '<path class="split-line" d="M0 0v6"/></pattern></svg>'
)


def _hash(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


# Above the plots


def _opening(contest: Contest, *, alone: bool) -> str:
    """What to remember, and five numbers."""
    place = "" if alone else f'<p class="quiet">On {safe(contest.cluster)}, {safe(contest.trace)}:</p>'
    change = headline.difference(contest)
    cards = "".join(
        f"<div><dt>{safe(one.title)}</dt><dd>{safe(one.value)} <span>{safe(one.unit)}</span></dd>"
        f'<dd class="quiet">{safe(one.beside)}</dd></div>'
        for one in headline.cards(contest)
    )
    return (
        f'{place}<p class="say">{safe(headline.sentence(contest))}</p>'
        + (f'<p class="so">{safe(change)}</p>' if change else "")
        + f'<p class="quiet" lang="zh">{safe(headline.in_chinese(contest))}</p>'
        f'<dl class="panel numbers" aria-label="{safe(contest.ours.policy)}">{cards}</dl>'
    )


def _pick(policies: Sequence[str]) -> str:
    """One policy picked out in every plot, without a script."""
    choices = "".join(
        f'<label><input type="radio" name="pick" id="pick{at}">{plots.key(at)}{safe(printable(policy, LONGEST_NAME))}</label>'
        for at, policy in enumerate(policies)
    )
    return (
        '<fieldset class="pick"><legend>Pick out</legend>'
        f'<label><input type="radio" name="pick" checked>all</label>{choices}</fieldset>'
        if len(policies) > 1
        else ""
    )


def _contest(contest: Contest, place: int, *, alone: bool) -> str:
    head = f"<h2>{safe(contest.cluster)} · {safe(contest.trace)}</h2>" if not alone else ""
    # The first is told at the top of the page.
    said = f'<p class="so">{safe(headline.sentence(contest))}</p>' if place else ""
    return (
        f"<section>{head}{said}{_standings(contest)}"
        f'<div class="charts">{figures.allocation(contest)}{figures.stranding(contest)}'
        f"{figures.refusals(contest)}{figures.alignment(contest)}{figures.talk(contest)}</div>"
        f"{_reasons(contest)}{_storms(contest)}{_walls(contest)}</section>"
    )


def _standings(contest: Contest) -> str:
    """The table of everything."""
    measures = comparison.columns(contest)
    best = [comparison.best(measure, contest.standings) for measure in measures]
    head = "".join(f'<th scope="col">{safe(one.title)}<span>{safe(one.note)}</span></th>' for one in measures)
    rows = ""
    for one in contest.standings:
        row = "".join(
            _cell(measure, one.of(measure.read), one.place in winners)
            for measure, winners in zip(measures, best, strict=True)
        )
        rows += f'<tr class="p{one.place}"><th scope="row">{plots.key(one.place)} {safe(one.policy)}</th>{row}</tr>'
    seeds = len(contest.seeds)
    spread = f" Means of {seeds} seeds, the range below." if seeds > 1 else ""
    return (
        f'<div class="panel"><p class="quiet">{_STAR} best in its column.{spread} <span class="clock">Decisions per '
        "second</span> depend on the machine that ran the lab; no other number does.</p>"
        '<div class="scroll" role="region" tabindex="0" aria-label="Policies side by side"><table class="standings">'
        f'<thead><tr><th scope="col" class="left">policy</th>{head}</tr></thead><tbody>{rows}</tbody></table></div></div>'
    )


def _cell(measure: Measure, value: Spread, best: bool) -> str:
    shown = safe(measure.show(value.mean))
    if measure is comparison.SPEED:
        return f'<td><span class="clock">{shown}</span></td>'
    if best:
        shown = f'<b>{shown}<span class="hidden"> best</span></b>'
    return f"<td>{shown}{_range(measure.show, value)}</td>"


def _range(show: Callable[[float], str], value: Spread) -> str:
    least, most = show(value.least), show(value.most)
    return f"<small>{safe(least)}{NOTHING}{safe(most)}</small>" if least != most else ""


# Reasons


def _reasons(contest: Contest) -> str:
    unplaced = _reason_table(contest, "Not placed", "pods by reason", lambda one: one.run.unplaced_by_reason)
    refused = _reason_table(contest, "Refused", "admissions by reason", lambda one: one.refusals_by_reason)
    return unplaced + refused


def _reason_table(
    contest: Contest, title: str, unit: str, read: Callable[[Result], Mapping[str, int]]
) -> str:
    """Reasons against policies; the darker the more, and the number in every cell."""
    counts = [comparison.by_reason(one, read) for one in contest.standings]
    totals: dict[str, float] = {}
    for by_reason in counts:
        for reason, amount in by_reason.items():
            totals[reason] = totals.get(reason, 0) + amount
    if not totals:
        return ""
    order = sorted(totals, key=lambda reason: (-totals[reason], reason))
    shown, rest = order[:_MOST_REASONS], order[_MOST_REASONS:]
    rows = [(reason, [by_reason.get(reason, 0) for by_reason in counts]) for reason in shown]
    if rest:
        others = [sum(by_reason.get(reason, 0) for reason in rest) for by_reason in counts]
        rows.append((count(len(rest), "other reason"), others))
    most = max(amount for _, amounts in rows for amount in amounts)
    body = ""
    for reason, amounts in rows:
        cells = "".join(
            f'<td class="heat heat{_shade(amount, most)}">{safe(number(amount))}</td>' for amount in amounts
        )
        body += f'<tr><th scope="row">{safe(printable(reason, _LONGEST_REASON))}</th>{cells}</tr>'
    sums = "".join(f'<td class="heat">{safe(number(sum(by_reason.values())))}</td>' for by_reason in counts)
    heads = "".join(f'<th scope="col">{safe(one.policy)}</th>' for one in contest.standings)
    means = ", means over seeds" if len(contest.seeds) > 1 else ""
    return (
        f'<div class="panel"><h3>{title} <span>{unit}{means}</span></h3>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}, {unit}"><table class="reasons"><thead><tr>'
        f'<th scope="col" class="left">reason</th>{heads}</tr></thead><tbody>{body}'
        f'<tr><th scope="row">all</th>{sums}</tr></tbody></table></div></div>'
    )


def _shade(amount: float, most: float) -> int:
    return 0 if not amount else 1 + min(3, int(4 * amount / most))


def _storms(contest: Contest) -> str:
    """How many owners were caught in one under each policy, and the largest, whatever the seed."""
    rows = ""
    for one in contest.standings:
        storms = [(storm, result.run.seed) for result in one.results for storm in result.storms]
        if not storms:
            continue
        worst, seed = max(storms, key=lambda storm_and_seed: storm_and_seed[0].count)
        owners = len({storm.owner for storm, _ in storms})
        rows += (
            f'<tr><th scope="row">{safe(one.policy)}</th><td>{number(owners)}</td><td>{number(worst.count)}</td>'
            f'<td class="left">{safe(worst.owner)}</td><td class="left">{safe(worst.nodes[0])}</td>'
            f'<td class="left">{safe(worst.reason)}</td><td>{seed}</td></tr>'
        )
    if not rows:
        return ""
    return (
        '<div class="panel"><h3>Refusal storms <span>pods of one owner, made anew and refused again and again</span></h3>'
        '<div class="scroll" role="region" tabindex="0" aria-label="Refusal storms"><table><thead><tr>'
        '<th scope="col" class="left">policy</th><th scope="col">owners</th><th scope="col">largest, refusals</th>'
        '<th scope="col" class="left">its owner</th><th scope="col" class="left">node</th>'
        '<th scope="col" class="left">reason</th><th scope="col">seed</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


# The wall of nodes


def _walls(contest: Contest) -> str:
    walls = [(one, one.results[0]) for one in contest.standings if one.results[0].tiles]
    if not walls:
        return ""
    drawn = "".join(_wall(one, result) for one, result in walls)
    _, each = plots.cells(walls[0][1].tiles)
    square = "a square is a node" if each == 1 else f"a square stands for {each} nodes"
    seed = f", seed {walls[0][1].run.seed}" if len(contest.seeds) > 1 else ""
    keys = "".join(
        f'<span><svg viewBox="0 0 8 8">{plots.sample(shade)}</svg>{name}</span>'
        for shade, (_, name) in enumerate(plots.LEVELS)
    )
    keys += (
        f'<span><svg viewBox="0 0 8 8">{plots.sample(3, notch=True)}</svg>'
        f"{NOTCH // 10} % of the node and more stranded</span>"
    )
    return (
        f'<div class="panel"><h3>The cluster when the last pod had arrived <span>{square}, fullest first; shade: '
        f'{safe(contest.resource)} allocated{seed}</span></h3><p class="legend" aria-hidden="true">{keys}</p>'
        f'<div class="walls">{drawn}</div></div>'
    )


def _wall(one: Standing, result: Result) -> str:
    tiles, _ = plots.cells(result.tiles)
    full = sum(plots.used(tile) >= 1000 for tile in result.tiles)
    empty = sum(not plots.used(tile) for tile in result.tiles)
    stranded = sum(tile.stranded >= NOTCH for tile in result.tiles)
    summary = f"{number(full)} full, {number(empty)} empty, {number(stranded)} stranded"
    label = f"{one.policy}: of {count(len(result.tiles), 'node')} {summary}."
    return (
        f'<div class="p p{one.place}"><h4>{plots.key(one.place)}{safe(one.policy)}</h4>'
        f"{plots.svg(plots.wall(tiles, NARROW), label, '')}<small>{summary}</small></div>"
    )


# Below


def _about(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    seeds = sorted({result.run.seed for result in results})
    shown = {**facts, "seeds": ", ".join(map(str, seeds))}
    rows = "".join(
        f"<dt>{safe(name)}</dt><dd><code>{safe(value)}</code></dd>" for name, value in shown.items()
    )
    words = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in _WORDS)
    return (
        f'<div class="panel"><h3>What was tried</h3><dl class="facts">{rows}</dl></div>'
        f'<div class="panel"><h3>What the words mean</h3><dl class="facts">{words}</dl></div>'
    )
