"""A comparison of schedulers as text of 80 columns: one column for each policy, then why pods found no place, and storms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaware.cli.explain_view import phrase
from numaware.cli.tables import aligned, right, widths
from numaware.diagnose.evidence import fit_error
from numaware.diagnose.texts import Lang, say
from numaware.machine.drawing.lines import wrap
from numaware.machine.words import count, printable
from numaware.sentence import Sentence
from numaware.simulate.comparison import Contest, Measure, by_reason, columns, contests, device_title
from numaware.simulate.result import Result
from numaware.simulate.traces import SECOND

_MOST_REASONS = 5
_MOST_STORMS = 3
_LONGEST = 100
_ROOM = 80
_GAP = 2


def table(results: Sequence[Result], notes: Sequence[Sentence] = (), lang: Lang = "en") -> str:
    """Everything a person compares, policy by policy, and what had to be assumed."""
    compared = "".join(line for contest in contests(results) for line in _contest(contest, lang))
    told = [phrase("note", lang, note=note) for note in notes]
    return compared + "".join(line for note in told for line in ("\n", *_paragraph(note)))


def _contest(contest: Contest, lang: Lang) -> Iterator[str]:
    seeds = ", ".join(map(str, contest.seeds))
    several = len(contest.seeds) > 1
    head = phrase(
        "simulate-head",
        lang,
        cluster=printable(contest.cluster, 80),
        nodes=contest.nodes,
        trace=printable(contest.trace, 80),
        pods=contest.results[0].run.pods_total,
        seeds=phrase("simulate-seeds", lang, seeds=seeds)
        if several
        else phrase("simulate-seed", lang, seed=seeds),
    )
    yield from _paragraph(head)
    names = [standing.policy for standing in contest.standings]
    rows = [["", *names]]
    for measure in columns(contest):
        shown = [measure.show(standing.of(measure.read).mean) for standing in contest.standings]
        rows.append([_measure(measure, contest, lang), *shown])
    yield from _side_by_side(rows)
    yield from _sizes(contest, lang)
    for standing in contest.standings:
        reasons = by_reason(standing, lambda one: one.run.unplaced_by_reason)
        if reasons:
            yield f"\n{phrase('simulate-unplaced', lang, policy=standing.policy)}\n"
            for reason, number in list(reasons.items())[:_MOST_REASONS]:
                head = f"  {number:>8,.0f}  "
                for line in wrap(printable(_reason(reason, lang), _LONGEST), _ROOM - len(head)):
                    yield f"{head}{line}\n"
                    head = " " * len(head)
    for standing in contest.standings:
        for result in standing.results[:1]:
            # The worst of each owner, which come first.
            worst = {storm.owner: storm for storm in reversed(result.storms)}
            for storm in sorted(worst.values(), key=result.storms.index)[:_MOST_STORMS]:
                yield "\n"
                told = phrase(
                    "simulate-storm",
                    lang,
                    policy=standing.policy,
                    owner=printable(storm.owner, 80),
                    times=count(storm.count, "time") if lang == "en" else f"{storm.count} 次",
                    seconds=(storm.last - storm.since) // SECOND,
                    node=printable(storm.nodes[0], 80),
                    reason=storm.reason,
                )
                yield from _paragraph(told)


def _measure(measure: Measure, contest: Contest, lang: Lang) -> str:
    """What a row of the table is about; devices have the names that the cluster gives them."""
    title = f"{measure.title} {measure.note}".rstrip()
    if lang == "en":
        return title
    devices = [device_title(name) for name in contest.devices]
    if measure.title in devices:
        return phrase("measure-device", lang, device=measure.title)
    return phrase(f"measure-{title}", lang)


def _reason(text: str, lang: Lang) -> str:
    """Why pods found no place, in the words of the run; in another language where they are known ones."""
    read = fit_error.read(text) if lang != "en" else None
    return say(read, lang) if read is not None else text


def _sizes(contest: Contest, lang: Lang) -> Iterator[str]:
    """Placed pods by the GPUs they want, where some want any: no size of job should be starved."""
    came = contest.results[0].run.placed_by_size
    if len(came) < 2:
        return
    rows = [[phrase("simulate-sizes", lang), *(standing.policy for standing in contest.standings)]]
    for size in came:
        rows.append([f"  {size}"])
        for standing in contest.standings:
            runs = [one.run.placed_by_size for one in standing.results]
            placed, asked = (sum(run.get(size, (0, 0))[part] for run in runs) for part in (0, 1))
            rows[-1].append(phrase("simulate-of", lang, placed=f"{placed:,}", asked=f"{asked:,}"))
    yield from _side_by_side(rows)


def _side_by_side(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows with as many of their columns beside each other as there is room for, then the next."""
    first, *others = widths(rows)
    start = 1
    while start < len(rows[0]):
        end, used = start + 1, first + _GAP + others[start - 1]
        while end < len(rows[0]) and used + _GAP + others[end - 1] <= _ROOM:
            used += _GAP + others[end - 1]
            end += 1
        yield "\n"
        yield from aligned([[row[0], *row[start:end]] for row in rows], gap=_GAP, pad=right)
        start = end


def _paragraph(text: str) -> Iterator[str]:
    for line in wrap(text, _ROOM, 2):
        yield f"{line}\n"
