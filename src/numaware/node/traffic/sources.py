"""All sources of talk that were chosen, asked together, and no more often than what that costs allows.

What two pods say is seen by several of them, and counts as whoever has seen most of it says. Called by
`affinity/observer.py` once a period.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from numaware.affinity.traffic import Pair
from numaware.errors import InputError
from numaware.node.traffic.collector import Collector
from numaware.node.traffic.conntrack import Conntrack
from numaware.node.traffic.process_pairs import ProcessPairs
from numaware.node.traffic.source import Counted, PodNetwork, Source

SOCKETS, CONNTRACK = "sockets", "conntrack"


def check(names: Sequence[str]) -> None:
    """`InputError` for a name of no source: those of our own, and files by their whole path."""
    for name in names:
        if name not in (SOCKETS, CONNTRACK) and not name.startswith("/"):
            raise InputError(
                "--affinity-source",
                f"{name!r} is no source",
                hint=f"use {SOCKETS}, {CONNTRACK} or the path of a file that another program writes",
            )


def sources_of(names: Sequence[str], root: str) -> list[Source]:
    """Each of them once; `root` is where the node's / is."""
    return [_source(name, root) for name in dict.fromkeys(names)]


def _source(name: str, root: str) -> Source:
    if name == SOCKETS:
        return Collector()
    return Conntrack(root) if name == CONNTRACK else ProcessPairs(Path(name))


class Sources:
    """Asks all of them. `budget` is how many seconds of CPU that may cost in a second; `rests` how often it was left out."""

    def __init__(self, sources: Sequence[Source], budget: float) -> None:
        self.cpu_seconds = 0.0
        self.rests = 0
        self._sources = sources
        self._budget = budget
        self._again = 0.0

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def collect(self, pods: Sequence[PodNetwork], now: float) -> Counted | None:
        """What was said since the last time, or None where it is too early after what the last time cost."""
        if now < self._again:
            self.rests += 1
            return None
        told = [source.collect(pods) for source in self._sources]
        most: dict[Pair, int] = {}
        for one in told:
            for pair, said in one.bytes.items():
                most[pair] = max(most.get(pair, 0), said)
        cost = sum(one.cpu_seconds for one in told)
        self.cpu_seconds += cost
        self._again = now + cost / self._budget
        return Counted(
            most,
            sum(one.connections for one in told),
            tuple(place for one in told for place in one.lost),
            {place: problem for one in told for place, problem in one.unread.items()},
            cost,
        )
