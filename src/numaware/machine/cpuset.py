"""A set of CPU (or NUMA node) numbers as one integer.

The kernel, the kubelet and every tool around them exchange such sets as lists like `0-3,8`. Here they are
a Python integer with bit n set for CPU n: union, intersection and counting are single machine-word loops
in C, and a set of 1,024 CPUs costs 160 bytes. Algorithms work on the bare `mask`; `CpuSet` is the value
that crosses borders.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Self, TypeVar

_Key = TypeVar("_Key", bound=Hashable)

# The kernel's largest NR_CPUS is 8192; an id far above it is junk, and would allocate a huge integer.
MAX_ID = 65_535
# Every id on its own, five digits and a comma each: no honest text is longer.
_MAX_TEXT = 6 * (MAX_ID + 1)
# One member of a list: `4`, `0-3`, or `0-15:2/4` (the first 2 of every 4).
_MEMBER = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9})/([0-9]{1,9}))?)?")
# A mask is either hexadecimal words of 32 bits, as the kernel writes it, or one number of any length.
_HEX_WORD = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})")
_HEX_NUMBER = re.compile(r"(?:0[xX])?([0-9a-fA-F]+)")


class CpuSet:
    """An immutable set of small non-negative numbers, printed and parsed in the kernel's list form."""

    __slots__ = ("mask",)

    mask: int

    def __init__(self, ids: Iterable[int] = ()) -> None:
        mask = 0
        for number in ids:
            mask |= 1 << _checked(number)
        object.__setattr__(self, "mask", mask)

    @classmethod
    def from_mask(cls, mask: int) -> Self:
        """Wrap a bit mask as it is."""
        if mask < 0 or mask.bit_length() > MAX_ID + 1:
            raise ValueError("a CPU mask is a non-negative number of at most 65536 bits")
        new = cls.__new__(cls)
        object.__setattr__(new, "mask", mask)
        return new

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the kernel's list form: `0-3,8`, with optional strides `0-15:2/4`; empty text is the empty set."""
        mask = 0
        body = _bounded(text).strip().strip("\x00")
        for member in body.split(",") if body else ():
            mask |= _member_mask(member.strip(), text)
        return cls.from_mask(mask)

    @classmethod
    def parse_hex(cls, text: str) -> Self:
        """Read the kernel's mask form: comma-separated 32-bit hex words, the highest first (`ff,00000001`)."""
        words = _bounded(text).strip().split(",")
        form = _HEX_WORD if len(words) > 1 else _HEX_NUMBER
        digits = ""
        for word in words:
            match = form.fullmatch(word.strip())
            if match is None:
                raise ValueError(f"{_quoted(text)} is not a CPU mask of hexadecimal words")
            digits += match[1].zfill(8)
        return cls.from_mask(int(digits, 16))

    @classmethod
    def union(cls, sets: Iterable[CpuSet]) -> Self:
        """What is in any of the sets."""
        mask = 0
        for cpus in sets:
            mask |= cpus.mask
        return cls.from_mask(mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a CpuSet does not change; make a new one")

    def __iter__(self) -> Iterator[int]:
        return iter_bits(self.mask)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number >= 0 and bool(self.mask >> number & 1)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask | other.mask)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask & other.mask)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask & ~other.mask)

    def __xor__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask ^ other.mask)

    def __le__(self, other: CpuSet) -> bool:
        return not self.mask & ~other.mask

    def __lt__(self, other: CpuSet) -> bool:
        return self != other and self <= other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuSet) and self.mask == other.mask

    def __hash__(self) -> int:
        # Python hashes integers modulo 2^61-1, so that single CPUs 61 apart would collide; their length differs.
        return hash((self.mask.bit_length(), self.mask))

    def first(self) -> int:
        """The lowest number; an empty set has none."""
        if not self.mask:
            raise ValueError("an empty set has no first CPU")
        return (self.mask & -self.mask).bit_length() - 1

    def __str__(self) -> str:
        return list_form(self.mask)

    def __repr__(self) -> str:
        return f"CpuSet.parse({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return CpuSet.from_mask, (self.mask,)


EMPTY = CpuSet()


def iter_bits(mask: int) -> Iterator[int]:
    """The numbers of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def span_mask(first: int, last: int) -> int:
    """The mask of all numbers from `first` to `last`, both included."""
    return (1 << last + 1) - (1 << first) if last >= first else 0


def grouped(members: Iterable[tuple[_Key, int]]) -> dict[_Key, CpuSet]:
    """The numbers of each key, from (key, number) pairs; keys in the order they first appear."""
    masks: dict[_Key, int] = {}
    for key, number in members:
        masks[key] = masks.get(key, 0) | 1 << number
    return {key: CpuSet.from_mask(mask) for key, mask in masks.items()}


def list_form(mask: int) -> str:
    """The kernel's (and the kubelet's) list form: ascending, runs of two and more as `a-b`."""
    runs = []
    base = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        # Adding one to a number turns its trailing ones into a single carry: the length of the run.
        run = (~mask & (mask + 1)).bit_length() - 1
        first = base + gap
        runs.append(str(first) if run == 1 else f"{first}-{first + run - 1}")
        mask >>= run
        base = first + run
    return ",".join(runs)


def _member_mask(member: str, whole: str) -> int:
    match = _MEMBER.fullmatch(member)
    if match is None:
        raise ValueError(f"{_quoted(whole)} is not a CPU list (expected a form such as 0-3,8)")
    first = int(match[1])
    last = int(match[2] or first)
    used, group = int(match[3] or 1), int(match[4] or 1)
    if last < first:
        raise ValueError(f"{_quoted(whole)} has a range that ends before it begins")
    if last > MAX_ID:
        raise ValueError(f"{_quoted(whole)} names CPU {last}; the largest id accepted is {MAX_ID}")
    if not 0 < used <= group:
        raise ValueError(f"{_quoted(whole)} has a stride that is not used/group with 0 < used <= group")
    everything = span_mask(first, last)
    if used == group:
        return everything
    # Lay one group down, then double what lies there: a hostile list of strides stays cheap.
    pattern, width = span_mask(first, min(first + used - 1, last)), group
    while width <= last - first:
        pattern |= pattern << width
        width *= 2
    return pattern & everything


def _checked(number: int) -> int:
    if not 0 <= number <= MAX_ID:
        raise ValueError(f"{number} is not a CPU number between 0 and {MAX_ID}")
    return number


def _bounded(text: str) -> str:
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{_quoted(text)} is longer than any set of CPUs up to {MAX_ID} can be")
    return text


def _quoted(text: str) -> str:
    """The text as evidence in a message: printable, and short even when the input is a megabyte of junk."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
