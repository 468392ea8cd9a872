"""Whatever is packed, in whatever way, is read within a budget, or up to where it is damaged."""

from __future__ import annotations

import io
import lzma

import pytest

from numaware.machine.unpacking import Budget, UnpackError, is_tar, members, unpacked
from support.packed import PACKERS, tar

TEXT = b"".join(b"line %d\n" % number for number in range(40_000))
COMPRESSED = [name for name in PACKERS if name != "plain"]


def read(data: bytes, budget: Budget | None = None) -> bytes:
    stream = unpacked(data[:6], io.BytesIO(data), budget or Budget(1 << 30))
    assert stream is not None
    return b"".join(iter(lambda: stream.read(10_000), b""))


@pytest.mark.parametrize("form", COMPRESSED)
def test_what_was_packed_comes_out_again(form: str) -> None:
    assert read(PACKERS[form](TEXT)) == TEXT


@pytest.mark.parametrize("form", COMPRESSED)
def test_streams_one_after_the_other_are_one_file(form: str) -> None:
    pack = PACKERS[form]
    assert read(pack(TEXT) + pack(b"") + pack(b"end")) == TEXT + b"end"


@pytest.mark.parametrize("form", COMPRESSED)
def test_what_follows_the_last_stream_is_ignored(form: str) -> None:
    assert read(PACKERS[form](b"all") + bytes(700)) == b"all"
    assert read(PACKERS[form](b"all") + b"garbage") == b"all"


@pytest.mark.parametrize("form", COMPRESSED)
def test_a_cut_is_told_after_all_that_came_before_it(form: str) -> None:
    packed = PACKERS[form](TEXT)
    stream = unpacked(packed[:6], io.BytesIO(packed[: len(packed) - 20]), Budget(1 << 30))
    assert stream is not None
    parts: list[bytes] = []
    with pytest.raises(UnpackError, match="cut off"):
        parts.extend(iter(lambda: stream.read(10_000), b""))
    assert parts or form == "bz2"
    assert TEXT.startswith(b"".join(parts))


@pytest.mark.parametrize("form", COMPRESSED)
def test_bytes_are_counted_before_they_are_handed_on(form: str) -> None:
    with pytest.raises(UnpackError, match="more than 1 MiB when unpacked"):
        read(PACKERS[form](bytes(4 << 20)), Budget(1 << 20))


def test_time_is_looked_at_with_every_piece() -> None:
    ticks = iter(range(1000))
    with pytest.raises(UnpackError, match="longer than 5 seconds"):
        read(PACKERS["gz"](bytes(4 << 20)), Budget(1 << 30, seconds=5, clock=lambda: next(ticks)))


def test_a_dictionary_larger_than_any_program_asks_for_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    packed = lzma.compress(b"x", format=lzma.FORMAT_XZ, filters=filters)
    with pytest.raises(UnpackError, match="cannot be decompressed"):
        read(packed)


def test_members_are_read_or_passed_over() -> None:
    data = tar({"a": b"1" * 1000, "b": b"", "c": b"3" * 513})
    assert is_tar(data)
    listed = [(one.name, one.content.read(5)) for one in members(io.BytesIO(data))]
    assert listed == [("a", b"11111"), ("b", b""), ("c", b"33333")]
