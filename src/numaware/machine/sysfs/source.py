"""Typed reads from a tree: numbers, CPU lists and masks, with what is wrong noted instead of raised.

Captures are full of holes and odd files, and half a machine is worth more than an error: a missing file is
`None`, and a file that is there but cannot be read or understood is `None` and a warning that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from numaware.machine.cpuset import MAX_ID, CpuSet
from numaware.machine.tree import Tree

# Enough to see what is wrong; a capture of garbage has tens of thousands of the same.
_MAX_WARNINGS = 50
_MAX_DIGITS = 20
_PADDING = b"\x00 \t\n\r"
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,4})\Z")
# A mask as kernels write it: words of 32 bits, which need no more care than leaving out the commas.
_KERNEL_MASK = re.compile(rb"[0-9a-f]{1,8}(?:,[0-9a-f]{8})*\Z")


class Source:
    """One reading of one tree. CPU sets are bare masks here; the values of the model wrap them."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._warnings: list[str] = []
        self._left_out = 0
        # The same mask stands in hundreds of files of a large machine: understand each text once.
        self._masks: dict[bytes, int] = {}
        self._lists: dict[bytes, int] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        if self._left_out:
            return (*self._warnings, f"{self._left_out} more warnings of this kind are left out")
        return tuple(self._warnings)

    def warn(self, path: str, problem: str) -> None:
        if len(self._warnings) < _MAX_WARNINGS:
            # Names in a capture are bytes of anyone's choosing; what is shown must be text.
            self._warnings.append(f"{path}: {problem}".encode("utf-8", "replace").decode())
        else:
            self._left_out += 1

    def raw(self, path: str) -> bytes | None:
        try:
            return self.tree.read(path)
        except OSError as error:
            self.warn(path, error.strerror or "cannot be read")
            return None

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if it is missing or cannot be read."""
        try:
            return self.tree.names(path)
        except OSError as error:
            self.warn(path, error.strerror or "cannot be read")
            return []

    def text(self, path: str) -> str | None:
        """The content as text without blanks and padding around it; None where there is nothing but those."""
        data = self.raw(path)
        return data.decode("utf-8", "replace").strip("\x00 \t\n\r") or None if data else None

    def number(self, path: str) -> int | None:
        """A decimal number, maybe negative (`-1` is how the kernel says that it does not know)."""
        data = self.raw(path)
        digits = data.strip(_PADDING) if data else b""
        if not data or not digits:
            return None
        if not digits.removeprefix(b"-").isdigit() or len(digits) > _MAX_DIGITS:
            self.warn(path, f"{_shown(data)} is not a number")
            return None
        return int(digits)

    def known(self, path: str) -> int | None:
        """An id, with the kernel's -1 for an unknown one as None."""
        number = self.number(path)
        return number if number is not None and number >= 0 else None

    def mask(self, path: str) -> int | None:
        """A set in the kernel's form of hexadecimal words."""
        return self._set(path, self._masks, _mask)

    def cpu_list(self, path: str) -> int | None:
        """A set in the kernel's list form; a file with nothing in it is the empty set."""
        return self._set(path, self._lists, _list)

    def either(self, mask_path: str, list_path: str) -> int | None:
        """A set that the kernel shows in both forms; the mask is older and present in more captures."""
        mask = self.mask(mask_path)
        return self.cpu_list(list_path) if mask is None else mask

    def _set(self, path: str, known: dict[bytes, int], parse: Callable[[bytes], int]) -> int | None:
        data = self.raw(path)
        if data is None:
            return None
        mask = known.get(data)
        if mask is None:
            try:
                mask = known[data] = parse(data.strip(_PADDING))
            except ValueError as error:
                self.warn(path, str(error))
        return mask


def _mask(data: bytes) -> int:
    if len(data) < MAX_ID // 4 and _KERNEL_MASK.match(data):
        return int(data.replace(b",", b""), 16)
    return CpuSet.parse_hex(data.decode("utf-8", "replace")).mask


def _list(data: bytes) -> int:
    return CpuSet.parse(data.decode("utf-8", "replace")).mask


def numbered(names: list[str], prefix: str) -> list[int]:
    """The numbers of entries such as `cpu12` or `node3`, ascending."""
    start = len(prefix)
    suffixes = (name[start:] for name in names if name.startswith(prefix))
    # The kernel pads no number, so every entry has its own.
    return sorted(int(text) for text in suffixes if _NUMBER.match(text) and int(text) <= MAX_ID)


def _shown(data: bytes) -> str:
    return repr(data[:40].decode("utf-8", "replace"))
