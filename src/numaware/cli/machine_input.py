"""A machine from whatever a person names: a path, or a short form such as `2x14`."""

from __future__ import annotations

from pathlib import Path

from numaware.errors import InputError
from numaware.machine import codec, synthetic, sysfs
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree
from numaware.machine.words import printable
from numaware.twin.rules import rules_for


def load_machine(path: Path) -> Machine:
    """The machine at a path: what holds JSON is a topology, everything else has to have a /sys in it."""
    if path.is_file():
        with path.open("rb") as stream:
            if stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
                stream.seek(0)
                return codec.decode(stream.read(codec.MAX_JSON_BYTES + 1), str(path))
    return sysfs.read(open_tree(path))


def named_machine(text: str) -> Machine:
    """The machine a person means by a path or a short form."""
    path = existing(text)
    if path is not None:
        return load_machine(path)
    try:
        return synthetic.read(text)
    except InputError as error:
        problem = f"no such file, and as a short form: {error.problem}"
        raise InputError(printable(text, 80), problem, hint=error.hint) from None


def check_version(option: str, version: str) -> None:
    """Refuse what is no version of a kubelet, naming the option it was given with."""
    try:
        rules_for(version)
    except ValueError as error:
        raise InputError(option, str(error)) from None


def existing(text: str) -> Path | None:
    """The path, if there is one; a machine in short form may be longer than any file name."""
    try:
        return Path(text) if Path(text).exists() else None
    except (OSError, ValueError):
        return None
