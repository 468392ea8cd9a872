"""What a resource manager says about NUMA nodes before it allocates.

Mirrors `pkg/kubelet/cm/topologymanager` (TopologyHint). A list of hints for one resource is kept as its masks in
the kubelet's order and the subset that is preferred; None in place of a list means "no preference", and a list
without masks means "cannot be satisfied".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Hint(NamedTuple):
    """One merged hint: a NUMA mask (None = any) and whether every manager preferred it."""

    mask: int | None
    preferred: bool


class Hints:
    """The hints of one resource: all masks it can live with, by size then lexicographic, and those it prefers.

    Managers that agree on a preferred mask never look at the others, so the others may be given as a way to find them.
    """

    __slots__ = ("_masks", "preferred")

    def __init__(self, masks: list[int] | Callable[[], list[int]], preferred: list[int]) -> None:
        self._masks = masks
        self.preferred = preferred

    @property
    def masks(self) -> list[int]:
        if not isinstance(self._masks, list):
            self._masks = self._masks()
        return self._masks

    @property
    def possible(self) -> bool:
        """Whether there is any mask."""
        return bool(self.preferred or self.masks)

    def __repr__(self) -> str:
        return f"Hints({self.masks}, {self.preferred})"


def of_size(masks: list[int], size: int) -> list[int]:
    """The masks of `size` nodes out of a list in the kubelet's order, where they stand side by side."""
    first = bisect_left(masks, size, key=int.bit_count)
    return masks[first : bisect_right(masks, size, first, key=int.bit_count)]


def single_nodes(free: Iterable[int], wanted: int) -> list[int]:
    """The masks of one node with at least as much as is wanted, in the kubelet's order."""
    return [1 << position for position, amount in enumerate(free) if amount >= wanted]


# One manager's answer: nothing for a resource it has no opinion on, None for "any node will do".
Answer = dict[str, Hints | None]

# No affinity is stored before a merge, or when the policy is `none`.
NO_HINT = Hint(None, preferred=False)
IMPOSSIBLE = Hints([], [])
