"""The root of a node as a doctor reads it: nothing written, nothing run, and no file that could hang or flood anything."""

from __future__ import annotations

from collections.abc import Sequence

from numaware.machine.tree import Tree

_MOST_BYTES = 32 << 20
_MOST_PROCESSES = 100_000


class NodeRoot:
    """Files below one root; what may not be read is remembered in `forbidden`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.forbidden: list[str] = []

    def read(self, path: str) -> bytes | None:
        """A file, None if it is not there or may not be read."""
        try:
            data = self.tree.read(path)
        except OSError:
            self.forbidden.append(f"/{path}")
            return None
        return None if data is None or len(data) > _MOST_BYTES else data

    def names(self, path: str) -> list[str]:
        try:
            return self.tree.names(path)
        except OSError:
            self.forbidden.append(f"/{path}")
            return []

    def exists(self, path: str) -> bool:
        return self.tree.exists(path)

    def first(self, paths: Sequence[str]) -> tuple[str, bytes] | None:
        """The first of these files that is there."""
        for path in paths:
            data = self.read(path)
            if data is not None:
                return path, data
        return None

    def processes(self) -> dict[str, bytes] | None:
        """Command name -> command line of what runs, the first of each name; None where no processes are to be seen."""
        numbers = [name for name in self.names("proc") if name.isdecimal()][:_MOST_PROCESSES]
        if not numbers:
            return None
        command_lines: dict[str, bytes] = {}
        for number in sorted(numbers, key=int):
            name = (self.read(f"proc/{number}/comm") or b"").decode(errors="replace").strip()
            if name and name not in command_lines:
                command_lines[name] = self.read(f"proc/{number}/cmdline") or b""
        return command_lines
