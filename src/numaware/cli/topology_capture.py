"""`numaware topology capture`: save what the readers need of a machine, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from numaware.cli.output import replacing
from numaware.cli.progress import progress_bar
from numaware.machine.capture import Capture, write
from numaware.machine.tree import Tree


def save(tree: Tree, output: Path, *, with_identity: bool) -> int:
    """Write the capture of the tree to a file and say what is in it."""
    with replacing(output) as stream:
        with progress_bar(_columns, None) as update:
            captured = Capture(
                tree, with_identity=with_identity, progress=lambda done: update(completed=done)
            )
        write(captured.entries, stream)
    _say(f"{output}: {len(captured.entries)} files and links saved")
    if captured.unreadable:
        _say(f"{len(captured.unreadable)} files could not be read, the first is {captured.unreadable[0]}")
    return 0


def _columns(rich: Any) -> tuple[Any, ...]:
    return rich.SpinnerColumn(), rich.TextColumn("reading /sys and /proc: {task.completed} files")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
