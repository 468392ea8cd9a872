from __future__ import annotations

from typing import Any

import pytest

from numaware.errors import InputError
from numaware.workload.yamlfile import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_REPEATED,
    MAX_VALUES,
    Node,
    documents,
    resolve,
)


def plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [plain(value) for value in node.value]
    return node.value


def loaded(text: str) -> list[Any]:
    return [plain(node) for node in documents(text.encode(), "f.yaml")]


def refusal(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        documents(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 8),  # an old octal number
        ("0o10", 8),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("+5", 5),
        ("08", 8.0),  # no octal number, so a float
        ("0.1", 0.1),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1e400", "1e400"),
        ("99999999999999999999", 1e20),
        ("1:30", "1:30"),  # sixty times one plus thirty to other YAML readers
        ("2001-01-01", "2001-01-01"),
        ("0-1", "0-1"),
        ("1,3", "1,3"),
        ("1Gi", "1Gi"),
        ("-", "-"),
        ("y", True),
        ("Off", False),
        ("~", None),
        ("yes please", "yes please"),
    ],
)
def test_an_unquoted_scalar_means_what_it_means_to_kubectl(text: str, value: object) -> None:
    resolved = resolve(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_quoted_scalars_are_text() -> None:
    assert loaded("a: \"010\"\nb: 'yes'\nc: !!str 5\nd: |\n  7\n") == [
        {"a": "010", "b": "yes", "c": "5", "d": "7\n"}
    ]


def test_keys_become_text_as_in_json() -> None:
    assert loaded("on: 1\n5: 2\nx: 3") == [{"true": 1, "5": 2, "x": 3}]


def test_every_value_knows_its_line_and_every_document_its_place() -> None:
    first, empty, last = documents(b"a: 1\nb:\n  - c\n---\n---\nd:\n  e: 5\n", "f")
    assert (first.get("b").line, first.get("b").items[0].line) == (3, 3)
    assert empty.value is None
    assert last.get("d", "e").line == 7
    assert last.get("d", "nothing").value is None


def test_json_with_tabs_and_surrogate_escapes_is_read() -> None:
    text = (
        '{\n\t"a":"\\ud83d\\ude00","b":"\\\\ud83d\\\\ude00","c":[1,{"d":null}],"e":-1.5e3,"u":"http:\\/\\/x"}'
    )
    assert loaded(text) == [
        {"a": "😀", "b": "\\ud83d\\ude00", "c": [1, {"d": None}], "e": -1500.0, "u": "http://x"}
    ]


def test_a_byte_order_mark_and_utf_16_are_understood() -> None:
    assert plain(documents(b"\xef\xbb\xbfa: 1", "f")[0]) == {"a": 1}
    assert plain(documents("a: ä".encode("utf-16"), "f")[0]) == {"a": "ä"}


def test_merge_keys_fill_up_what_a_mapping_lacks() -> None:
    text = "base: &b {x: 1, v: 2}\nmore: &m {v: 3, z: 4}\none: {<<: *b, v: 9}\nall:\n  <<: [*b, *m]\n  w: 5\n"
    assert loaded(text)[0]["one"] == {"x": 1, "v": 9}
    assert loaded(text)[0]["all"] == {"x": 1, "v": 2, "z": 4, "w": 5}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is set twice"),
        ("a:\n\tb: 1\n", 2, "a tab is used for indentation"),
        ('a: "never closed\n', 1, "not YAML"),
        ("a: b: c\n", 1, "not YAML"),
        ('a: 1\nb: "2" <1>\n', 2, "call-out mark"),
        ("a: *nowhere\n", 1, "*nowhere refers to no anchor"),
        ("a: &a [*a]\n", 1, "*a refers to no anchor"),
        ("a: 1\n? [x]\n: 2\n", 2, "a mapping key is array"),
        ("~: 1\n", 1, "a mapping key is null"),
        ("a: 1\nb: \x01\n", 2, "a character that YAML forbids"),
        ("a: {<<: 5}\n", 1, "<< merges something that is not a mapping"),
    ],
)
def test_broken_text_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    message = refusal(text)
    assert message.startswith(f"f.yaml:{line}: ")
    assert reason in message


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    assert refusal(b"a: 1\nb: \xff\n") == "f.yaml:2: is not UTF-8 text"


def test_a_file_beyond_the_limit_is_refused_unread() -> None:
    assert "larger than 16 MiB" in refusal(b" " * (MAX_BYTES + 1))


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000])
def test_deep_nesting_is_refused_early(text: str) -> None:
    assert f"nested more than {MAX_DEPTH} levels deep" in refusal(text)


def test_what_aliases_repeat_is_counted_as_if_it_were_written_out_and_bounded() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 60)]
    assert f"f.yaml:5: aliases repeat more than {MAX_REPEATED} values" in refusal("\n".join(levels))
    node = documents("\n".join(levels[:4]).encode(), "f")[0]
    assert node.get("a3").items[8].items[8].items[8].items[8].value == "x"


def test_one_alias_many_times_is_bounded_by_what_it_stands_for() -> None:
    pod = "pod: &p {kind: Pod, spec: {containers: [{name: c}]}}\n"
    assert "f.yaml:2: aliases repeat more than" in refusal(f"{pod}items: [{'*p, ' * 60_000}]")
    assert len(documents(f"{pod}items: [{'*p, ' * 1000}]".encode(), "f")[0].get("items").items) == 1000


def test_merges_of_merges_are_bounded() -> None:
    base = "base: &b {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\n"
    assert "aliases repeat more than" in refusal(base + "\n".join(f"m{n}: {{<<: *b}}" for n in range(200)))


def test_a_flood_of_tiny_values_is_refused() -> None:
    assert f"holds more than {MAX_VALUES} values" in refusal(b"[" + b"1," * MAX_VALUES + b"1]")


def test_a_key_that_looks_like_a_merge_but_is_quoted_is_a_key() -> None:
    assert loaded('{"<<": 1, "\\u0000<<": 2}') == [{"<<": 1, "\0<<": 2}]
