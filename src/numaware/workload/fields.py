"""Fields of a manifest by the type the API says they have; what has another type, or is not allowed, is a problem.

A file may repeat one list in many places by an alias, so what one pod reads is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.workload.problem import Problem
from numaware.workload.requirements import QUALIFIED
from numaware.workload.scheduling import Labels
from numaware.workload.yamlfile import Node

# Entries of lists and mappings that one pod's scheduling may have; real pods have some dozens.
MAX_ENTRIES = 2000

_Choice = TypeVar("_Choice", bound=str)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INT32 = range(-(1 << 31), 1 << 31)


class Fields:
    """Reads values and collects problems; a value that cannot be used is read as if it were not there."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._left = MAX_ENTRIES

    def text(self, node: Node, path: str) -> str:
        if node.value is None:
            return ""
        if node.text is None:
            self.error(
                node, path, Sentence("expected text, got a JSON {kind}; put it in quotes", kind=node.kind)
            )
        return node.text or ""

    def required(self, node: Node, path: str) -> str:
        text = self.text(node, path)
        if node.value in (None, ""):
            self.error(node, path, "Required value")
        return text

    def expect(self, item: Node, field: str, path: str) -> Node:
        """A field of an item that has to be there."""
        if item.get(field).value is None:
            self.error(item, f"{path}.{field}", "Required value")
        return item.get(field)

    def choice(self, node: Node, path: str, choices: tuple[_Choice, ...], default: _Choice) -> _Choice:
        if node.value is None:
            return default
        for choice in choices:
            if node.value == choice:
                return choice
        text = self.text(node, path)
        if node.text is not None:
            supported = ", ".join(f'"{choice}"' for choice in choices)
            self.error(
                node, path, f'Unsupported value: "{printable(text, 80)}": supported values: {supported}'
            )
        return default

    def number(self, node: Node, path: str, least: int | None = None, most: int | None = None) -> int | None:
        """A whole number; None where there is none."""
        value = node.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INT32:
            shown = printable(str(value), 40)
            self.error(node, path, Sentence("expected a whole number, got {value}", value=shown))
            return None
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = f"greater than or equal to {least}" if most is None else f"in the range {least}-{most}"
            self.error(node, path, f"Invalid value: {value}: must be {bounds}")
            return None
        return value

    def flag(self, node: Node, path: str) -> bool:
        if node.value is not None and not isinstance(node.value, bool):
            self.error(node, path, Sentence("expected true or false, got a JSON {kind}", kind=node.kind))
        return node.value is True

    def entries(self, node: Node, path: str) -> Iterator[tuple[Node, str]]:
        """The members of a list, each with its path."""
        if node.value is not None and not isinstance(node.value, list):
            self.error(node, path, Sentence("expected a list, got a JSON {kind}", kind=node.kind))
        if self._may_read(node, path, len(node.items)):
            for index, item in enumerate(node.items):
                yield item, f"{path}[{index}]"

    def texts(self, node: Node, path: str) -> tuple[str, ...]:
        return tuple(self.text(item, where) for item, where in self.entries(node, path))

    def members(self, node: Node, path: str) -> Iterator[tuple[str, Node, str]]:
        """The members of a mapping: key, value and path."""
        self.expect_mapping(node, path)
        if self._may_read(node, path, len(node.mapping)):
            for key, value in node.mapping.items():
                yield key, value, f"{path}[{printable(key, 80)}]"

    def labels(self, node: Node, path: str) -> Labels:
        """A mapping of labels, ascending by key."""
        labels = {key: self.text(value, where) for key, value, where in self.members(node, path)}
        for key, value in labels.items():
            where = f"{path}[{printable(key, 80)}]"
            self.label_key(node.get(key), where, key)
            self.label_value(node.get(key), where, value)
        return tuple(sorted(labels.items()))

    def label_key(self, node: Node, path: str, key: str) -> None:
        if not QUALIFIED.fullmatch(key):
            self.error(
                node, path, f'Invalid value: "{printable(key, 80)}": must be a name such as example.com/name'
            )

    def label_value(self, node: Node, path: str, value: str) -> None:
        if not _LABEL_VALUE.fullmatch(value):
            self.error(
                node,
                path,
                f'Invalid value: "{printable(value, 80)}": a label has at most 63 letters, digits, "-", "_" and ".", '
                "and begins and ends with a letter or digit",
            )

    def expect_mapping(self, node: Node, path: str) -> None:
        if node.value is not None and not isinstance(node.value, dict):
            self.error(node, path, Sentence("expected a mapping, got a JSON {kind}", kind=node.kind))

    def error(self, node: Node, path: str, text: Sentence | str) -> None:
        self._problems.append(Problem("error", path, text, node.line))

    def _may_read(self, node: Node, path: str, number: int) -> bool:
        if number > self._left >= 0:
            self.error(
                node, path, f"Too many: labels, rules and ports of a pod have at most {MAX_ENTRIES} entries"
            )
        self._left -= number
        return self._left >= 0
