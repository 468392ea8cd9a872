"""A tar archive as a dictionary in memory: what a capture of `/sys` and `/proc` is usually handed around as.

The archive may come from anywhere, so nothing is ever written to disk and every amount is bounded before it
is spent: bytes decompressed, members, bytes kept, length of a name. The headers are read here rather than
with `tarfile`, which trusts the sizes it finds in extension headers and stops without a word at a cut-off
end. Understood are the ustar, GNU and pax forms, plain or compressed with gzip, bzip2 or xz.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from numaware.errors import InputError

MAX_STREAM_BYTES = 512 << 20
MAX_KEPT_BYTES = 128 << 20
MAX_MEMBERS = 1_000_000
MAX_FILE_BYTES = 4 << 20
_MAX_NAME_BYTES = 4096
_MAX_EXTENSION_BYTES = 1 << 16
_BLOCK = 512
_REGULAR = b"0\x007"
# Links, devices, folders and pipes have no content, whatever old archives leave in their size.
_BARE = b"123456"
_OCTAL = re.compile(rb"[0-7]{0,20}\Z")
_DECIMAL = re.compile(rb"[0-9]{1,20}\Z")
_CHUNK = 1 << 16


class Link(NamedTuple):
    """A symbolic link, as written; whoever follows it keeps inside the capture."""

    target: str


class Folder(NamedTuple):
    """A directory that the archive names (others follow from the names below them)."""


class TooLarge(NamedTuple):
    """A regular file that is larger than any file of a capture has to be; its content was passed over."""


Entry = bytes | Link | Folder | TooLarge


class _BadTarError(Exception):
    """What is wrong with the archive, in words."""


def read_archive(path: Path) -> dict[str, Entry]:
    """Every regular file, link and directory of the archive by its name; devices and pipes are left out."""
    try:
        with path.open("rb") as raw:
            return _entries(_Blocks(_decompressed(raw)))
    except _BadTarError as error:
        raise InputError(str(path), str(error)) from None
    except (EOFError, zlib.error, lzma.LZMAError, MemoryError, ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(str(path), f"cannot be decompressed: {reason or type(error).__name__}") from None


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _decompressed(raw: BinaryIO) -> _Stream:
    """The stream behind the compression, which is known by its first bytes and not by the file's name."""
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if magic == b"\xfd7zXZ\x00":
        return lzma.LZMAFile(raw)
    return raw


