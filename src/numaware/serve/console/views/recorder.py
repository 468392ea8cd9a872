"""The built-in memory: what every NUMA node held over the last hours, for charts without a Prometheus.

A node is written down when it has changed, so a quiet cluster costs nothing; how far back that reaches is bounded by the
number of entries, not by time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from numaware.serve.console.views.strips import Strip
from numaware.serve.console.views.wall_model import WallModel
from numaware.serve.console.world import news

EVERY = 15_000
# Where nobody looked for longer, nothing is known of the time in between.
LONGEST_BLINK = 60_000
_MOST_ENTRIES = 50_000
_MOST_SAMPLES = 6 * 3600_000 // EVERY
MOST_POINTS = 600


class Point(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster at one moment; `alignedPermille` of the pods that own something."""

    time: int
    pods: int
    waiting: int
    aligned_permille: int
    # Since the point before.
    refusals: int


class NumaSeries(msgspec.Struct, frozen=True, rename="camel"):
    """One NUMA node over time: CPUs in use (owned, or asked for in the shared pool) and memory in use, in thousandths."""

    numa: int
    cpus: int
    cpu: tuple[int | None, ...]
    memory: tuple[int | None, ...]


class Series(msgspec.Struct, frozen=True, rename="camel"):
    """What was recorded: the cluster as a whole, and one node by NUMA nodes, at the same moments."""

    node: str
    from_ms: int
    to_ms: int
    # How far back anything is kept, whatever was asked for.
    kept_from_ms: int
    step_ms: int
    times: tuple[int, ...]
    cluster: tuple[Point | None, ...]
    numa: tuple[NumaSeries, ...]
    source: Literal["built-in recorder", "history file"]


class _Entry(NamedTuple):
    time: int
    strips: tuple[Strip, ...]


class Recorder:
    """Entries per node and samples of the whole, oldest first."""

    def __init__(self, wall_model: WallModel) -> None:
        self.wall_model = wall_model
        self.samples: deque[Point] = deque(maxlen=_MOST_SAMPLES)
        self._entries: dict[str, deque[_Entry]] = {}
        self._last_event = 0

    def record(self) -> None:
        """Look at the world if it is time to: once in every step of a series, however late the last look was."""
        now = self.wall_model.world.now
        if self.samples and now <= step_end(self.samples[-1].time, EVERY):
            return
        self.wall_model.refresh()
        world, cluster = self.wall_model.world, self.wall_model.cluster
        most = max(30, _MOST_ENTRIES // max(1, len(cluster)))
        for member in cluster:
            strips = self.wall_model.strips(member.name)
            entries = self._entries.get(member.name)
            if entries is None:
                entries = self._entries[member.name] = deque(maxlen=most)
            if not entries or entries[-1].strips is not strips:
                entries.append(_Entry(now, strips))
        happened = news(world.events, self._last_event)
        if happened:
            self._last_event = happened[-1].id
        pinned, aligned = self.wall_model.pinned()
        self.samples.append(
            Point(
                now,
                len(world.stories),
                len(world.waiting),
                1000 * aligned // pinned if pinned else 1000,
                sum(event.kind == "refused" for event in happened),
            )
        )

    def kept_from(self, node: str) -> int:
        """How far back the cluster, and the node if there is one of that name, are remembered."""
        first = self.samples[0].time if self.samples else self.wall_model.world.now
        entries = self._entries.get(node)
        return max(first, entries[0].time) if entries else first

    def series(self, node: str, span: int) -> Series:
        """The last `span` milliseconds of the cluster and, if there is one of that name, of a node."""
        now = self.wall_model.world.now
        step, times = steps(now - span, now)
        entries = list(self._entries.get(node, ()))
        starts = [entry.time for entry in entries]
        looks = [sample.time for sample in self.samples]
        at = [
            entries[place - 1].strips
            if (place := bisect_right(starts, time)) and _looked(looks, time, step, now)
            else None
            for time in times
        ]
        return Series(
            node=node,
            from_ms=now - span,
            to_ms=now,
            kept_from_ms=self.kept_from(node),
            step_ms=step,
            times=times,
            cluster=by_step(self.samples, times, step),
            numa=by_numa(at),
            source="built-in recorder",
        )


def steps(begin: int, end: int) -> tuple[int, tuple[int, ...]]:
    """The moments that a series tells of, and how far they are apart: round ones, and not too many."""
    step = max(EVERY, -(-(end - begin) // MOST_POINTS // EVERY) * EVERY)
    return step, tuple(moment * step for moment in range(begin // step + 1, end // step + 1))


def step_end(time: int, step: int) -> int:
    """The round moment that tells of the step in which `time` lies."""
    return -(-time // step) * step


def by_step(samples: Iterable[Point], times: Sequence[int], step: int) -> tuple[Point | None, ...]:
    """The last sample of each step with the refusals of all of them; None where nothing was recorded."""
    found: dict[int, Point] = {}
    for sample in samples:
        moment = step_end(sample.time, step)
        known = found.get(moment)
        refusals = sample.refusals + (known.refusals if known else 0)
        found[moment] = msgspec.structs.replace(sample, refusals=refusals)
    return tuple(found.get(time) for time in times)


def _looked(looks: Sequence[int], time: int, step: int, now: int) -> bool:
    """Whether a node that was not written down had not changed then, or nobody looked (a laptop slept)."""
    place = bisect_right(looks, time)
    before, after = looks[place - 1] if place else 0, looks[place] if place < len(looks) else now
    return time <= step_end(before, step) or after - before <= LONGEST_BLINK


def by_numa(at: Sequence[tuple[Strip, ...] | None]) -> tuple[NumaSeries, ...]:
    """What a node held at every moment, told by NUMA node; those that it had last are told of."""
    last = next((strips for strips in reversed(at) if strips is not None), ())
    here = [{strip.id: strip for strip in strips or ()} for strips in at]
    return tuple(
        NumaSeries(
            strip.id,
            strip.cpus,
            tuple(one.exclusive + one.shared if (one := strips.get(strip.id)) else None for strips in here),
            tuple(one.memory if (one := strips.get(strip.id)) else None for strips in here),
        )
        for strip in last
    )
