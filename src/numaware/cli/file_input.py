"""Files as they are named on the command line, where `-` is standard input."""

from __future__ import annotations

import sys
from pathlib import Path

STDIN = "standard input"


def read_file(name: str | Path, most: int) -> bytes:
    """The bytes of a file, at most one more than `most`, so that its reader sees that it is too large and says so."""
    if str(name) == "-":
        return sys.stdin.buffer.read(most + 1)
    with Path(name).open("rb") as stream:
        return stream.read(most + 1)


def source_of(name: str) -> str:
    """What to call a file in a message."""
    return STDIN if name == "-" else name
