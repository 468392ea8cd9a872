from __future__ import annotations

import pytest

from numaware.twin.state.golang import dump_list, dump_map, json_text


def test_json_sorts_map_keys_as_text_and_leaves_no_blanks() -> None:
    assert json_text({"2": [1, 2], "10": None, "-1": "x"}) == '{"-1":"x","10":null,"2":[1,2]}'


@pytest.mark.parametrize(
    ("character", "written"),
    [
        ("<", r"\u003c"),
        (">", r"\u003e"),
        ("&", r"\u0026"),
        ("\u2028", r"\u2028"),
        ("\u2029", r"\u2029"),
        ('"', r"\""),
        ("\\", r"\\"),
        ("\n", r"\n"),
        ("\x01", r"\u0001"),
        ("\x7f", "\x7f"),
        ("é", "é"),
        ("机", "机"),
    ],
)
def test_json_escapes_the_characters_that_go_escapes(character: str, written: str) -> None:
    assert json_text(character) == f'"{written}"'


def test_a_dump_sorts_number_keys_as_numbers() -> None:
    assert dump_map({10: "b", -1: "c", 2: "a"}) == "map[-1:c 2:a 10:b]"


def test_a_dump_sorts_text_keys_as_text() -> None:
    assert dump_map({"b": dump_list(["x", "y"]), "B": dump_list([]), "10": "", "2": ""}) == (
        "map[10: 2: B:[] b:[x y]]"
    )
