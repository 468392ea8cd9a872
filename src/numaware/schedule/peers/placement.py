"""What a rule would take from which zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb
from typing import Literal, NamedTuple

from numaware.workload.pod import Resources

# More than any machine asks for: eight zones have 70 combinations of one size, twenty have 184,756.
_MOST_COMBINATIONS = 1_000_000


class PeerPlacement(NamedTuple):
    """What a rule makes of a pod on a node, and what each zone (by id, ascending) would give to it.

    `unjudged`: the rule has no say there. `unplaced`: the pod may come although no zones hold it.
    """

    verdict: Literal["placed", "unjudged", "unplaced", "refused"]
    zones: tuple[tuple[int, Resources], ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether the rule lets the pod come."""
        return self.verdict != "refused"


REFUSED = PeerPlacement("refused")
UNJUDGED = PeerPlacement("unjudged")
UNPLACED = PeerPlacement("unplaced")


def subsets(positions: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """All combinations of this size, in order; ValueError where nobody could wait for them."""
    if comb(len(positions), size) > _MOST_COMBINATIONS:
        raise ValueError(f"{len(positions)} zones taken {size} at a time are too many combinations to try")
    return combinations(positions, size)


def gathered(taken: dict[int, dict[str, int]]) -> tuple[tuple[int, Resources], ...]:
    """Amounts by zone id as a placement holds them."""
    return tuple((zone, tuple(sorted(amounts.items()))) for zone, amounts in sorted(taken.items()) if amounts)
