"""How many nodes refuse a pod for which reason, when no node is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from numaware.diagnose.reason import Counts, Reason, most_frequent_first
from numaware.schedule.answer import Answer


def shared_refusals(answers: Sequence[Answer]) -> Iterator[tuple[tuple[Reason, ...], int]]:
    """The reasons of each answer, and how many nodes share it."""
    shared = {id(answer): answer for answer in answers}
    return ((shared[identity].reasons, number) for identity, number in Counter(map(id, answers)).items())


def reason_counts(refusals: Iterable[tuple[tuple[Reason, ...], int]]) -> Counts:
    """How many nodes give which reason; so many of them share a refusal."""
    alike: dict[tuple[Reason, ...], int] = {}
    for reasons, number in refusals:
        alike[reasons] = alike.get(reasons, 0) + number
    counts: Counter[Reason] = Counter()
    for reasons, number in alike.items():
        for reason in set(reasons):
            counts[reason] += number
    return most_frequent_first(counts)
