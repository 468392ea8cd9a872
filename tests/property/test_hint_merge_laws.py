"""Merging over the lattice of masks gives what the kubelet's walk over all combinations gives.

The walk is written here as plainly as possible, one combination at a time, one comparison at a time, as the kubelet
does it; nothing is shared with the code under test but the hints themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.twin.hardware import CpuPlace, NumaHardware, layout, mask_order
from numaware.twin.topology.hints import Hint, Hints
from numaware.twin.topology.merge import Closest, merge, narrower
from numaware.twin.topology.policies import Policy

# One hint as the kubelet has it: a mask, or None for any node, and whether it is preferred.
Plain = tuple[int | None, bool]
# Whether the first mask is better than the second.
Wins = Callable[[int, int], bool]


class Question(NamedTuple):
    """Some resources' hints on a machine of some NUMA nodes, and the distances between those."""

    nodes: int
    lists: list[Hints | None]
    distances: list[list[int]]

    @property
    def full(self) -> int:
        return (1 << self.nodes) - 1


@st.composite
def questions(draw: st.DrawFn) -> Question:
    nodes = draw(st.integers(1, 5))
    every = mask_order(nodes)
    lists: list[Hints | None] = []
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.integers(0, 9)) == 0:
            lists.append(None)
            continue
        chosen = draw(st.sets(st.sampled_from(every), max_size=6))
        masks = [mask for mask in every if mask in chosen]
        preferred = draw(st.sets(st.sampled_from(masks))) if masks else set()
        lists.append(Hints(masks, [mask for mask in masks if mask in preferred]))
    distance = st.integers(10, 14)
    distances = [[draw(distance) for _ in range(nodes)] for _ in range(nodes)]
    return Question(nodes, lists, distances)


def plain(hints: Hints | None) -> list[Plain]:
    """No preference is one hint for any node; what cannot be had is one that is not preferred."""
    if hints is None:
        return [(None, True)]
    return [(mask, mask in hints.preferred) for mask in hints.masks] or [(None, False)]


def is_narrower(one: int, other: int) -> bool:
    if one.bit_count() == other.bit_count():
        return one < other
    return one.bit_count() < other.bit_count()


def is_closer(distances: Sequence[Sequence[int]]) -> Wins:
    def average(mask: int) -> float:
        nodes = [node for node in range(len(distances)) if mask >> node & 1]
        return sum(distances[a][b] for a in nodes for b in nodes) / len(nodes) ** 2

    def wins(one: int, other: int) -> bool:
        if one.bit_count() != other.bit_count():
            return one.bit_count() < other.bit_count()
        if average(one) != average(other):
            return average(one) < average(other)
        return one < other

    return wins


def walk(lists: Sequence[Hints | None], full: int, wins: Wins) -> Hint:
    """The kubelet's walk since v1.24."""
    lines = [plain(hints) for hints in lists]
    widest_narrowest = max(
        (
            min(sizes)
            for line in lines
            if (sizes := [mask.bit_count() for mask, _ in line if mask is not None])
        ),
        default=0,
    )
    best: Hint | None = None
    for combination in product(*lines):
        masks = [mask for mask, _ in combination if mask is not None]
        merged = full
        for mask in masks:
            merged &= mask
        if merged:
            equal = all(mask == masks[0] for mask in masks)
            candidate = Hint(merged, equal and all(preferred for _, preferred in combination))
            best = candidate if best is None else compared(best, candidate, widest_narrowest, wins)
    return best or Hint(full, preferred=False)


def compared(current: Hint, candidate: Hint, target: int, wins: Wins) -> Hint:
    """Which of two outcomes the kubelet keeps."""
    old, new = current.mask or 0, candidate.mask or 0
    better = candidate if wins(new, old) else current
    if candidate.preferred != current.preferred:
        return candidate if candidate.preferred else current
    if candidate.preferred or old.bit_count() > target:
        return better
    if old.bit_count() == target:
        return better if new.bit_count() == target else current
    if new.bit_count() > target:
        return current
    if new.bit_count() == target or new.bit_count() > old.bit_count():
        return candidate
    return current if new.bit_count() < old.bit_count() else better


def old_walk(lists: Sequence[Hints | None], full: int) -> Hint:
    """The kubelet's walk before v1.24: equal masks were not asked for, and the narrowest outcome won."""
    best = Hint(full, preferred=False)
    for combination in product(*map(plain, lists)):
        merged = full
        for mask, _ in combination:
            merged &= full if mask is None else mask
        preferred = all(wanted for _, wanted in combination)
        if not merged or (best.preferred and not preferred):
            continue
        if (preferred and not best.preferred) or is_narrower(merged, best.mask or 0):
            best = Hint(merged, preferred)
    return best


@settings(max_examples=1500)
@given(questions())
def test_the_walk_over_all_combinations_finds_nothing_else(asked: Question) -> None:
    """For the narrowest outcome, for the closest one, and by the rule of kubelets before v1.24."""
    lists, full = asked.lists, asked.full
    assert merge(lists, full, narrower) == walk(lists, full, is_narrower)
    closest = Closest(range(asked.nodes), asked.distances)
    assert merge(lists, full, closest) == walk(lists, full, is_closer(asked.distances))
    assert merge(lists, full, narrower, equal_masks=False) == old_walk(lists, full)


@settings(max_examples=300)
@given(questions(), st.sampled_from(["best-effort", "restricted", "single-numa-node"]), st.booleans())
def test_a_policy_admits_what_the_walk_admits(asked: Question, name: str, closest: bool) -> None:
    """Found the short way or the long way round, it is the same hint that passes."""
    places = tuple(
        NumaHardware(node, (CpuPlace(node, node, node),), distances=tuple(asked.distances[node]))
        for node in range(asked.nodes)
    )
    better = Closest(layout(places).ids, asked.distances) if closest else narrower
    policy = Policy(name, layout(places).full, better)
    merged = policy.merged(asked.lists)
    if name == "single-numa-node":
        single = [hints and Hints(*[one_node_only(hints.preferred)] * 2) for hints in asked.lists]
        # A list of which nothing is left has no combination: the default hint is all there is.
        some = all(hints is None or hints.masks for hints in single)
        expected = walk(single, asked.full, is_narrower) if some else Hint(asked.full, preferred=False)
        assert merged == (Hint(None, expected.preferred) if expected.mask == asked.full else expected)
    else:
        wins = is_closer(asked.distances) if closest else is_narrower
        assert merged == walk(asked.lists, asked.full, wins)
    assert policy.admits(merged) == (name == "best-effort" or merged.preferred)
    assert policy.admitted(asked.lists) == (merged if policy.admits(merged) else None)


def one_node_only(masks: list[int]) -> list[int]:
    return [mask for mask in masks if mask.bit_count() == 1]


@given(questions(), st.data())
def test_the_order_of_resources_does_not_matter(asked: Question, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(asked.lists))
    assert merge(shuffled, asked.full, narrower) == merge(asked.lists, asked.full, narrower)
