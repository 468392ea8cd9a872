"""A watch stream in pieces, whole or damaged: whole events come out as they went in, damage is one error, never worse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.fake_api_server import event
from numaware.kube.errors import ApiError
from numaware.kube.watching import MOST_LINE, WatchLines

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "LATER"]),
        st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    ),
    max_size=6,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The same bytes in pieces that end at these places."""
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(EVENTS, st.lists(st.integers(0, 400), max_size=8), st.sampled_from([b"", b"\n", b"\r\n \n"]))
def test_whole_events_come_out_wherever_the_stream_was_cut(
    events: list[tuple[str, dict[str, Any]]], places: list[int], blank: bytes
) -> None:
    data = b"".join(event(kind, about) + blank for kind, about in events)
    lines = WatchLines()
    found = [
        (made.type, json.loads(bytes(made.object)))
        for piece in cut(data, places)
        for made in lines.feed(piece)
    ]
    lines.end()
    assert found == events


@given(EVENTS, st.integers(0, 400))
def test_a_stream_that_ends_in_mid_line_says_so_after_what_was_whole(
    events: list[tuple[str, dict[str, Any]]], end: int
) -> None:
    data = b"".join(event(kind, about) for kind, about in events)[:end]
    lines = WatchLines()
    assert len(list(lines.feed(data))) == data.count(b"\n")
    if data and not data.endswith(b"\n"):
        with pytest.raises(ApiError, match="in the middle of an event"):
            lines.end()
    else:
        lines.end()


@settings(max_examples=300)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.text(max_size=40).map(str.encode)
        | JSON.map(lambda value: json.dumps(value).encode() + b"\n")
        | st.just(b'{"type":"ADDED","object":{}}\n')
        | st.just(b"[" * 5000 + b"\n"),
        max_size=8,
    )
)
def test_whatever_comes_is_events_or_one_error_that_names_the_stream(pieces: list[bytes]) -> None:
    error = read(pieces)
    assert error is None or (error.status, error.reason) == (0, "BadStream")
    assert str(error).isprintable()


def read(pieces: list[bytes]) -> ApiError | None:
    """The error that reading ends in, if any; what comes before it is JSON."""
    lines = WatchLines()
    try:
        for piece in pieces:
            for made in lines.feed(piece):
                json.loads(bytes(made.object))
        lines.end()
    except ApiError as error:
        return error
    return None


def test_a_line_without_end_is_given_up_before_it_fills_the_memory() -> None:
    error = read([b"x" * (1 << 20)] * (MOST_LINE >> 20) + [b"x"])
    assert error is not None
    assert "16 MiB" in error.message
