from __future__ import annotations

import pytest

from numaware.twin.gotext import listed, map_text, parse_bool, parse_int, quoted


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ('say "hi"\\', '"say \\"hi\\"\\\\"'),
        ("a\tb\n\x1b\x7f", '"a\\tb\\n\\x1b\\x7f"'),
        ("ä 世界", '"ä 世界"'),
        ("\u00a0\u200b", '"\\u00a0\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("\ufffd", '"\ufffd"'),
    ],
)
def test_text_is_quoted_as_go_quotes_it(text: str, written: str) -> None:
    assert quoted(text) == written


def test_lists_and_maps_print_as_in_go() -> None:
    assert listed(("none", "pod")) == '["none" "pod"]'
    assert map_text((("b", "2"), ("a", "1"))) == "map[a:1 b:2]"
    assert map_text(()) == "map[]"


def test_booleans_are_gos() -> None:
    assert [parse_bool(text) for text in ("1", "t", "TRUE", "0", "F", "False")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(ValueError, match=r'^strconv\.ParseBool: parsing "tRUE": invalid syntax$'):
        parse_bool("tRUE")


@pytest.mark.parametrize(
    ("text", "number"), [("8", 8), ("-3", -3), ("+007", 7), ("0", 0), ("-0", 0), (str(2**63 - 1), 2**63 - 1)]
)
def test_whole_numbers_are_gos(text: str, number: int) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "invalid syntax"),
        ("1_0", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("٣", "invalid syntax"),
        ("+", "invalid syntax"),
        (str(2**63), "value out of range"),
        ("9" * 5000, "value out of range"),
        ("-" + "1" * 40, "value out of range"),
    ],
)
def test_what_is_no_whole_number_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"strconv\.Atoi: parsing ") as caught:
        parse_int(text)
    assert str(caught.value).endswith(reason)
