"""Evidence from wherever a person points: files, folders such as a must-gather, standard input; with a bar if it takes long."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from math import inf
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from numaware.cli.file_input import STDIN
from numaware.cli.progress import progress_bar
from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.intake import MOST_UNPACKED, take
from numaware.errors import InputError
from numaware.machine.unpacking import Budget

# A must-gather of a large cluster has some ten thousand files.
MOST_FILES = 100_000
_MOST_DEPTH = 32
# Below this nobody has to wait.
_WORTH_A_BAR = 32 << 20


class Place(NamedTuple):
    """A file to be read, and its size as far as it is known."""

    name: str
    path: Path | None
    size: int = 0


def places(paths: Sequence[str]) -> tuple[list[Place], list[str]]:
    """The files behind the paths, in a stable order, and what is wrong with paths that have none."""
    files: list[Place] = []
    complaints: list[str] = []
    for given in dict.fromkeys(paths):
        if given == "-":
            files.append(Place(STDIN, None))
            continue
        path = Path(given)
        try:
            files += _below(path) if path.is_dir() else [Place(given, path, path.stat().st_size)]
        except OSError as error:
            complaints.append(f"{given}: {error.strerror or error}")
        if len(files) > MOST_FILES:
            raise InputError(given, f"holds more than {MOST_FILES} files", hint="name the folder of one node")
    return files, complaints


def _below(folder: Path) -> Iterator[Place]:
    """All plain files of a folder; links are not followed, since captures of /sys hold loops."""
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".git"))
        if len(Path(root).relative_to(folder).parts) >= _MOST_DEPTH:
            folders.clear()
        for name in sorted(names):
            path = Path(root, name)
            if path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > MOST_FILES:
                return
            yield Place(str(path), path, path.stat().st_size)


def collect(files: Sequence[Place], seconds: float = inf) -> tuple[Bundle, list[str]]:
    """Read everything into one bundle; a file that cannot be read does not keep the others from being read.

    What is not read after so many seconds is put down as cut off.
    """
    bundle = Bundle()
    budget = Budget(MOST_UNPACKED, seconds=seconds, clock=time.monotonic)
    complaints: list[str] = []
    total = sum(place.size for place in files)
    with progress_bar(_columns, total, visible=total >= _WORTH_A_BAR) as update:
        for place in files:
            try:
                with (
                    place.path.open("rb", buffering=0)
                    if place.path
                    else nullcontext(sys.stdin.buffer) as stream
                ):
                    take(bundle, place.name, cast("IO[bytes]", _Counted(stream, update)), budget)
            except OSError as error:
                complaints.append(f"{place.name}: {error.strerror or error}")
    return bundle, complaints


def _columns(rich: Any) -> tuple[Any, ...]:
    return (
        rich.BarColumn(),
        rich.DownloadColumn(binary_units=True),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )


class _Counted:
    """A stream that tells how much was read of it."""

    def __init__(self, stream: Any, update: Callable[..., object]) -> None:
        self.stream = stream
        self.update = update

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.stream.read(size)
        self.update(advance=len(data))
        return data
