from __future__ import annotations

import pytest

from numaware.twin.state.checksum import Stamp, first_match, fnv1a


@pytest.mark.parametrize(
    ("text", "value"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968), ("é", 0x1E9DE8C1)]
)
def test_fnv1a_gives_the_published_values(text: str, value: int) -> None:
    assert fnv1a(text) == value


@pytest.mark.parametrize(
    ("stamp", "accepted"),
    [
        (Stamp("v1", 7, 7), True),
        (Stamp("v1", 6, 7), False),
        (Stamp("v1", 0, 7), False),
        (Stamp("v1", None, 7), False),
        (Stamp("v2", 0, 7, optional=True), True),
        (Stamp("v2", None, 7, optional=True), True),
        (Stamp("v2", 6, 7, optional=True), False),
    ],
)
def test_a_missing_checksum_is_accepted_only_where_it_is_optional(stamp: Stamp, accepted: bool) -> None:
    assert stamp.accepted is accepted


def test_a_layout_is_recognised_by_its_checksum() -> None:
    dumps = {"new": "n", "old": "o", "older": "r"}
    assert first_match(fnv1a("o"), dumps).form == "old"
    assert first_match(fnv1a("r"), dumps).form == "older"


def test_a_checksum_of_no_layout_is_reported_against_the_newest() -> None:
    assert first_match(1, {"new": "n", "old": "o"}) == Stamp("new", 1, fnv1a("n"))
