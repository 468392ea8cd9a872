"""What a storm is, for everybody who speaks of one: `LEAST` pods of one owner, refused within `WINDOW` milliseconds.

A controller answers every refused pod with a new one, as fast as it can, and wherever the scheduler sends that one it may be
refused again: so refusals count by owner, whichever nodes they come from. The scheduler's storm guard, the lab's results and
the console, on a live cluster or on the lab, feed their refusals to a `StormDetector`; it keeps no clock of its own.
"""

from __future__ import annotations

from collections import Counter, deque

import msgspec

from numaware.machine.words import count

LEAST = 3
WINDOW = 10_000

# Owners whose refusals are remembered, and storms that are over; the oldest go first.
MOST_OWNERS = 4096


class Storm(msgspec.Struct, frozen=True, rename="camel"):
    """Refusals of one owner's pods, none later than `WINDOW` after the one before it.

    `nodes` are those that refused, most refusals first; `reason` is the most frequent; `since` and `last` are the times of
    the first refusal and of the last so far; `fix` is what would end it, where somebody has worked that out.
    """

    owner: str
    nodes: tuple[str, ...]
    count: int
    since: int
    last: int
    reason: str
    fix: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line for an event on the owner."""
        nodes = self.nodes
        where = f"{nodes[0]} and {count(len(nodes) - 1, 'other node')}" if nodes[1:] else nodes[0]
        seconds = (self.last - self.since) // 1000
        text = (
            f"{count(self.count, 'pod')} of {self.owner} refused by {where} within {seconds} s: {self.reason}"
        )
        return f"{text}. Any of these would help: {'; '.join(self.fix)}" if self.fix else text


class _Series:
    """The refusals of one owner since they began to come close to each other."""

    __slots__ = ("is_storm", "nodes", "reasons", "since", "times")

    def __init__(self, now: int) -> None:
        self.since = now
        self.times: deque[int] = deque((now,), maxlen=LEAST)
        self.nodes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.is_storm = False


class StormDetector:
    """Fed with refusals in the order of time."""

    def __init__(self) -> None:
        # The owner refused last stands last.
        self._series: dict[str, _Series] = {}
        self._over: deque[Storm] = deque(maxlen=MOST_OWNERS)

    def refused(self, owner: str, node: str, reason: str, now: int) -> Storm | None:
        """One more refusal; the storm if this is what makes it one."""
        series = self._series.pop(owner, None)
        if series is None or now - series.times[-1] > WINDOW:
            self._end(owner, series)
            series = _Series(now)
        else:
            series.times.append(now)
        self._series[owner] = series
        series.nodes[node] += 1
        series.reasons[reason] += 1
        if len(self._series) > MOST_OWNERS:
            oldest = next(iter(self._series))
            self._end(oldest, self._series.pop(oldest))
        if series.is_storm or len(series.times) < LEAST or now - series.times[0] > WINDOW:
            return None
        series.is_storm = True
        return _storm(owner, series)

    def ongoing(self, owner: str) -> Storm | None:
        """The owner's storm as it is now, None if there is none or the owner has been forgotten."""
        series = self._series.get(owner)
        return _storm(owner, series) if series is not None and series.is_storm else None

    def storms(self, since: int) -> list[Storm]:
        """The storms that went on at `since` or later, most refusals first, then by owner and time."""
        storms = [storm for storm in self._over if storm.last >= since]
        storms += [
            _storm(owner, series)
            for owner, series in self._series.items()
            if series.is_storm and series.times[-1] >= since
        ]
        return sorted(storms, key=lambda storm: (-storm.count, storm.owner, storm.since))

    def _end(self, owner: str, series: _Series | None) -> None:
        if series is not None and series.is_storm:
            self._over.append(_storm(owner, series))


def _storm(owner: str, series: _Series) -> Storm:
    nodes, reasons = _most_first(series.nodes), _most_first(series.reasons)
    return Storm(owner, nodes, series.nodes.total(), series.since, series.times[-1], reasons[0])


def _most_first(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))
