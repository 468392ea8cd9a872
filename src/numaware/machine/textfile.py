"""Text that a person pasted, redirected or captured from a terminal, as clean lines.

What tools print reaches us through terminals, chat windows and other systems' shells: with colour escapes,
Windows line ends, byte order marks. All of that is removed here, once, so that the readers see the words.
"""

from __future__ import annotations

import re
from pathlib import Path

from numaware.errors import InputError

# The longest honest file (hwloc's XML of the largest machine a kernel takes) stays below this.
MAX_TEXT_BYTES = 32 << 20

_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][0-9A-B]|[=>])")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f]")


def read_bounded(path: Path, most: int, aside: str = "") -> bytes:
    """The bytes of a file, whatever size it pretends to have; `InputError` beyond `most`, with an `aside` on why."""
    with path.open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise InputError(str(path), f"larger than {most >> 20} MiB{aside}")
    return data


def check_size(data: bytes, source: str) -> None:
    """Refuse what is too large to be about a machine, and what is nothing at all."""
    if len(data) > MAX_TEXT_BYTES:
        raise InputError(
            source, f"larger than {MAX_TEXT_BYTES >> 20} MiB, which no description of a machine is"
        )
    if not data.strip():
        raise InputError(source, "the file is empty")


def read_text(data: bytes, source: str) -> str:
    """The text without terminal escapes, with plain line ends; binary or oversized data is an `InputError`."""
    check_size(data, source)
    encoding, body = "utf-8", data
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            encoding, body = name, data[len(mark) :]
            break
    # A stray byte in a model name must not cost the whole file; junk as a whole finds no reader.
    text = _ESCAPE.sub("", body.decode(encoding, errors="replace"))
    if _UNPRINTABLE.search(text):
        raise InputError(source, "binary data, not the text that the tool prints")
    return text.replace("\r\n", "\n").replace("\r", "\n")
