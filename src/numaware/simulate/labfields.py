"""Fields of the lab's files by the type they have; the first that is wrong ends the reading, with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from numaware.errors import InputError
from numaware.machine.textfile import read_bounded
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.workload.scheduling import Labels
from numaware.workload.yamlfile import MAX_BYTES, Node

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PIECE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)(ms|s|m|h|d)", re.ASCII)
_LONGEST = 100 * 365 * _UNITS["d"]


class Reader:
    """Reads values of one file, and other files that it names."""

    def __init__(self, source: str, folder: Path) -> None:
        self.source = source
        self.folder = folder

    def error(self, node: Node, problem: str, hint: Sentence | str = "") -> InputError:
        return InputError(f"{self.source}:{node.line}", problem, hint=hint)

    def mapping(self, node: Node, known: tuple[str, ...], what: str) -> None:
        """Nothing but known fields, as a misspelt one would be passed over in silence."""
        if not isinstance(node.value, dict):
            hint = f"it has {', '.join(known)}"
            raise self.error(node, f"expected {what}, got a JSON {node.kind}", hint=hint)
        for key, value in node.mapping.items():
            if key not in known:
                hint = f"known: {', '.join(known)}"
                raise self.error(value, f"{printable(key, 60)!r} is no field of {what}", hint=hint)

    def members(self, node: Node, what: str) -> Iterator[tuple[str, Node]]:
        if not isinstance(node.value, dict):
            raise self.error(node, f"{what}: expected names and values, got a JSON {node.kind}")
        yield from node.mapping.items()

    def entries(self, node: Node, what: str) -> list[Node]:
        if node.value is not None and not isinstance(node.value, list):
            raise self.error(node, f"{what}: expected a list, got a JSON {node.kind}")
        return node.items

    def text(self, node: Node, what: str) -> str:
        """Text, empty where there is none."""
        if node.value is not None and node.text is None:
            raise self.error(node, f"{what}: expected text, got a JSON {node.kind}; put it in quotes")
        return node.text or ""

    def required(self, node: Node, field: str) -> str:
        text = self.text(node.get(field), field)
        if not text:
            raise self.error(node, f"{field} is missing")
        return text

    def number(self, node: Node, what: str, least: int, most: int, *, default: int) -> int:
        value = node.value
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            problem = f"{what} is {printable(str(value), 40)}, not a whole number from {least} to {most}"
            raise self.error(node, problem)
        return value

    def duration(self, node: Node, what: str) -> int:
        """Milliseconds of `90s`, `1h30m`, or a plain number of seconds; nothing is 0."""
        value = node.value
        if value is None:
            return 0
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = f"{value}s"
        pieces = _PIECE.findall(value) if isinstance(value, str) and len(value) < 80 else []
        if not pieces or "".join(amount + unit for amount, unit in pieces) != value:
            shown = printable(str(value if not isinstance(value, dict | list) else node.kind), 40)
            raise self.error(node, f"{what} is {shown!r}, not a time", hint="such as 90s, 5m or 1h30m")
        total = sum(round(float(amount) * _UNITS[unit]) for amount, unit in pieces)
        if total > _LONGEST:
            raise self.error(node, f"{what} is more than a hundred years")
        return total

    def labels(self, node: Node) -> Labels:
        if node.value is None:
            return ()
        return tuple(sorted((key, self.text(value, key)) for key, value in self.members(node, "labels")))

    # Other files, and parts that other readers understand

    def beside(self, name: str) -> Path | None:
        """A file or folder by its name in the folder of this one; None where there is none."""
        try:
            path = self.folder / name
            return path if path.exists() else None
        except (OSError, ValueError):
            return None

    def bytes_of(self, path: Path) -> bytes:
        return read_bounded(path, MAX_BYTES)

    def json(self, node: Node) -> bytes:
        """A part of the file as a document of its own."""
        return msgspec.json.encode(node.plain())
