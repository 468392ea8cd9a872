"""A comparison of schedulers as text: one line for each policy, then why pods found no place, and storms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaware.cli.tables import aligned
from numaware.machine.words import count, printable
from numaware.simulate.comparison import Contest, by_reason, columns, contests
from numaware.simulate.result import Result
from numaware.simulate.traces import SECOND

_MOST_REASONS = 5
_MOST_STORMS = 3
_LONGEST = 100


def table(results: Sequence[Result]) -> str:
    """Everything a person compares, policy by policy."""
    return "".join(line for contest in contests(results) for line in _contest(contest))


def _sizes(contest: Contest) -> Iterator[str]:
    """Placed pods by the GPUs they want, where some want any: no size of job should be starved."""
    came = contest.results[0].run.placed_by_size
    if len(came) < 2:
        return
    yield "\nplaced pods by GPUs\n"
    rows = [["", *came]]
    for standing in contest.standings:
        runs = [one.run.placed_by_size for one in standing.results]
        rows.append([standing.policy])
        for size in came:
            placed, asked = (sum(run.get(size, (0, 0))[part] for run in runs) for part in (0, 1))
            rows[-1].append(f"{placed:,} of {asked:,}")
    yield from aligned(rows, gap=2, pad=str.rjust)


def _contest(contest: Contest) -> Iterator[str]:
    pods = contest.results[0].run.pods_total
    seeds = ", ".join(map(str, contest.seeds))
    mean = f"means over seeds {seeds}" if len(contest.seeds) > 1 else f"seed {seeds}"
    where = f"{printable(contest.cluster, 80)} ({count(contest.nodes, 'node')})"
    yield f"{where}, {printable(contest.trace, 80)} ({count(pods, 'pod')}), {mean}\n\n"
    measures = columns(contest)
    rows = [
        ["policy", *(measure.title for measure in measures)],
        ["", *(measure.note for measure in measures)],
    ]
    rows += [
        [standing.policy, *(measure.show(standing.of(measure.read).mean) for measure in measures)]
        for standing in contest.standings
    ]
    yield from aligned(rows, gap=2, pad=str.rjust)
    yield from _sizes(contest)
    for standing in contest.standings:
        reasons = by_reason(standing, lambda one: one.run.unplaced_by_reason)
        if reasons:
            yield f"\n{standing.policy}: unplaced pods\n"
            for reason, number in list(reasons.items())[:_MOST_REASONS]:
                yield f"  {number:>8,.0f}  {printable(reason, _LONGEST)}\n"
    for standing in contest.standings:
        for result in standing.results[:1]:
            # The worst of each owner, which come first.
            worst = {storm.owner: storm for storm in reversed(result.storms)}
            for storm in sorted(worst.values(), key=result.storms.index)[:_MOST_STORMS]:
                yield (
                    f"\n{standing.policy}: {printable(storm.owner, 80)} was refused {count(storm.count, 'time')} within "
                    f"{(storm.last - storm.since) // SECOND} s, most of them by {printable(storm.nodes[0], 80)} ({storm.reason})\n"
                )
