"""Zip archives as a stream: what is in them comes out, and whatever is wrong with one is told."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.machine.unpacking import Budget, UnpackError
from numaware.machine.unzipping import is_zip, zip_members
from support.packed import zipped

FILES = {"a.log": b"line\n" * 40_000, "empty": b"", "folder/b": bytes(range(256)), "folder/中": b"x"}


def read(data: bytes, budget: Budget | None = None) -> dict[str, bytes]:
    assert is_zip(data)
    listed = zip_members(io.BytesIO(data), budget or Budget(1 << 30))
    return {member.name: member.content.whole() for member in listed}


@pytest.mark.parametrize("deflated", [True, False])
@pytest.mark.parametrize("large", [True, False])
def test_what_was_packed_comes_out_again(*, deflated: bool, large: bool) -> None:
    assert read(zipped(FILES, deflated=deflated, large=large)) == FILES


@pytest.mark.parametrize("large", [True, False])
def test_what_came_through_a_pipe_has_its_sizes_behind_it(*, large: bool) -> None:
    assert read(zipped(FILES, piped=True, large=large)) == FILES


def test_what_nobody_reads_is_passed_over() -> None:
    listed = zip_members(io.BytesIO(zipped(FILES)), Budget(1 << 30))
    assert [member.name for member in listed] == list(FILES)


def test_an_archive_of_nothing_has_no_members() -> None:
    assert read(zipped({})) == {}


@pytest.mark.parametrize("deflated", [True, False])
def test_bytes_are_counted_before_they_are_handed_on(*, deflated: bool) -> None:
    with pytest.raises(UnpackError, match="more than 1 MiB when unpacked"):
        read(zipped({"zeros": bytes(4 << 20)}, deflated=deflated), Budget(1 << 20))


def test_what_is_not_read_is_told() -> None:
    whole = bytearray(zipped({"a": b"text"}, deflated=False))
    whole[6] = 1
    with pytest.raises(UnpackError, match="is encrypted"):
        read(bytes(whole))
    whole[6], whole[8] = 0, 12
    with pytest.raises(UnpackError, match="packed by method 12"):
        read(bytes(whole))


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans(), st.booleans())
def test_damage_at_any_place_is_told_or_does_no_harm(
    data: st.DataObject, piped: bool, deflated: bool
) -> None:
    whole = zipped({"a": b"line\n" * 50, "b": b"more"}, deflated=deflated or piped, piped=piped)
    cut = data.draw(st.integers(4, len(whole)))
    damaged = bytearray(whole[:cut])
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, cut - 1))] = data.draw(st.integers(0, 255))
    with suppress(UnpackError):
        for member in zip_members(io.BytesIO(bytes(damaged)), Budget(1 << 20)):
            assert len(member.content.whole()) <= 1 << 20
