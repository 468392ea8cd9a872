"""The order in which Go's `sort.Slice` leaves a list, for comparisons that contradict themselves.

With a proper order every sort gives the same result up to ties. Volcano compares with rules under which a comes before
b *and* b before a; then the result is whatever the algorithm happens to do. This is that algorithm, step by step, as
Go describes it since 1.19: insertion sort up to 12 elements, above that pattern-defeating quicksort (Orson Peters), with
heap sort as its way out. Nothing in it is random: where it shuffles it uses a generator started from the length.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")

_INSERTION = 12
_NINTHER = 50
_MOST_SWAPS = 12
_PATIENCE = 5
_WORD = (1 << 64) - 1


class _Looks(Enum):
    """What the elements around the pivot suggest."""

    RISING = 1
    FALLING = 2
    MIXED = 3


def sort_slice(items: list[T], before: Callable[[T, T], bool]) -> None:
    """Sort the list in place by `before`, consistent or not."""
    _Sorter(items, before).quick(0, len(items), len(items).bit_length())


class _Sorter(Generic[T]):
    def __init__(self, items: list[T], before: Callable[[T, T], bool]) -> None:
        self.items = items
        self.before = before

    def less(self, one: int, other: int) -> bool:
        return self.before(self.items[one], self.items[other])

    def swap(self, one: int, other: int) -> None:
        items = self.items
        items[one], items[other] = items[other], items[one]

    def quick(self, first: int, end: int, bad_luck: int) -> None:
        """Sort items[first:end]; after `bad_luck` lopsided partitions give up on quicksort."""
        balanced = partitioned = True
        while end - first > _INSERTION:
            length = end - first
            if not bad_luck:
                self.heap(first, end)
                return
            if not balanced:
                self.scatter(first, end)
                bad_luck -= 1
            pivot, looks = self.pivot(first, end)
            if looks is _Looks.FALLING:
                self.items[first:end] = self.items[first:end][::-1]
                pivot = end - 1 - (pivot - first)
                looks = _Looks.RISING
            if balanced and partitioned and looks is _Looks.RISING and self.nearly_sorted(first, end):
                return
            # What stands before this part is no greater than anything in it: a pivot that is not greater either
            # is the least element, and its equals can be set aside.
            if first > 0 and not self.less(first - 1, pivot):
                first = self.part_equals(first, end, pivot)
                continue
            middle, partitioned = self.part(first, end, pivot)
            left, right = middle - first, end - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.quick(first, middle, bad_luck)
                first = middle + 1
            else:
                self.quick(middle + 1, end, bad_luck)
                end = middle
        self.insertion(first, end)

    def insertion(self, first: int, end: int) -> None:
        for index in range(first + 1, end):
            self.sink(index, first)

    def sink(self, index: int, floor: int) -> None:
        """Move an element down as long as it comes before its neighbour."""
        while index > floor and self.less(index, index - 1):
            self.swap(index, index - 1)
            index -= 1

    def pivot(self, first: int, end: int) -> tuple[int, _Looks]:
        """The middle of three elements a quarter apart, in long parts the middle of three such middles."""
        quarter = (end - first) // 4
        swaps = 0

        def middle(one: int, two: int, three: int) -> int:
            nonlocal swaps
            if self.less(two, one):
                one, two, swaps = two, one, swaps + 1
            if self.less(three, two):
                two, swaps = three, swaps + 1
            if self.less(two, one):
                two, swaps = one, swaps + 1
            return two

        places = [first + quarter, first + 2 * quarter, first + 3 * quarter]
        if end - first >= _NINTHER:
            places = [middle(place - 1, place, place + 1) for place in places]
        chosen = middle(*places)
        if not swaps:
            return chosen, _Looks.RISING
        return chosen, _Looks.FALLING if swaps == _MOST_SWAPS else _Looks.MIXED

    def nearly_sorted(self, first: int, end: int) -> bool:
        """Whether a few repairs sort the part; they are made on the way, and stay made when it is given up."""
        index = first + 1
        for _ in range(_PATIENCE):
            while index < end and not self.less(index, index - 1):
                index += 1
            if index == end:
                return True
            if end - first < _NINTHER:
                return False
            self.swap(index, index - 1)
            if index - first >= 2:
                # Go walks on below `first` here; what stands there is in order, so only a contradiction shows it.
                self.sink(index - 1, 0)
            if end - index >= 2:
                above = index + 1
                while above < end and self.less(above, above - 1):
                    self.swap(above, above - 1)
                    above += 1
        return False

    def part(self, first: int, end: int, pivot: int) -> tuple[int, bool]:
        """Put what is less than the pivot before it; say where the pivot went, and whether that was so already."""
        self.swap(first, pivot)
        low, high = first + 1, end - 1
        moved = False
        while True:
            while low <= high and self.less(low, first):
                low += 1
            while low <= high and not self.less(high, first):
                high -= 1
            if low > high:
                break
            self.swap(low, high)
            low, high, moved = low + 1, high - 1, True
        self.swap(high, first)
        return high, not moved

    def part_equals(self, first: int, end: int, pivot: int) -> int:
        """Put the pivot's equals first; say where the greater ones begin."""
        self.swap(first, pivot)
        low, high = first + 1, end - 1
        while True:
            while low <= high and not self.less(first, low):
                low += 1
            while low <= high and self.less(first, high):
                high -= 1
            if low > high:
                return low
            self.swap(low, high)
            low, high = low + 1, high - 1

    def scatter(self, first: int, end: int) -> None:
        """Swap three elements around the middle with others, to break whatever pattern made the last cut lopsided."""
        length = end - first
        state = length
        middle = first + length // 4 * 2
        for place in range(middle - 1, middle + 2):
            state ^= state << 13 & _WORD
            state ^= state >> 7
            state ^= state << 17 & _WORD
            other = state & (1 << length.bit_length()) - 1
            self.swap(place, first + (other - length if other >= length else other))

    def heap(self, first: int, end: int) -> None:
        size = end - first
        for root in range((size - 1) // 2, -1, -1):
            self.sift(root, size, first)
        for last in range(size - 1, -1, -1):
            self.swap(first, first + last)
            self.sift(0, last, first)

    def sift(self, root: int, size: int, first: int) -> None:
        while (child := 2 * root + 1) < size:
            if child + 1 < size and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child
