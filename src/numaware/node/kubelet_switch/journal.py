"""What was begun, done and undone, on the disk before it is believed: a crash half-way is read here, and brought to an end.

A switch is one numbered folder: `journal.jsonl` and, under `backup`, the files as they were. The plan is the first line; a
last line that was cut off by the crash is as if it had not been written.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from numaware.errors import InputError
from numaware.node.atomic_files import sync_folder
from numaware.node.kubelet_switch.copies import bytes_aside
from numaware.node.kubelet_switch.place import Place
from numaware.node.kubelet_switch.steps import AnyStep, Backup
from numaware.sentence import Sentence

FOLDER = Path("/var/lib/numaware/kubelet-switch")
_FILE = "journal.jsonl"
BACKUP = "backup"

Mark = Literal["begin", "done", "failed", "undoing", "undone", "applied", "rolled-back"]
Ending = Literal["applied", "rolled-back"]


class Recorded(msgspec.Struct, frozen=True):
    """What a journal has to know of a plan; `order` is whose, where it was not a person's."""

    steps: tuple[AnyStep, ...]
    place: Place
    healthz: str = ""
    node: str = ""
    version: str = ""
    order: str = ""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line after the first."""

    mark: Mark
    step: int = -1
    why: str = ""


class Story(msgspec.Struct, frozen=True):
    """A journal read back. `ending` is None while it is half-way; `next_step` is the first that is not known to be done."""

    folder: Path
    plan: Recorded
    entries: tuple[Entry, ...]

    @property
    def ending(self) -> Ending | None:
        for entry in reversed(self.entries):
            if entry.mark in ("applied", "rolled-back"):
                return entry.mark
        return None

    @property
    def next_step(self) -> int:
        done = [entry.step for entry in self.entries if entry.mark == "done"]
        return max(done, default=-1) + 1

    @property
    def is_undoing(self) -> bool:
        """Whether it had failed, and was being undone."""
        return any(entry.mark in ("failed", "undoing") for entry in self.entries)

    def check_here(self) -> None:
        """`InputError` where the node had another root when this was written down, as for an agent in a container.

        Its steps would not find the files that were put aside, and take that for nothing to put back.
        """
        here = self.folder.absolute() / BACKUP
        for step in self.plan.steps:
            if isinstance(step, Backup) and Path(step.folder) != here:
                problem = Sentence("was written down where its files are in {folder}", folder=step.folder)
                hint = Sentence(
                    "who began it takes it up: the agent, or --root and --journal as they were then"
                )
                raise InputError(str(self.folder), problem, hint=hint)

    def before(self, root: Path) -> bytes | None:
        """What the configuration held before this switch; None where there was none."""
        self.check_here()
        return bytes_aside(root / self.plan.place.file.lstrip("/"), self.folder / BACKUP)

    @property
    def failure(self) -> str:
        return next((entry.why for entry in self.entries if entry.mark == "failed"), "")


class Journal:
    """One switch being written down; every line is on the disk before the call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, plan: Recorded) -> None:
        """The first line; `OSError` where nothing can be written, and then nothing has happened."""
        self.folder.mkdir(parents=True, mode=0o700)
        self._append(msgspec.json.encode(plan))
        sync_folder(self.folder)
        sync_folder(self.folder.parent)

    def note(self, mark: Mark, step: int = -1, why: str = "") -> None:
        self._append(msgspec.json.encode(Entry(mark, step, why)))

    def _append(self, line: bytes) -> None:
        with (self.folder / _FILE).open("ab") as stream:
            # After a line that a crash cut off.
            cut = stream.tell() and not self._ends_whole()
            stream.write((b"\n" if cut else b"") + line + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _ends_whole(self) -> bool:
        return (self.folder / _FILE).read_bytes().endswith(b"\n")


def next_folder(home: Path) -> Path:
    """Where the next switch is written down."""
    return home / f"{max(_numbers(home), default=0) + 1:06d}"


def latest(home: Path) -> Story | None:
    """The last switch of this node, None if there was none."""
    for number in sorted(_numbers(home), reverse=True):
        story = read(home / f"{number:06d}")
        if story is not None:
            return story
    return None


def half_way(home: Path) -> Story | None:
    """The last switch of this node, if it was not brought to an end."""
    last = latest(home)
    return last if last is not None and last.ending is None else None


def check_whole(home: Path) -> None:
    """`InputError` if the last switch was left half-way: another one would take that for how the node was."""
    left = half_way(home)
    if left is not None:
        hint = Sentence("`numaware kubelet apply --resume` goes on, `numaware kubelet rollback` goes back")
        problem = Sentence("the last switch of this node was left half-way")
        raise InputError(str(left.folder), problem, hint=hint)


def read(folder: Path) -> Story | None:
    """A journal; None where the crash came before its first line was whole."""
    try:
        first, *lines = (folder / _FILE).read_bytes().splitlines()
        plan = msgspec.json.decode(first, type=Recorded)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    entries = []
    for line in lines:
        try:
            entries.append(msgspec.json.decode(line, type=Entry))
        except (ValueError, msgspec.MsgspecError):
            continue
    return Story(folder, plan, tuple(entries))


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Nobody else switches this node meanwhile; `InputError` if somebody does, or nothing can be written there."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        problem = Sentence("the journal cannot be written: {reason}", reason=error.strerror or str(error))
        raise InputError(str(home), problem, hint=Sentence("--journal names another folder")) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(str(home), Sentence("another switch of this node is under way")) from None
        yield
    finally:
        os.close(handle)


def _numbers(home: Path) -> list[int]:
    try:
        return [int(one.name) for one in home.iterdir() if one.name.isdecimal() and one.is_dir()]
    except OSError:
        return []
