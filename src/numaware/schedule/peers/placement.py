"""What a rule would take from which zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from numaware.workload.pod import Resources

# More than any machine asks for: eight zones have 70 combinations of one size, twenty have 184,756.
_MOST_COMBINATIONS = 1_000_000


class PeerPlacement(NamedTuple):
    """Whether the pod may come, and what each zone (by id, ascending) would give; nothing where the rule has no say."""

    admitted: bool
    zones: tuple[tuple[int, Resources], ...] = ()

    @property
    def span(self) -> int:
        """How many zones the pod would lie on."""
        return len(self.zones)


REFUSED = PeerPlacement(admitted=False)
UNJUDGED = PeerPlacement(admitted=True)


def subsets(positions: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """All combinations of this size, in order; ValueError where nobody could wait for them."""
    if comb(len(positions), size) > _MOST_COMBINATIONS:
        raise ValueError(f"{len(positions)} zones taken {size} at a time are too many combinations to try")
    return combinations(positions, size)


def gathered(taken: dict[int, dict[str, int]]) -> tuple[tuple[int, Resources], ...]:
    """Amounts by zone id as a placement holds them."""
    return tuple((zone, tuple(sorted(amounts.items()))) for zone, amounts in sorted(taken.items()) if amounts)
