"""The members of a zip archive, in the order they stand, read as a stream and within the budget of `unpacking`.

`zipfile` starts from the table at the end of a file, so the file has to be there as a whole; evidence may be a pipe, or a member
of another archive. Here the headers that stand before each member are followed, as `unzip` does where the table is lost. Understood
is what people make on their desks: stored and deflated members, their sizes before or behind them, also beyond 4 GiB. What is
encrypted or packed in another way is told.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from numaware.machine.unpacking import CHUNK, Budget, Content, Member, Readable, UnpackError, exactly, text_of
from numaware.sentence import Sentence

_MEMBER, _BEHIND = b"PK\3\4", b"PK\7\x08"
# What comes after the last member: the table, or the end of an archive without any.
_TABLE = (b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\x08")
_HEADER = struct.Struct("<2xHH8xIIHH")
_ENCRYPTED, _SIZES_BEHIND = 1, 8
_STORED, _DEFLATED = 0, 8
_LARGE = 0xFFFFFFFF
_LARGE_SIZES = 1


def is_zip(head: bytes) -> bool:
    """Whether a file begins as a zip archive does."""
    return head.startswith((_MEMBER, *_TABLE))


def zip_members(stream: Readable, budget: Budget) -> Iterator[Member]:
    """The members of the archive; `UnpackError` where it is damaged, is cut off, or holds what is not read."""
    source = _Source(stream)
    while (mark := _whole(source, 4)) not in _TABLE:
        if mark != _MEMBER:
            raise UnpackError(Sentence("has a damaged header"))
        flags, method, packed, size, name_length, extra_length = _HEADER.unpack(_whole(source, _HEADER.size))
        name = text_of(_whole(source, name_length))
        extra = _whole(source, extra_length)
        if _LARGE in (packed, size):
            size = _large_size(extra)
        content: Content
        if flags & _ENCRYPTED:
            raise UnpackError(Sentence("is encrypted"))
        if method == _DEFLATED:
            content = _Inflated(source, budget)
        elif method == _STORED and not flags & _SIZES_BEHIND:
            content = _Stored(source, size, budget)
        else:
            raise UnpackError(Sentence("has a member packed by method {method}", method=method))
        yield Member(b"5" if name.endswith("/") else b"0", name, "", size, content)
        content.finish()
        if flags & _SIZES_BEHIND:
            _pass_sizes(source)


class _Source:
    """A stream into which what was read too far can be put back."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._back = b""

    def read(self, size: int, /) -> bytes:
        if not self._back:
            return self._stream.read(size)
        part, self._back = self._back[:size], self._back[size:]
        return part

    def put_back(self, data: bytes) -> None:
        self._back = data + self._back


class _Stored(Content):
    """A member as it is; it costs what it holds, as an archive may be full of holes."""

    def __init__(self, source: _Source, size: int, budget: Budget) -> None:
        super().__init__(source, size, padded=False)
        self._budget = budget

    def read(self, size: int, /) -> bytes:
        part = super().read(size)
        self._budget.spend(len(part))
        return part


class _Inflated(Content):
    """A deflated member, which tells itself where it ends."""

    def __init__(self, source: _Source, budget: Budget) -> None:
        super().__init__(source, 0)
        self._source = source
        self._budget = budget
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)

    def read(self, size: int, /) -> bytes:
        while not self._engine.eof:
            packed = self._engine.unconsumed_tail or self._source.read(CHUNK)
            try:
                part = self._engine.decompress(packed, min(size, CHUNK))
            except zlib.error as error:
                raise UnpackError(Sentence("cannot be decompressed: {reason}", reason=str(error))) from None
            if self._engine.eof:
                self._source.put_back(self._engine.unused_data)
            if part:
                self._budget.spend(len(part))
                return part
            if not packed:
                raise UnpackError(Sentence("is cut off in the middle of a file"))
        return b""


def _whole(source: _Source, size: int) -> bytes:
    data = exactly(source, size) if size else b""
    if len(data) < size:
        raise UnpackError(Sentence("is cut off: its end mark is missing"))
    return data


def _large_size(extra: bytes) -> int:
    """The size beyond 4 GiB, from the field for it among the extra fields of a header."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == _LARGE_SIZES and length >= 8 and len(extra) >= 12:
            return int.from_bytes(extra[4:12], "little")
        extra = extra[4 + length :]
    raise UnpackError(Sentence("has a damaged header"))


def _pass_sizes(source: _Source) -> None:
    """Pass over the checksum and the sizes behind a member, with their mark or without, of four bytes each or eight."""
    data = _whole(source, 4)
    data = _whole(source, 12) if data == _BEHIND else data + _whole(source, 8)
    following = _whole(source, 4)
    if following != _MEMBER and following not in _TABLE:
        following = _whole(source, 8)[4:]
    source.put_back(following)
