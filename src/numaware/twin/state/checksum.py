"""The number that guards a state file, and whether a kubelet takes the file because of it."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import msgspec


# A file is written again after every event, most of the time with the content it had.
@lru_cache(maxsize=64)
def fnv1a(text: str) -> int:
    """32-bit FNV-1a of the text's UTF-8 bytes: not a secret, only a guard against torn writes and hand edits."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


class Stamp(msgspec.Struct, frozen=True):
    """What a file says its checksum is, and what it comes to; `stored` is None when the file has none.

    `form` is the layout the checksum was computed for. `optional` marks the one file whose checksum a kubelet does
    not ask for when it is absent or 0.
    """

    form: str
    stored: int | None
    computed: int
    optional: bool = False

    @property
    def unchecked(self) -> bool:
        """A kubelet takes the file without looking at the checksum."""
        return self.optional and not self.stored

    @property
    def accepted(self) -> bool:
        return self.unchecked or self.stored == self.computed


def first_match(stored: int | None, dumps: dict[str, str], optional: Collection[str] = ()) -> Stamp:
    """The stamp of the first layout whose dump gives the stored checksum, else of the first layout.

    Layouts can be told apart by nothing but their checksum when a file holds no assignment at all. Those in `optional` are
    taken without one.
    """
    stamps = (Stamp(form, stored, fnv1a(dump), form in optional) for form, dump in dumps.items())
    first = next(stamps)
    return first if first.accepted else next((stamp for stamp in stamps if stamp.accepted), first)
