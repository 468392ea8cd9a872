"""The one way in which packed files are opened: gzip, bzip2 and xz, and the members of tar archives, all within a budget
(and those of zip archives, in `unzipping`).

What is packed may come from anywhere, so nothing is ever written to disk and every amount is bounded before it is spent:
bytes unpacked (through all layers), time, memory of a decompressor, length of a name. The headers of archives are read here
rather than with `tarfile`, which trusts the sizes it finds in extension headers and stops without a word at a cut-off end.
Understood are the ustar, GNU and pax forms. `archive` makes a captured machine of it, `diagnose.evidence.intake` evidence.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple, Protocol

from numaware.sentence import Sentence

CHUNK = 1 << 16
REGULAR = b"0\x007"
_MAX_NAME_BYTES = 4096
_MAX_EXTENSION_BYTES = 1 << 16
# The dictionary that an xz file may ask for; `xz -9` asks for half of it.
_MAX_DICTIONARY = 128 << 20
_BLOCK = 512
# Links, devices, folders and pipes have no content, whatever old archives leave in their size.
_BARE = b"123456"
_OCTAL = re.compile(rb"[0-7]{0,20}\Z")
_DECIMAL = re.compile(rb"[0-9]{1,20}\Z")


class UnpackError(Exception):
    """Why a packed file cannot be read on from here, as a sentence that follows its name."""

    def __init__(self, sentence: Sentence) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Budget:
    """What may be spent on an input with all that is packed in it: bytes unpacked, files, and seconds on the caller's clock."""

    def __init__(
        self,
        most_bytes: int,
        most_files: int = 100_000,
        seconds: float = inf,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.most_bytes = most_bytes
        self.most_files = most_files
        self.seconds = seconds
        self._spent = 0
        self._files = 0
        self._clock = clock
        self._until = clock() + seconds

    def spend(self, size: int) -> None:
        """Account for bytes that came out of a layer; `UnpackError` where there is nothing left."""
        self._spent += size
        if self._spent > self.most_bytes:
            raise UnpackError(
                Sentence("holds more than {most} MiB when unpacked", most=self.most_bytes >> 20)
            )
        self.check()

    def begin_file(self) -> None:
        """Account for one more file that is looked into."""
        self._files += 1
        if self._files > self.most_files:
            raise UnpackError(Sentence("holds more than {most} files", most=self.most_files))

    def check(self) -> None:
        """Go on only if there is time."""
        if self._clock() > self._until:
            raise UnpackError(
                Sentence("takes longer than {seconds} seconds to read", seconds=int(self.seconds))
            )


class Readable(Protocol):
    """What bytes are read from; fewer than asked for may come, none only at the end."""

    def read(self, size: int, /) -> bytes: ...


class _Decompressor(Protocol):
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Gunzip:
    """zlib's decompressor, which leaves it to the caller to hand in again what it did not get to."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(31)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._engine.decompress(self._engine.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._engine.eof

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data


_FORMS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": _Gunzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_DICTIONARY),
}


def unpacked(head: bytes, whole: Readable, budget: Budget) -> Readable | None:
    """What is behind the compression, known by the first bytes of the file (`head`); None where it is not compressed."""
    magic = next((magic for magic in _FORMS if head.startswith(magic)), None)
    return None if magic is None else _Unpacked(whole, magic, budget)


class _Unpacked:
    """One compressed stream after the other, as they stand in a file; what follows the last of them is ignored."""

    def __init__(self, stream: Readable, magic: bytes, budget: Budget) -> None:
        self._stream = stream
        self._magic = magic
        self._budget = budget
        self._engine = _FORMS[magic]()
        self._packed = b""

    def read(self, size: int, /) -> bytes:
        while True:
            if self._engine.eof and not self._go_on():
                return b""
            try:
                part = self._engine.decompress(self._packed, min(size, CHUNK))
            except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, MemoryError) as error:
                reason = str(error) or type(error).__name__
                raise UnpackError(Sentence("cannot be decompressed: {reason}", reason=reason)) from None
            self._packed = b""
            if part:
                self._budget.spend(len(part))
                return part
            if not self._engine.eof:
                self._packed = self._stream.read(CHUNK)
                if not self._packed:
                    raise UnpackError(Sentence("is cut off and cannot be decompressed to its end"))

    def _go_on(self) -> bool:
        """Begin the next stream, if there is one."""
        rest = self._engine.unused_data.lstrip(b"\0")
        while len(rest) < len(self._magic) and (more := self._stream.read(CHUNK)):
            rest = (rest + more).lstrip(b"\0")
        if not rest.startswith(self._magic):
            return False
        self._engine, self._packed = _FORMS[self._magic](), rest
        return True


# Archives


class Member(NamedTuple):
    """A member of an archive, its long name and pax records applied; `content` is read before the next member is."""

    kind: bytes
    name: str
    link: str
    size: int
    content: Content


class _Header(NamedTuple):
    kind: bytes
    name: str
    link: str
    size: int


def is_tar(head: bytes) -> bool:
    """Whether a file begins with the header of an archive's first member."""
    return len(head) >= _BLOCK and _is_header(head[:_BLOCK])


def members(stream: Readable) -> Iterator[Member]:
    """The members of a tar archive, in order; `UnpackError` where it is damaged, is cut off, or is none."""
    override: dict[str, str] = {}
    first = True
    while True:
        block = exactly(stream, _BLOCK)
        if len(block) < _BLOCK:
            raise _none() if first else UnpackError(Sentence("is cut off: its end mark is missing"))
        if not block.strip(b"\x00"):
            return
        if not _is_header(block):
            raise _none() if first else UnpackError(Sentence("has a damaged header"))
        header = _parse(block)
        first = False
        size = header.size
        if "size" in override and header.kind not in _BARE:
            size = _number(override["size"].encode(), base=10)
        content = Content(stream, size)
        if header.kind in b"LKxgX":
            if size > _MAX_EXTENSION_BYTES:
                raise UnpackError(Sentence("has an extension header of {size} bytes", size=size))
            override |= _extension(header.kind, content.whole())
        else:
            name, link = override.get("path", header.name), override.get("linkpath", header.link)
            yield Member(header.kind, name, link, size, content)
            override = {}
        content.finish()


class Content:
    """The content of one member; what nobody read of it is passed over before the next one."""

    def __init__(self, stream: Readable, size: int, *, padded: bool = True) -> None:
        self._stream = stream
        self._left = size
        self._padding = -size % _BLOCK if padded else 0

    def read(self, size: int, /) -> bytes:
        if not self._left:
            return b""
        part = self._stream.read(min(size, self._left, CHUNK))
        if not part:
            raise UnpackError(Sentence("is cut off in the middle of a file"))
        self._left -= len(part)
        return part

    def whole(self) -> bytes:
        """All of it; who asks has looked at the size."""
        return b"".join(iter(lambda: self.read(CHUNK), b""))

    def finish(self) -> None:
        self._left, self._padding = self._left + self._padding, 0
        while self.read(CHUNK):
            pass


def exactly(stream: Readable, size: int) -> bytes:
    """So many bytes; fewer only at the end of the stream."""
    parts = [stream.read(size)]
    while parts[-1] and sum(map(len, parts)) < size:
        parts.append(stream.read(size - sum(map(len, parts))))
    return b"".join(parts)


def _none() -> UnpackError:
    return UnpackError(Sentence("is not a tar archive"))


def _is_header(block: bytes) -> bool:
    """Whether the block has the right checksum, which counts its own field as blanks."""
    field = block[148:156]
    written = field.strip(b"\x00 ")
    expected = sum(block) - sum(field) + 8 * ord(" ")
    return bool(written and _OCTAL.match(written)) and int(written, 8) == expected


def _parse(block: bytes) -> _Header:
    kind = block[156:157]
    if kind == b"S":
        raise UnpackError(Sentence("holds a sparse file"))
    name = text_of(block[:100])
    if block[257:263] == b"ustar\x00" and (prefix := text_of(block[345:500])):
        name = f"{prefix}/{name}"
    size = 0 if kind in _BARE else _number(block[124:136])
    return _Header(kind, name, text_of(block[157:257]), size)


def _extension(kind: bytes, content: bytes) -> dict[str, str]:
    """What an extension header says about the member that follows it."""
    if kind == b"L":
        return {"path": text_of(content)}
    if kind == b"K":
        return {"linkpath": text_of(content)}
    if kind == b"g":
        return {}
    records = {}
    while content:
        digits, _, rest = content.partition(b" ")
        length = _number(digits, base=10)
        if length <= len(digits) + 1 or length > len(content):
            raise UnpackError(Sentence("has a damaged pax header"))
        key, _, value = rest[: length - len(digits) - 2].partition(b"=")
        if key in (b"path", b"linkpath", b"size"):
            records[key.decode()] = text_of(value)
        content = content[length:]
    return records


def _number(field: bytes, base: int = 8) -> int:
    """A number field: octal digits, or GNU's binary form for what does not fit."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b"\x00 ")
    if (_OCTAL if base == 8 else _DECIMAL).match(digits) is None:
        raise UnpackError(Sentence("has a damaged header"))
    return int(digits or b"0", base)


def text_of(field: bytes) -> str:
    """A name or the target of a link."""
    name = field.split(b"\x00", 1)[0]
    if len(name) > _MAX_NAME_BYTES:
        raise UnpackError(Sentence("has a name that is longer than a path may be"))
    return name.decode("utf-8", "surrogateescape")
