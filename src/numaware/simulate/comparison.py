"""Runs side by side: what each policy came to over its seeds, measure by measure, and which one is best.

Everything the report says in words, tables or pictures comes from here, so that no two places can disagree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import NamedTuple

from numaware.machine.words import NOTHING, printable
from numaware.simulate.result import Result, Sample

OURS, USUAL = "numaware", "kube-scheduler"
LONGEST_NAME = 80
# Points of a curve: one for every few pixels of a plot.
STEPS = 60


class Spread(NamedTuple):
    """A number over the seeds of one policy."""

    mean: float
    least: float
    most: float


class Measure(NamedTuple):
    """Something to compare: how to read it from a run, how people write it, and which way is better (0: neither)."""

    title: str
    read: Callable[[Result], float]
    show: Callable[[float], str]
    better: int
    note: str = ""


class Standing(NamedTuple):
    """One policy on one cluster and trace. `place` is where it stands in the whole report: its colour, its line, its mark."""

    place: int
    policy: str
    results: tuple[Result, ...]

    def of(self, read: Callable[[Result], float]) -> Spread:
        return spread([read(result) for result in self.results])


class Point(NamedTuple):
    """A curve at one load."""

    load: float
    value: Spread


class Contest(NamedTuple):
    """All policies on one cluster and trace, in the order in which they were given."""

    cluster: str
    trace: str
    nodes: int
    standings: tuple[Standing, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """Kinds of devices in the cluster, GPUs first."""
        names = {name for result in self.results for name in result.run.device_allocated_percent}
        return tuple(sorted(names, key=lambda name: (name != "gpu", name)))

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for standing in self.standings for result in standing.results)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({result.run.seed for result in self.results}))

    @property
    def resource(self) -> str:
        """What the cluster is bought for, as a reader calls it."""
        return device_title(self.devices[0]) if self.devices else "CPU"

    @property
    def ours(self) -> Standing:
        """The policy that the headline is about: numaware, or else the first."""
        return next((one for one in self.standings if one.policy == OURS), self.standings[0])

    @property
    def usual(self) -> Standing | None:
        """What the headline compares with: kube-scheduler, or else the first other policy."""
        others = [one for one in self.standings if one.place != self.ours.place]
        return next((one for one in others if one.policy == USUAL), others[0] if others else None)


def contests(results: Sequence[Result]) -> list[Contest]:
    """Results in groups that may be compared: the same cluster, the same trace."""
    policies = list(dict.fromkeys(result.run.policy for result in results))
    places = dict.fromkeys((result.cluster, result.trace) for result in results)
    groups = []
    for cluster, trace in places:
        here = [result for result in results if (result.cluster, result.trace) == (cluster, trace)]
        standings = []
        for index, policy in enumerate(policies):
            own = sorted((one for one in here if one.run.policy == policy), key=lambda one: one.run.seed)
            if own:
                standings.append(Standing(index, printable(policy, LONGEST_NAME), tuple(own)))
        groups.append(Contest(cluster, trace, max(result.nodes for result in here), tuple(standings)))
    return groups


def spread(values: Sequence[float]) -> Spread:
    return Spread(fmean(values), min(values), max(values))


def best(measure: Measure, standings: Sequence[Standing]) -> set[int]:
    """Indices of the policies that share the best number as it is written; none where all are equal."""
    if not measure.better:
        return set()
    means = {one.place: one.of(measure.read).mean for one in standings}
    winner = max(means.values(), key=lambda mean: measure.better * mean)
    winners = {index for index, mean in means.items() if measure.show(mean) == measure.show(winner)}
    return winners if len(winners) < len(means) else set()


# Curves


def curve(standing: Standing, read: Callable[[Sample], float], last: float) -> list[Point]:
    """A number of the history over the load that had arrived, from none to `last`, at even steps."""
    lines = [_Line(result.series, read) for result in standing.results if result.series]
    if not lines or last <= 0:
        return []
    loads = [last * step / STEPS for step in range(STEPS + 1)]
    return [Point(load, spread([line.at(load) for line in lines])) for load in loads]


def parting(curves: Sequence[Sequence[Point]]) -> int:
    """A little before curves come to be half as far apart as they ever are, if that is some way along; else 0.

    Before it there is little to see, and a plot that begins there shows the rest larger.
    """
    apart = [_apart(points) for points in zip(*curves, strict=True)]
    part = next((at for at, gap in enumerate(apart) if gap > max(apart) / 2), 0)
    before = part - STEPS // 15
    return before if before >= STEPS // 5 else 0


def _apart(points: Sequence[Point]) -> float:
    means = [point.value.mean for point in points]
    return max(means) - min(means)


def full_load(contest: Contest) -> float:
    """The load when everything had arrived."""
    return max((one.series[-1].arrived_percent for one in contest.results if one.series), default=0.0)


class _Line:
    """One run's history as straight lines between its samples."""

    def __init__(self, series: Sequence[Sample], read: Callable[[Sample], float]) -> None:
        # What happens after the last arrival is no longer a matter of load.
        until = next(at for at, sample in enumerate(series, 1) if sample.arrived == series[-1].arrived)
        self.loads = [sample.arrived_percent for sample in series[:until]]
        self.values = [read(sample) for sample in series[:until]]

    def at(self, load: float) -> float:
        after = bisect_right(self.loads, load)
        if after == 0 or after == len(self.loads):
            return self.values[min(after, len(self.loads) - 1)]
        left, right = self.loads[after - 1], self.loads[after]
        part = (load - left) / (right - left)
        return self.values[after - 1] + part * (self.values[after] - self.values[after - 1])


