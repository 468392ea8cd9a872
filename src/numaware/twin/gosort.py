"""The order in which Go's `sort.Slice` leaves a list, even when its comparison contradicts itself.

Kubelets before v1.23 sorted cores with such comparisons, and Volcano still does. What comes out then depends on the
sorting method alone, so here is that method: pattern-defeating quicksort, as in Go since 1.19 (short lists: insertion
sort, as in every Go). Official kubelets of that age were built with an older Go whose quicksort differs beyond twelve
cores; the recordings the twin is held against were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_SHORT = 12  # up to here insertion sort
_LONG = 50  # from here on pivots are medians of medians, and nearly sorted lists are repaired
_REPAIRS = 5
_ALL_SWAPPED = 12  # a median of three medians swaps at most this often: then the list runs backwards
_UINT64 = (1 << 64) - 1


def go_sorted(items: Iterable[T], before: Callable[[T, T], bool]) -> list[T]:
    """The items as Go would sort them by `before`."""
    sorting = _Sorting(list(items), before)
    sorting.sort(0, len(sorting.items), len(sorting.items).bit_length())
    return sorting.items


class _Sorting(Generic[T]):
    """A list being sorted in place; positions `start` to `end` (exclusive) are the part at hand."""

    def __init__(self, items: list[T], before: Callable[[T, T], bool]) -> None:
        self.items = items
        self.before = before

    def less(self, one: int, other: int) -> bool:
        return self.before(self.items[one], self.items[other])

    def swap(self, one: int, other: int) -> None:
        self.items[one], self.items[other] = self.items[other], self.items[one]

    def sort(self, start: int, end: int, patience: int) -> None:
        balanced = partitioned = True
        while end - start > _SHORT:
            if not patience:
                self._heap_sort(start, end)
                return
            if not balanced:
                self._shuffle(start, end)
                patience -= 1
            pivot, swaps = self._pivot(start, end)
            if swaps == _ALL_SWAPPED:
                self.items[start:end] = self.items[start:end][::-1]
                pivot = end - 1 - (pivot - start)
            in_order = swaps in (0, _ALL_SWAPPED)
            if balanced and partitioned and in_order and self._repair(start, end):
                return
            if start and not self.less(start - 1, pivot):
                start = self._split_off_equals(start, end, pivot)
                continue
            middle, partitioned = self._partition(start, end, pivot)
            balanced = min(middle - start, end - middle) >= (end - start) // 8
            if middle - start < end - middle:
                self.sort(start, middle, patience)
                start = middle + 1
            else:
                self.sort(middle + 1, end, patience)
                end = middle
        for position in range(start + 1, end):
            self._sink(position, start)

    def _sink(self, position: int, start: int) -> None:
        """Move an item towards the start for as long as it comes before its neighbour."""
        while position > start and self.less(position, position - 1):
            self.swap(position, position - 1)
            position -= 1

    def _pivot(self, start: int, end: int) -> tuple[int, int]:
        """The position to split at, and how many comparisons on the way to it were against the order."""
        swaps = 0

        def median(*at: int) -> int:
            nonlocal swaps
            places = list(at)
            for left in (0, 1, 0):
                if self.less(places[left + 1], places[left]):
                    swaps += 1
                    places[left : left + 2] = places[left + 1], places[left]
            return places[1]

        quarter = (end - start) // 4
        places = [start + quarter * part for part in (1, 2, 3)]
        if end - start >= _LONG:
            places = [median(place - 1, place, place + 1) for place in places]
        return median(*places), swaps

    def _partition(self, start: int, end: int, pivot: int) -> tuple[int, bool]:
        """What comes before the pivot to its left; its new position, and whether nothing had to move."""
        self.swap(start, pivot)
        left, right = start + 1, end - 1
        moved = False
        while True:
            while left <= right and self.less(left, start):
                left += 1
            while left <= right and not self.less(right, start):
                right -= 1
            if left > right:
                self.swap(right, start)
                return right, not moved
            self.swap(left, right)
            moved = True
            left += 1
            right -= 1

    def _split_off_equals(self, start: int, end: int, pivot: int) -> int:
        """What the pivot does not come before, to the left; where the rest begins."""
        self.swap(start, pivot)
        left, right = start + 1, end - 1
        while True:
            while left <= right and not self.less(start, left):
                left += 1
            while left <= right and self.less(start, right):
                right -= 1
            if left > right:
                return left
            self.swap(left, right)
            left += 1
            right -= 1

    def _repair(self, start: int, end: int) -> bool:
        """Whether the part is in order, after at most a few neighbours of a long part were put right."""
        position = start + 1
        for _ in range(_REPAIRS):
            while position < end and not self.less(position, position - 1):
                position += 1
            if position == end:
                return True
            if end - start < _LONG:
                return False
            self.swap(position, position - 1)
            if position - start > 1:
                self._sink(position - 1, 0)
            for later in range(position + 1, end):
                if not self.less(later, later - 1):
                    break
                self.swap(later, later - 1)
        return False

    def _shuffle(self, start: int, end: int) -> None:
        """Swap three items around the middle with others, chosen by a generator that always starts alike."""
        length = random = end - start
        middle = start + length // 4 * 2
        for position in range(middle - 1, middle + 2):
            random ^= random << 13 & _UINT64
            random ^= random >> 7
            random ^= random << 17 & _UINT64
            other = random & (1 << length.bit_length()) - 1
            self.swap(position, start + (other - length if other >= length else other))

    def _heap_sort(self, start: int, end: int) -> None:
        length = end - start
        for root in range((length - 1) // 2, -1, -1):
            self._sift(root, length, start)
        for last in range(length - 1, -1, -1):
            self.swap(start, start + last)
            self._sift(0, last, start)

    def _sift(self, root: int, length: int, start: int) -> None:
        while (child := 2 * root + 1) < length:
            if child + 1 < length and self.less(start + child, start + child + 1):
                child += 1
            if not self.less(start + root, start + child):
                return
            self.swap(start + root, start + child)
            root = child
