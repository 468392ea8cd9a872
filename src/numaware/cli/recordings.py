"""Files of recorded cases, one JSON object per line: reading them, and showing where a model and a recording part."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Annotated, TypeVar, cast

import msgspec

from numaware.cli.options import dashed
from numaware.cli.progress import progress_bar
from numaware.errors import InputError
from numaware.machine.textfile import MAX_TEXT_BYTES
from numaware.machine.words import printable

_WIDTH = 160
_GZIP = b"\x1f\x8b"

Case = TypeVar("Case")
Answer = TypeVar("Answer")

# Told how many bytes of the files were read.
Progress = Callable[[int], None]

RecordedFile = Annotated[Path, dashed(".jsonl or .jsonl.gz; - is standard input.", "PATH")]


def parting(one: str, other: str) -> tuple[str, str]:
    """Both texts, long ones cut down to where they part."""
    if max(len(one), len(other)) <= _WIDTH:
        return one, other
    place = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    begin = max(0, place - _WIDTH // 3)

    def cut(text: str) -> str:
        part = text[begin : begin + _WIDTH]
        return f"{'...' if begin else ''}{part}{'...' if begin + _WIDTH < len(text) else ''}"

    return cut(one), cut(other)


def as_text(value: object) -> str:
    """One line of JSON."""
    return msgspec.json.encode(value).decode()


def lines(file: Path, progress: Progress) -> Iterator[bytes]:
    """The lines of a plain or compressed file; what is not one of these is an `InputError`."""
    source = str(file)
    stdin = cast("BufferedReader", sys.stdin.buffer)
    with contextlib.nullcontext(stdin) if source == "-" else file.open("rb") as raw:
        stream = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == _GZIP else raw
        while line := _next_line(stream, source):
            if raw.seekable():
                progress(raw.tell())
            yield line


def _next_line(stream: BufferedReader | gzip.GzipFile, source: str) -> bytes:
    try:
        line = stream.readline(MAX_TEXT_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(source, f"damaged gzip data: {error}") from None
    if len(line) > MAX_TEXT_BYTES:
        raise InputError(source, f"a line of more than {MAX_TEXT_BYTES >> 20} MiB, which no recording has")
    return line


@contextlib.contextmanager
def progress_of(files: Sequence[Path], *, visible: bool) -> Iterator[Progress]:
    """A bar for all files together, told how far the file at hand is read."""
    total = sum(file.stat().st_size for file in files if file.is_file())
    # Answers that go to the same terminal are put above the bar; those that go to a file are none of its business.
    with progress_bar(
        lambda rich: rich.Progress.get_default_columns(),
        total or None,
        "replaying",
        visible=visible,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=False,
    ) as update:
        done = last = 0

        def moved(position: int) -> None:
            # A position that goes back is the beginning of the next file.
            nonlocal done, last
            if position < last:
                done += last
            last = position
            update(completed=done + last)

        yield moved


def answered(
    file: Path, progress: Progress, kind: type[Case], answer: Callable[[Case], Answer]
) -> Iterator[tuple[Case, Answer]]:
    """Each case of a file with a model's answer, read as it is needed; a bad line is an `InputError` with its number."""
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(lines(file, progress), 1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            case = decoder.decode(line)
            reply = answer(case)
        except RecursionError:
            raise InputError(place, "nested too deeply for a recorded case") from None
        except ValueError as error:
            raise InputError(place, printable(str(error), 500)) from None
        yield case, reply