# Reasons


def by_reason(standing: Standing, read: Callable[[Result], Mapping[str, int]]) -> dict[str, float]:
    """How many for each reason, on average over the seeds."""
    totals: dict[str, int] = {}
    for result in standing.results:
        for reason, number in read(result).items():
            totals[reason] = totals.get(reason, 0) + number
    return {reason: number / len(standing.results) for reason, number in totals.items()}


# Numbers as people write them


def number(value: float) -> str:
    """A count, or an average of counts: with one decimal as long as that matters."""
    return tenths(value) if abs(value) < 100 and value % 1 else whole(value)


def whole(value: float) -> str:
    return f"{value:,.0f}" if isfinite(value) else NOTHING


def tenths(value: float) -> str:
    return f"{value:,.1f}" if isfinite(value) else NOTHING


def percent(value: float) -> str:
    return f"{tenths(value)} %"


def duration(milliseconds: float) -> str:
    """A time of the lab in the two units that matter."""
    if not isfinite(milliseconds):
        return NOTHING
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds else "0 s"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, size, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size:,} {unit} {whole % size // part} {lower}"
    raise AssertionError(whole)


def device_title(name: str) -> str:
    return name.upper() if len(name) <= 4 else name


# Measures

PLACED = Measure("placed", lambda one: one.run.pods_placed, number, 1, "pods")
REFUSALS = Measure("refused", lambda one: one.run.kubelet_refusals, number, -1, "by kubelets")
REFUSAL_RATE = Measure("refused", lambda one: one.refusals_per_thousand, tenths, -1, "per 1,000 pods")
ALIGNED = Measure("aligned", lambda one: one.run.aligned_percent, tenths, 1, "% of pinned pods")
CROSSING = Measure("cross-NUMA", lambda one: one.run.cross_numa_pods, number, -1, "pods")
CPU = Measure("CPU", lambda one: one.run.cpu_allocated_percent, tenths, 1, "% allocated")
MEMORY = Measure("memory", lambda one: one.run.memory_allocated_percent, tenths, 1, "% allocated")
STRANDED = Measure("stranded", lambda one: one.run.stranded_percent, tenths, -1, "% of capacity")
WAIT = Measure("wait", lambda one: one.wait_mean_ms, duration, -1, "on average")
# Neither way is better: who places more pods has more talk.
ACROSS = Measure("talk between NUMA nodes", lambda one: one.talk.across / 1e6, whole, 0, "MB/s")
PLANNED = Measure("talk after moves", lambda one: one.talk.planned / 1e6, whole, 0, "MB/s")
SPEED = Measure("decisions", lambda one: one.run.decisions_per_second, whole, 0, "per s")


def device(name: str) -> Measure:
    """How much of one kind of device was allocated."""
    return Measure(
        device_title(name),
        lambda one: one.run.device_allocated_percent.get(name, 0.0),
        tenths,
        1,
        "% allocated",
    )


def allocated(contest: Contest) -> Measure:
    """The allocation that matters most: of GPUs, or else of CPUs."""
    return device(contest.devices[0]) if contest.devices else CPU


def talks(contest: Contest) -> bool:
    """Whether pods of the trace are services that say something to each other on their nodes."""
    return any(one.talk.total for one in contest.results)


def columns(contest: Contest) -> tuple[Measure, ...]:
    """Every measure of the table, in its order."""
    devices = tuple(device(name) for name in contest.devices)
    return (
        PLACED,
        REFUSALS,
        REFUSAL_RATE,
        ALIGNED,
        CROSSING,
        CPU,
        MEMORY,
        *devices,
        STRANDED,
        WAIT,
        *((ACROSS, PLANNED) if talks(contest) else ()),
        SPEED,
    )
