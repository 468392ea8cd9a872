"""What a source of talk is: asked once a period which pods run, it says how many bytes each two of them have exchanged since.

`collector.py` asks the sockets of all pods, `conntrack.py` the kernel's connection tracking, `process_pairs.py` reads what another
program has counted; `sources.py` asks all that were chosen.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from numaware.affinity.traffic import Pair

K = TypeVar("K")


class PodNetwork(msgspec.Struct, frozen=True):
    """Where a pod's connections are: the number of its network namespace and a path to it; numbers of control groups.

    Paths change, as they lead over processes that come and go; the number stays. A namespace that is `shared`, such as the
    host's, has more than this pod in it.
    """

    uid: str
    namespace: int
    path: str
    shared: bool = False
    cgroups: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()


class Counted(msgspec.Struct, frozen=True):
    """One period. `lost` are places that could not tell all, as it was too much; `unread` who could not be asked, and why."""

    bytes: Mapping[Pair, int]
    connections: int
    lost: tuple[str, ...]
    unread: Mapping[str, str]
    cpu_seconds: float


class Source(Protocol):
    """Bytes between the pods of this node."""

    def collect(self, pods: Sequence[PodNetwork]) -> Counted:
        """What was said since the last call; what was said before the first is nobody's."""

    def close(self) -> None:
        """Nobody asks any more."""


class Counters(Generic[K]):
    """Counts of things that only grow until they end, told again and again: by how much each has grown."""

    def __init__(self) -> None:
        self._totals: dict[K, int] = {}

    def begin(self, totals: Mapping[K, int]) -> None:
        """What these had counted before anybody looked."""
        for key, total in totals.items():
            self._totals.setdefault(key, total)

    def grown(self, totals: Mapping[K, int], ended: Container[K]) -> dict[K, int]:
        """Who is not told of has ended, and so have those in `ended`."""
        before = self._totals
        self._totals = {key: total for key, total in totals.items() if key not in ended}
        # Fewer than before: another connection has the same addresses and ports by now.
        return {
            key: total - was if total >= (was := before.get(key, 0)) else total
            for key, total in totals.items()
        }


def place(namespace: int) -> str:
    """How a namespace is called where something is wrong there."""
    return f"network namespace {namespace}"
