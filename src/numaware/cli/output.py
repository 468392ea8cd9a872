"""Writing answers: to standard output and standard error, or to a file that is replaced only when it is complete."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO

import msgspec

from numaware.errors import InputError
from numaware.machine.words import printable


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its name only when it is complete; whatever goes wrong, the old one stays.

    A pipe or a device (`/dev/null`) cannot be replaced and is written as it is.
    """
    final = Path(os.path.realpath(path))
    try:
        mode = final.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise InputError(str(path), "is a folder", hint="give the name of a file to write")
    if not stat.S_ISREG(mode):
        with final.open("wb") as stream:
            yield stream
        return
    draft = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        with draft.open("xb") as stream:
            yield stream
        draft.replace(final)
    except OSError as error:
        if error.filename == str(draft):
            raise InputError(str(path), f"cannot be written: {error.strerror}") from None
        raise
    finally:
        draft.unlink(missing_ok=True)


def write_json(value: object, *, indent: int = 0) -> None:
    """A value as JSON on standard output: on one line, or indented for people who look at it."""
    data = msgspec.json.encode(value)
    sys.stdout.write((msgspec.json.format(data, indent=indent) if indent else data).decode() + "\n")


def complain(problem: str) -> None:
    """What is wrong with one file of several, in one line on standard error."""
    sys.stderr.write(f"numaware: {printable(problem, 1000)}\n")


def tell(text: str, stream: TextIO) -> None:
    """Words for somebody who may have gone (a pipe, a terminal): that stops nothing which was begun."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        go_unheard(stream)


def go_unheard(stream: TextIO) -> None:
    """Nobody reads a stream any more: what is still written to it, also by Python's exit, goes nowhere and fails at nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def deliver(data: bytes, path: Path | None) -> None:
    """Write an answer to the file, or to standard output."""
    if path is not None:
        with replacing(path) as stream:
            stream.write(data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
