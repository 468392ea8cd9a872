"""Fields of a manifest by the type the API says they have; what has another type, or is not allowed, is a problem.

Readers of pods (`podspec`, `schedulingspec`, `affinityspec`) go from `Field` to `Field`; problems and lines gather in the
one `PodReading` that all fields of a pod share. A file may repeat one list in many places by an alias, so what one pod reads
is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.workload.problem import Code, Problem
from numaware.workload.requirements import LABEL_VALUE, QUALIFIED
from numaware.workload.scheduling import Labels
from numaware.workload.yamlfile import Node, Value

# Entries of lists and mappings that one pod's scheduling may have; real pods have some dozens.
MAX_ENTRIES = 2000

_Choice = TypeVar("_Choice", bound=str)
_INT32 = range(-(1 << 31), 1 << 31)


class PodReading:
    """What reading one pod leaves besides the pod: what is wrong, and the lines of fields that are talked about later."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}
        self.entries_left = MAX_ENTRIES

    @property
    def refused(self) -> bool:
        """Whether Kubernetes would not take the pod."""
        return any(problem.severity == "error" for problem in self.problems)

    def refuse(self, path: str, text: str) -> None:
        """An error at a path: on its line, or on that of the nearest field around it."""
        known = path
        while known not in self.lines and "." in known:
            known = known.rsplit("[", 1)[0] if known.endswith("]") else known.rsplit(".", 1)[0]
        self.problems.append(Problem("error", path, text, self.lines.get(known, 0)))


class Field:
    """A value and its path as the API server writes it; a value that cannot be used is read as if it were not there."""

    __slots__ = ("node", "path", "reading")

    def __init__(self, node: Node, path: str, reading: PodReading) -> None:
        self.node = node
        self.path = path
        self.reading = reading

    @property
    def value(self) -> Value:
        return self.node.value

    def get(self, key: str) -> Field:
        node = self.node.mapping.get(key) or Node(None, self.node.line)
        return Field(node, f"{self.path}.{key}" if self.path else key, self.reading)

    def expect(self, key: str) -> Field:
        """A field that has to be there."""
        field = self.get(key)
        if field.value is None:
            self.error("Required value", key)
        return field

    def located(self) -> Field:
        """The same, with its line kept."""
        self.reading.lines[self.path] = self.node.line
        return self

    def text(self) -> str:
        if self.value is not None and self.node.text is None:
            self.error(Sentence("expected text, got a JSON {kind}; put it in quotes", kind=self.node.kind))
        return self.node.text or ""

    def required(self) -> str:
        text = self.text()
        if self.value in (None, ""):
            self.error("Required value")
        return text

    def choice(self, choices: tuple[_Choice, ...], default: _Choice) -> _Choice:
        for choice in choices:
            if self.value == choice:
                return choice
        text = self.text()
        if self.node.text is not None:
            supported = ", ".join(f'"{choice}"' for choice in choices)
            self.error(f'Unsupported value: "{printable(text, 80)}": supported values: {supported}')
        return default

    def number(self, least: int | None = None, most: int | None = None) -> int | None:
        """A whole number; None where there is none."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INT32:
            self.error(Sentence("expected a whole number, got {value}", value=printable(str(value), 40)))
            return None
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = f"greater than or equal to {least}" if most is None else f"in the range {least}-{most}"
            self.error(f"Invalid value: {value}: must be {bounds}")
            return None
        return value

    def flag(self) -> bool:
        if self.value is not None and not isinstance(self.value, bool):
            self.error(Sentence("expected true or false, got a JSON {kind}", kind=self.node.kind))
        return self.value is True

    def items(self) -> Iterator[Field]:
        """The members of a list, however many; none for anything else."""
        for index, item in enumerate(self.node.items):
            yield Field(item, f"{self.path}[{index}]", self.reading)

    def entries(self) -> Iterator[Field]:
        """The members of what has to be a list, as far as a pod may have them."""
        if self.value is not None and not isinstance(self.value, list):
            self.error(Sentence("expected a list, got a JSON {kind}", kind=self.node.kind))
        if self._may_read(len(self.node.items)):
            yield from self.items()

    def texts(self) -> tuple[str, ...]:
        return tuple(item.text() for item in self.entries())

    def mapping(self) -> Iterator[tuple[str, Field]]:
        """The members of a mapping, however many; none for anything else."""
        for key, value in self.node.mapping.items():
            yield key, Field(value, f"{self.path}[{printable(key, 80)}]", self.reading)

    def members(self) -> Iterator[tuple[str, Field]]:
        """The members of what has to be a mapping, as far as a pod may have them."""
        self.expect_mapping()
        if self._may_read(len(self.node.mapping)):
            yield from self.mapping()

    def labels(self) -> Labels:
        """A mapping of labels, ascending by key."""
        labels = [(key, value.text(), value) for key, value in self.members()]
        for key, text, value in labels:
            value.check_label_key(key)
            if not LABEL_VALUE.fullmatch(text):
                value.error(
                    f'Invalid value: "{printable(text, 80)}": a label has at most 63 letters, digits, "-", "_" and ".", '
                    "and begins and ends with a letter or digit",
                )
        return tuple(sorted((key, text) for key, text, _ in labels))

    def check_label_key(self, key: str, below: str = "") -> None:
        if not QUALIFIED.fullmatch(key):
            shown = printable(key, 80)
            self.error(f'Invalid value: "{shown}": must be a name such as example.com/name', below)

    def expect_mapping(self) -> None:
        if self.value is not None and not isinstance(self.value, dict):
            self.error(Sentence("expected a mapping, got a JSON {kind}", kind=self.node.kind))

    def error(self, text: Sentence | str, below: str = "") -> None:
        """Kubernetes would refuse this field, or the one `below` it, on the line of this."""
        self.reading.problems.append(Problem("error", self._below(below), text, self.node.line))

    def note(self, text: Sentence | str, code: Code = "", near: str = "") -> None:
        self.reading.problems.append(Problem("note", self.path, text, self.node.line, code, near))

    def _below(self, path: str) -> str:
        return f"{self.path}.{path}" if self.path and path else self.path or path

    def _may_read(self, number: int) -> bool:
        reading = self.reading
        if number > reading.entries_left >= 0:
            self.error(f"Too many: labels, rules and ports of a pod have at most {MAX_ENTRIES} entries")
        reading.entries_left -= number
        return reading.entries_left >= 0
