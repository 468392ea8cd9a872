"""A comparison of schedulers as text of 80 columns: one column for each policy, then why pods found no place, and storms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaware.cli.tables import aligned, widths
from numaware.machine.drawing.lines import wrap
from numaware.machine.words import count, printable
from numaware.simulate.comparison import Contest, by_reason, columns, contests
from numaware.simulate.result import Result
from numaware.simulate.traces import SECOND

_MOST_REASONS = 5
_MOST_STORMS = 3
_LONGEST = 100
_ROOM = 80
_GAP = 2


def table(results: Sequence[Result], notes: Sequence[str] = ()) -> str:
    """Everything a person compares, policy by policy, and what had to be assumed."""
    compared = "".join(line for contest in contests(results) for line in _contest(contest))
    return compared + "".join(line for note in notes for line in ("\n", *_paragraph(f"note: {note}")))


def _contest(contest: Contest) -> Iterator[str]:
    pods = contest.results[0].run.pods_total
    seeds = ", ".join(map(str, contest.seeds))
    mean = f"means over seeds {seeds}" if len(contest.seeds) > 1 else f"seed {seeds}"
    where = f"{printable(contest.cluster, 80)} ({count(contest.nodes, 'node')})"
    yield from _paragraph(f"{where}, {printable(contest.trace, 80)} ({count(pods, 'pod')}), {mean}")
    names = [standing.policy for standing in contest.standings]
    rows = [["", *names]]
    for measure in columns(contest):
        shown = [measure.show(standing.of(measure.read).mean) for standing in contest.standings]
        rows.append([f"{measure.title} {measure.note}".rstrip(), *shown])
    yield from _side_by_side(rows)
    yield from _sizes(contest)
    for standing in contest.standings:
        reasons = by_reason(standing, lambda one: one.run.unplaced_by_reason)
        if reasons:
            yield f"\n{standing.policy}: unplaced pods\n"
            for reason, number in list(reasons.items())[:_MOST_REASONS]:
                head = f"  {number:>8,.0f}  "
                for line in wrap(printable(reason, _LONGEST), _ROOM - len(head)):
                    yield f"{head}{line}\n"
                    head = " " * len(head)
    for standing in contest.standings:
        for result in standing.results[:1]:
            # The worst of each owner, which come first.
            worst = {storm.owner: storm for storm in reversed(result.storms)}
            for storm in sorted(worst.values(), key=result.storms.index)[:_MOST_STORMS]:
                yield "\n"
                yield from _paragraph(
                    f"{standing.policy}: {printable(storm.owner, 80)} was refused {count(storm.count, 'time')} within "
                    f"{(storm.last - storm.since) // SECOND} s, most of them by {printable(storm.nodes[0], 80)} ({storm.reason})"
                )


def _sizes(contest: Contest) -> Iterator[str]:
    """Placed pods by the GPUs they want, where some want any: no size of job should be starved."""
    came = contest.results[0].run.placed_by_size
    if len(came) < 2:
        return
    rows = [["placed pods by GPUs", *(standing.policy for standing in contest.standings)]]
    for size in came:
        rows.append([f"  {size}"])
        for standing in contest.standings:
            runs = [one.run.placed_by_size for one in standing.results]
            placed, asked = (sum(run.get(size, (0, 0))[part] for run in runs) for part in (0, 1))
            rows[-1].append(f"{placed:,} of {asked:,}")
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
        yield from aligned([[row[0], *row[start:end]] for row in rows], gap=_GAP, pad=str.rjust)
        start = end


def _paragraph(text: str) -> Iterator[str]:
    for line in wrap(text, _ROOM, 2):
        yield f"{line}\n"