class _Blocks:
    """The archive as 512-byte blocks, counted against the bound on decompressed bytes."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._buffer = b""
        self._position = 0
        self._total = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end of the stream."""
        end = self._position + size
        while end > len(self._buffer):
            chunk = self._stream.read(_CHUNK)
            if not chunk:
                break
            self._total += len(chunk)
            if self._total > MAX_STREAM_BYTES:
                raise _BadTarError(
                    f"holds more than {MAX_STREAM_BYTES >> 20} MiB, which no captured /sys does"
                )
            self._buffer = self._buffer[self._position :] + chunk
            end -= self._position
            self._position = 0
        taken = self._buffer[self._position : end]
        self._position += len(taken)
        return taken

    def content(self, size: int) -> bytes:
        """The content of a member, without the padding to the next block."""
        padded = -(-size // _BLOCK) * _BLOCK
        taken = self.take(padded)
        if len(taken) < padded:
            raise _BadTarError("is cut off in the middle of a file")
        return taken[:size]

    def skip(self, size: int) -> None:
        left = -(-size // _BLOCK) * _BLOCK
        while left:
            taken = len(self.take(min(left, _CHUNK)))
            if not taken:
                raise _BadTarError("is cut off in the middle of a file")
            left -= taken


class _Header(NamedTuple):
    kind: bytes
    name: str
    link: str
    size: int


def _entries(blocks: _Blocks) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    kept = 0
    for count, header in enumerate(_headers(blocks)):
        if count >= MAX_MEMBERS:
            raise _BadTarError(f"has more than {MAX_MEMBERS} members")
        name = _inside(header.name)
        # Before there was a mark for folders, they were empty files with a slash at the end.
        is_folder = header.kind == b"5" or (header.kind in _REGULAR and header.name.endswith("/"))
        if header.kind in _REGULAR and header.size <= MAX_FILE_BYTES:
            # tar pads what it reads from sysfs to the 4096 bytes that every file there pretends to have.
            content = blocks.content(header.size).rstrip(b"\x00")
            kept += len(content)
            if kept > MAX_KEPT_BYTES:
                raise _BadTarError(f"holds more than {MAX_KEPT_BYTES >> 20} MiB of files")
            entries[name] = Folder() if is_folder else content
            continue
        blocks.skip(header.size)
        if is_folder:
            entries[name] = Folder()
        elif header.kind in _REGULAR:
            entries[name] = TooLarge()
        elif header.kind == b"2":
            entries[name] = Link(header.link)
        elif header.kind == b"1" and (other := entries.get(_inside(header.link))) is not None:
            entries[name] = other
    return entries


def _headers(blocks: _Blocks) -> Iterator[_Header]:
    """The members' headers, with long names and pax records already applied."""
    override: dict[str, str] = {}
    first = True
    while True:
        block = blocks.take(_BLOCK)
        if len(block) < _BLOCK:
            raise _BadTarError("is not a tar archive" if first else "is cut off: its end mark is missing")
        if not block.strip(b"\x00"):
            return
        if not _is_header(block):
            raise _BadTarError("is not a tar archive" if first else "has a damaged header")
        header = _parse(block)
        first = False
        if header.kind in b"LKxgX":
            if header.size > _MAX_EXTENSION_BYTES:
                raise _BadTarError(f"has an extension header of {header.size} bytes")
            override |= _extension(header.kind, blocks.content(header.size))
            continue
        yield _Header(
            header.kind,
            override.get("path", header.name),
            override.get("linkpath", header.link),
            _number(override["size"].encode(), base=10)
            if "size" in override and header.kind not in _BARE
            else header.size,
        )
        override = {}


def _is_header(block: bytes) -> bool:
    """Whether the block has the right checksum, which counts its own field as blanks."""
    field = block[148:156]
    written = field.strip(b"\x00 ")
    expected = sum(block) - sum(field) + 8 * ord(" ")
    return bool(written and _OCTAL.match(written)) and int(written, 8) == expected


def _parse(block: bytes) -> _Header:
    kind = block[156:157]
    if kind == b"S":
        raise _BadTarError("holds a sparse file, which no captured /sys does")
    name = _text(block[:100])
    if block[257:263] == b"ustar\x00" and (prefix := _text(block[345:500])):
        name = f"{prefix}/{name}"
    size = 0 if kind in _BARE else _number(block[124:136])
    return _Header(kind, name, _text(block[157:257]), size)


def _extension(kind: bytes, content: bytes) -> dict[str, str]:
    """What an extension header says about the member that follows it."""
    if kind == b"L":
        return {"path": _text(content)}
    if kind == b"K":
        return {"linkpath": _text(content)}
    if kind == b"g":
        return {}
    records = {}
    while content:
        digits, _, rest = content.partition(b" ")
        length = _number(digits, base=10)
        if length <= len(digits) + 1 or length > len(content):
            raise _BadTarError("has a damaged pax header")
        key, _, value = rest[: length - len(digits) - 2].partition(b"=")
        if key in (b"path", b"linkpath", b"size"):
            records[key.decode()] = _text(value)
        content = content[length:]
    return records


def _number(field: bytes, base: int = 8) -> int:
    """A number field: octal digits, or GNU's binary form for what does not fit."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b"\x00 ")
    if (_OCTAL if base == 8 else _DECIMAL).match(digits) is None:
        raise _BadTarError("has a damaged header")
    return int(digits or b"0", base)


def _text(field: bytes) -> str:
    name = field.split(b"\x00", 1)[0]
    if len(name) > _MAX_NAME_BYTES:
        raise _BadTarError("has a name that is longer than a path may be")
    return name.decode("utf-8", "surrogateescape")


def _inside(name: str) -> str:
    """The name relative to the top of the archive; a name that climbs out of it is an attack, not a capture."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _BadTarError(f"has a member that climbs out of the archive: {name[:60]!r}")
    return "/".join(parts)
