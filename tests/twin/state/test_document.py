from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.textfile import MAX_TEXT_BYTES
from numaware.twin.state.document import read

PLAIN = '{"policyName":"none","url":"http://x/#a"}'
FIELDS = {"policyname": "none", "url": "http://x/#a"}


@pytest.mark.parametrize("text", [PLAIN, f"\n {PLAIN}\n", PLAIN.replace(",", " ,\n  ")])
def test_json_is_taken_as_written_whatever_its_spacing(text: str) -> None:
    found = read(text, "f")
    assert found.fields == FIELDS
    assert found.as_written


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.encode("utf-16"),
        f"[root@n1 ~]# cat cpu_manager_state\n{PLAIN}[root@n1 ~]#".encode(),
        f"# saved before the upgrade\n{PLAIN}  // ok".encode(),
        PLAIN.replace(",", ', # "half a quote\n').encode(),
        PLAIN.replace("{", "\x1b[1;39m{\x1b[0m").encode(),
        f"first:\n{PLAIN}\nsecond:\n{{}}".encode(),
    ],
)
def test_what_pasting_adds_is_looked_past(data: bytes) -> None:
    found = read(data, "f")
    assert found.fields == FIELDS
    assert not found.as_written


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty file"),
        (b" \n\t", "empty file"),
        (PLAIN[:-1].encode(), "not JSON"),
        (b"[]", "not JSON"),
        (b"null", "not JSON"),
        (b"\x00\x01\x02", "not JSON"),
        (b"\xff\xff", "not JSON"),
        (b'{"a":"\\ud800"}', "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"[" * 1_000_000, "not JSON"),
        (b'"' * 99_999, "not JSON"),
        (b" " * (MAX_TEXT_BYTES + 1), "larger than"),
    ],
)
def test_everything_else_is_one_input_error(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(data, "f")
    assert caught.value.source == "f"


def test_bytes_that_are_no_text_become_the_replacement_character_as_in_go() -> None:
    assert read(b'{"a":"\xff"}', "f").fields == {"a": "\N{REPLACEMENT CHARACTER}"}


def test_text_that_no_file_can_hold_is_no_crash() -> None:
    assert set(read('{"a":"\ud800"}', "f").fields["a"]) == {"\N{REPLACEMENT CHARACTER}"}
