"""A tar archive as a dictionary in memory: what a capture of `/sys` and `/proc` is usually handed around as.

`unpacking` opens it, within a budget of bytes; here members and bytes kept are bounded, and names stay inside. `tree`
reads machines from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from numaware.errors import InputError
from numaware.machine.unpacking import (
    CHUNK,
    REGULAR,
    Budget,
    Member,
    Readable,
    UnpackError,
    members,
    unpacked,
)
from numaware.sentence import Sentence

MAX_STREAM_BYTES = 512 << 20
MAX_KEPT_BYTES = 128 << 20
MAX_MEMBERS = 1_000_000
MAX_FILE_BYTES = 4 << 20


class Link(NamedTuple):
    """A symbolic link, as written; whoever follows it keeps inside the capture."""

    target: str


class Folder(NamedTuple):
    """A directory that the archive names (others follow from the names below them)."""


class TooLarge(NamedTuple):
    """A regular file that is larger than any file of a capture has to be; its content was passed over."""


Entry = bytes | Link | Folder | TooLarge


def read_archive(path: Path) -> dict[str, Entry]:
    """Every regular file, link and directory of the archive by its name; devices and pipes are left out."""
    budget = Budget(MAX_STREAM_BYTES)
    try:
        with path.open("rb") as raw:
            stream = unpacked(raw.peek(6), raw, budget) or _Metered(raw, budget)
            return _entries(members(stream))
    except UnpackError as error:
        raise InputError(str(path), error.sentence) from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}") from None


class _Metered:
    """An archive that is not compressed costs what it holds, too: it may be full of holes."""

    def __init__(self, stream: Readable, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, size: int, /) -> bytes:
        part = self._stream.read(min(size, CHUNK))
        self._budget.spend(len(part))
        return part


def _entries(listed: Iterable[Member]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    kept = 0
    for count, member in enumerate(listed):
        if count >= MAX_MEMBERS:
            raise UnpackError(Sentence("has more than {most} members", most=MAX_MEMBERS))
        name = _inside(member.name)
        # Before there was a mark for folders, they were empty files with a slash at the end.
        if member.kind == b"5" or (member.kind in REGULAR and member.name.endswith("/")):
            entries[name] = Folder()
        elif member.kind in REGULAR and member.size > MAX_FILE_BYTES:
            entries[name] = TooLarge()
        elif member.kind in REGULAR:
            # tar pads what it reads from sysfs to the 4096 bytes that every file there pretends to have.
            entries[name] = content = member.content.whole().rstrip(b"\x00")
            kept += len(content)
            if kept > MAX_KEPT_BYTES:
                raise UnpackError(Sentence("holds more than {most} MiB of files", most=MAX_KEPT_BYTES >> 20))
        elif member.kind == b"2":
            entries[name] = Link(member.link)
        elif member.kind == b"1" and (other := entries.get(_inside(member.link))) is not None:
            entries[name] = other
    return entries


def _inside(name: str) -> str:
    """The name relative to the top of the archive; a name that climbs out of it is an attack, not a capture."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        climbs = Sentence("has a member that climbs out of the archive: {name!r}", name=name[:60])
        raise UnpackError(climbs)
    return "/".join(parts)
