"""`numaware topology capture`: save what the readers need of a machine, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from numaware.cli.output import replacing
from numaware.machine.capture import Capture, write
from numaware.machine.tree import Tree


def save(tree: Tree, output: Path, *, with_identity: bool) -> int:
    """Write the capture of the tree to a file and say what is in it."""
    with replacing(output) as stream:
        with _progress() as progress:
            captured = Capture(tree, with_identity=with_identity, progress=progress)
        write(captured.entries, stream)
    _say(f"{output}: {len(captured.entries)} files and links saved")
    if captured.unreadable:
        _say(f"{len(captured.unreadable)} files could not be read, the first is {captured.unreadable[0]}")
    return 0


@contextmanager
def _progress() -> Iterator[Callable[[int], object]]:
    """A line that counts the files read, for somebody who is waiting at a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal pays for it
    from rich.progress import Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("reading /sys and /proc: {task.completed} files"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done: bar.update(task, completed=done)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
