"""What a kubelet says when it cannot take a state file back."""

from __future__ import annotations

from typing import Literal

from numaware.errors import InputError
from numaware.twin.gotext import quoted
from numaware.twin.state.checksum import Stamp

CORRUPT = "checkpoint is corrupted"


class RefusedCheckpointError(InputError):
    """The file reads well, but a kubelet of that release does not take it; `problem` is its own words."""


class UnlikeError(ValueError):
    """The content cannot be of any layout that a reader tries; `form` is the last of them."""

    def __init__(self, form: str) -> None:
        self.form = form
        super().__init__(f"the entries are not those of layout {form}")


class CorruptCheckpointError(RefusedCheckpointError):
    """The file reads well, but its checksum is not that of its content."""

    def __init__(self, source: str, stamp: Stamp) -> None:
        self.stamp = stamp
        stored = "none" if stamp.stored is None else stamp.stored
        super().__init__(source, CORRUPT, hint=f"checksum stored {stored}, computed {stamp.computed}")


def checked(source: str, stamp: Stamp) -> None:
    """Refuse what a kubelet would refuse."""
    if not stamp.accepted:
        raise CorruptCheckpointError(source, stamp)


def restore_error(manager: Literal["CPU", "memory"], problem: str, path: str) -> str:
    """The sentence with which the CPU or memory manager refuses to start (1.18 and later), `problem` being the cause.

    The device manager has none: it logs the problem and starts with an empty table.
    """
    return (
        f"could not restore state from checkpoint: {problem}, please drain this node and delete the {manager} manager"
        f" checkpoint file {quoted(path)} before restarting Kubelet"
    )


def policy_changed(manager: Literal["CPU", "memory"], configured: str, stored: str) -> str:
    """The cause when the file was written under another policy."""
    prefix = "[memorymanager] " if manager == "memory" else ""
    return f"{prefix}configured policy {quoted(configured)} differs from state checkpoint policy {quoted(stored)}"
