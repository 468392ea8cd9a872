"""What a resource manager says about NUMA nodes before it allocates.

Mirrors `pkg/kubelet/cm/topologymanager` (TopologyHint). A list of hints for one resource is kept as its masks in
the kubelet's order and the subset that is preferred; None in place of a list means "no preference", and a list
without masks means "cannot be satisfied".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple


class Hint(NamedTuple):
    """One merged hint: a NUMA mask (None = any) and whether every manager preferred it."""

    mask: int | None
    preferred: bool


class Hints(NamedTuple):
    """The hints of one resource: all masks it can live with, by size then lexicographic, and those it prefers."""

    masks: list[int]
    preferred: list[int]


def of_size(masks: list[int], size: int) -> list[int]:
    """The masks of `size` nodes out of a list in the kubelet's order, where they stand side by side."""
    first = bisect_left(masks, size, key=int.bit_count)
    return masks[first : bisect_right(masks, size, first, key=int.bit_count)]


# One manager's answer: nothing for a resource it has no opinion on, None for "any node will do".
Answer = dict[str, Hints | None]

# No affinity is stored before a merge, or when the policy is `none`.
NO_HINT = Hint(None, preferred=False)
IMPOSSIBLE = Hints([], [])
