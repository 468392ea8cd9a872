from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine import textfile
from numaware.machine.textfile import read_text


def test_colours_and_line_ends_are_removed() -> None:
    assert read_text(b"\x1b[4mGPU0\x1b[0m\tX\r\nb\rc\x1b(B", "f") == "GPU0\tX\nb\nc"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_tells_the_encoding(encoding: str) -> None:
    assert read_text("Modèle: é".encode(encoding), "f") == "Modèle: é"


def test_a_stray_byte_costs_one_character() -> None:
    assert read_text(b"CPU \xae x", "f") == "CPU \N{REPLACEMENT CHARACTER} x"


@pytest.mark.parametrize("data", [b"", b"\n \t", b"a\x00b", b"\x1f\x8b\x08"])
def test_binary_and_empty_files_are_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        read_text(data, "f")


def test_a_file_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textfile, "MAX_TEXT_BYTES", 8)
    assert read_text(b"12345678", "f") == "12345678"
    with pytest.raises(InputError, match="larger than"):
        read_text(b"123456789", "f")
