"""A machine from whatever path a person names."""

from __future__ import annotations

from pathlib import Path

from numaware.machine import codec, sysfs
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree


def load_machine(path: Path) -> Machine:
    """The machine at a path: what holds JSON is a topology, everything else has to have a /sys in it."""
    if path.is_file():
        with path.open("rb") as stream:
            if stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
                stream.seek(0)
                return codec.decode(stream.read(codec.MAX_JSON_BYTES + 1), str(path))
    return sysfs.read(open_tree(path))
