"""Merging the hints of all resources into one, without walking their cross product.

The kubelet tries every combination of one hint per resource: with 8 NUMA nodes and five resources that is 8 x 10^11
combinations, days of work. But a combination only matters through the AND of its masks and through whether all
its masks are equal and preferred, and the winner is the minimum of a total order over those outcomes. So:

1. A preferred outcome is a mask that every resource prefers: intersect the preferred sets and take the best.
2. Without one, every outcome is non-preferred, and only the set of reachable ANDs matters. How many
   combinations have an AND that contains mask m is the product over resources of how many of their masks contain
   m; those counts come from one superset-sum (zeta) transform per resource, and the inverse transform of the
   product leaves, for each m, how many combinations have exactly that AND. A mask is reachable if that is not 0.

Cost: resources x nodes x 2^nodes instead of 2^(nodes x resources). Mirrors `topologymanager/policy.go` (v1.35).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

from numaware.twin.errors import KubeletPanic
from numaware.twin.topology.hints import Hint, Hints

_MOST_STEPS = 1 << 20

# Ranks a mask among others: the smallest key wins.
Better = Callable[[int], tuple[int, ...]]


def narrower(mask: int) -> tuple[int, int]:
    """Fewer nodes first, then the smaller number."""
    return mask.bit_count(), mask


class Closest:
    """The order of `prefer-closest-numa-nodes`: fewer nodes, then nearer to each other, then the smaller number.

    Masks of one size have equally many ordered pairs, so comparing sums of distances compares the averages.
    """

    def __init__(self, ids: Sequence[int], distances: Sequence[Sequence[int]]) -> None:
        self.ids = ids
        self.distances = distances
        # KUBELET: rows are indexed by NUMA id although they hold one entry per node, so sparse ids run off the end.
        self.sparse = any(node >= len(row) for row in distances for node in ids)

    def __call__(self, mask: int) -> tuple[int, int, int]:
        nodes = [position for position in range(len(self.ids)) if mask >> position & 1]
        total = 0
        for first in nodes:
            row = self.distances[first]
            for second in nodes:
                node = self.ids[second]
                if node >= len(row):
                    raise KubeletPanic(f"runtime error: index out of range [{node}] with length {len(row)}")
                total += row[node]
        return len(nodes), total, mask


def merge(lists: Iterable[Hints | None], full: int, better: Better, *, equal_masks: bool = True) -> Hint:
    """The hint the kubelet's best-effort and restricted policies arrive at.

    `equal_masks` is the rule since v1.24; before, hints that were all preferred gave a preferred AND even when
    their masks differed.
    """
    constrained = [hints for hints in lists if hints is not None]
    if isinstance(better, Closest) and better.sparse and _is_walkable(constrained):
        return _walked(constrained, full, better)
    preferred = preferred_masks(constrained, full, equal_masks=equal_masks)
    if preferred:
        return Hint(min(preferred, key=better), preferred=True)
    return Hint(_best_non_preferred(constrained, full, better, equal_masks=equal_masks), preferred=False)


def preferred_masks(constrained: Sequence[Hints], full: int, *, equal_masks: bool = True) -> Iterable[int]:
    """The masks a preferred merged hint may have; with nothing constrained that is all nodes together."""
    if not constrained:
        return (full,)
    if not equal_masks:
        return reachable([hints.preferred for hints in constrained], full)
    return set(constrained[0].preferred).intersection(*[hints.preferred for hints in constrained[1:]])


def _best_non_preferred(constrained: Sequence[Hints], full: int, better: Better, *, equal_masks: bool) -> int:
    # A resource that cannot be satisfied makes the outcome non-preferred but narrows no mask.
    satisfiable = [hints.masks for hints in constrained if hints.masks]
    candidates = reachable(satisfiable, full)
    if not candidates:
        return full
    if not equal_masks:
        return min(candidates, key=better)
    # Hint lists are ordered by size, so the narrowest mask of each comes first.
    target = max((masks[0].bit_count() for masks in satisfiable), default=0)

    def rank(size: int) -> tuple[int, int]:
        # Exactly as wide as the widest narrowest hint; else the widest below it; else the narrowest above it.
        return (0, 0) if size == target else (1, -size) if size < target else (2, size)

    best = min(set(map(int.bit_count, candidates)), key=rank)
    return min((mask for mask in candidates if mask.bit_count() == best), key=better)


def reachable(lists: Sequence[Sequence[int]], full: int) -> list[int]:
    """All non-zero masks that are the AND of one mask from each list; `full` when there are no lists."""
    if not lists:
        return [full]
    if not all(lists):
        return []
    width = full.bit_length()
    containing = [1] * (full + 1)
    for masks in lists:
        containing = [count * more for count, more in zip(containing, _supersets(masks, width), strict=True)]
    lane = max(containing).bit_length() // 8 + 1
    exact = int.from_bytes(b"".join(count.to_bytes(lane, "little") for count in containing), "little")
    for step, keep in _butterflies(width, lane * 8):
        # A count of combinations minus those that also contain this node: never negative, so no lane borrows.
        exact -= exact >> step & keep
    flat = exact.to_bytes(lane * len(containing), "little")
    zero = bytes(lane)
    return [mask for mask in range(1, full + 1) if flat[mask * lane : (mask + 1) * lane] != zero]


def _supersets(masks: Sequence[int], width: int) -> array[int]:
    """For every mask, how many of `masks` contain it: all 2^width sums at once in the 32-bit lanes of one integer."""
    counts = array("I", bytes(4 << width))
    for mask in masks:
        counts[mask] += 1
    packed = int.from_bytes(counts.tobytes(), "little")
    for step, keep in _butterflies(width, 32):
        packed += packed >> step & keep
    return array("I", packed.to_bytes(4 << width, "little"))


def _butterflies(width: int, lane: int) -> Iterable[tuple[int, int]]:
    """For each node: how far its lanes lie apart, and the lanes of the masks without that node.

    Up to the kubelet's usual eight nodes these are small and asked for all the time; beyond, they take megabytes.
    """
    return _kept_butterflies(width, lane) if width <= 8 else _made_butterflies(width, lane)


def _made_butterflies(width: int, lane: int) -> Iterator[tuple[int, int]]:
    for node in range(width):
        half = lane << node
        block = (1 << half) - 1
        # Repeat "block, gap of the same size" over all lanes by doubling.
        span = 2 * half
        while span < lane << width:
            block |= block << span
            span *= 2
        yield half, block


@lru_cache(maxsize=64)
def _kept_butterflies(width: int, lane: int) -> tuple[tuple[int, int], ...]:
    return tuple(_made_butterflies(width, lane))


def _is_walkable(constrained: Sequence[Hints]) -> bool:
    """Whether the walk ends within seconds; a kubelet that takes longer has other troubles than its distances."""
    return prod(len(hints.masks) or 1 for hints in constrained) <= _MOST_STEPS


def _walked(constrained: Sequence[Hints], full: int, better: Closest) -> Hint:
    """The cross product walked as the kubelet walks it: with sparse NUMA ids, what it compares decides if it crashes."""
    target = max((hints.masks[0].bit_count() for hints in constrained if hints.masks), default=0)
    best: Hint | None = None
    # A resource that cannot be satisfied narrows nothing and is never preferred: mask 0 stands for it.
    for choice in product(*(hints.masks or [0] for hints in constrained)):
        mask = full
        for part in choice:
            mask &= part or full
        if not mask:
            continue
        preferred = len(set(choice)) <= 1 and all(
            part in hints.preferred for part, hints in zip(choice, constrained, strict=True)
        )
        best = _preferable(best, Hint(mask, preferred), target, better)
    return best or Hint(full, preferred=False)


def _preferable(best: Hint | None, other: Hint, target: int, better: Closest) -> Hint:
    """The one of two hints the kubelet keeps, looking at distances only when nothing else tells them apart."""
    if best is None or best.mask is None or other.mask is None or (other.preferred and not best.preferred):
        return other
    if (best.preferred and not other.preferred) or best.mask == other.mask:
        return best
    size, more = best.mask.bit_count(), other.mask.bit_count()
    if size == more:
        return min(best, other, key=lambda hint: better(hint.mask or 0))
    if best.preferred or size > target:
        return best if size < more else other
    return other if size < more <= target else best
