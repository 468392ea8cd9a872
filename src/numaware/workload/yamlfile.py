"""YAML and JSON as Kubernetes reads them, with the line of every value.

Two things set this apart from a plain YAML loader. Scalars mean what they mean to kubectl and the kubelet (go-yaml,
then JSON), not to Python: `010` is eight, `1:30` is text, `y` is true. And the input is a stranger's: its size, its
nesting and what its aliases expand to are bounded, and everything wrong with it is one `InputError` with a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence

MAX_BYTES = 16 << 20
MAX_DEPTH = 100
# A value costs some 250 bytes of memory, however few it has in the file.
MAX_VALUES = 500_000
# Values that aliases (`*base`, `<<: *base`) may repeat in one file, counted as if each had been written out: whoever walks
# the file walks them as often. Real files repeat some hundreds.
MAX_REPEATED = 50_000

Scalar = str | int | float | bool | None

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAMED: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
# strconv.ParseInt with base 0, after go-yaml has dropped all underscores.
_INTEGER = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F]{1,16})|0[bB]([01]{1,64})|0[oO]?([0-7]{1,22})|([1-9][0-9]{0,19}|0))"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,5})?")
_STRING_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary", "!")
_CORE_TAG = "tag:yaml.org,2002:"
_CALL_OUT = re.compile(r"<[0-9]{1,2}>\s*\Z")
# JSON writes characters beyond the basic plane as two escapes, which YAML has no notion of.
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class Node:
    """One value of a document and the line (from 1) on which it starts."""

    __slots__ = ("line", "value")

    def __init__(self, value: Value, line: int) -> None:
        self.value = value
        self.line = line

    @property
    def mapping(self) -> dict[str, Node]:
        """The members of a mapping; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Node]:
        """The members of a list; none for anything else."""
        return self.value if isinstance(self.value, list) else []

    @property
    def text(self) -> str | None:
        """The value if it is text."""
        return self.value if isinstance(self.value, str) else None

    def get(self, *keys: str) -> Node:
        """Follow keys through nested mappings; a missing value is a null on the line where it would belong."""
        node = self
        for key in keys:
            node = node.mapping.get(key) or Node(None, node.line)
        return node

    def plain(self, known: dict[int, Any] | None = None) -> Any:
        """The value without its lines, as a JSON decoder has it; what an alias repeats is there once and shared."""
        known = {} if known is None else known
        if id(self) not in known:
            value = self.value
            if isinstance(value, dict):
                known[id(self)] = {key: member.plain(known) for key, member in value.items()}
            elif isinstance(value, list):
                known[id(self)] = [item.plain(known) for item in value]
            else:
                return value
        return known[id(self)]

    @property
    def kind(self) -> str:
        """What it is, in the words of Go's JSON errors."""
        match self.value:
            case dict():
                return "object"
            case list():
                return "array"
            case str():
                return "string"
            case bool():
                return "bool"
            case None:
                return "null"
            case _:
                return "number"


Value = dict[str, Node] | list[Node] | Scalar


def documents(data: bytes, source: str) -> list[Node]:
    """All documents of a YAML stream or JSON text, empty ones as nulls so that their positions count."""
    return list(_Builder(_decoded(data, source), source).documents())


def _decoded(data: bytes, source: str) -> str:
    if len(data) > MAX_BYTES:
        size = Sentence("larger than {most} MiB", most=MAX_BYTES >> 20)
        raise InputError(source, size, hint=Sentence("split the file"))
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}", Sentence("is not UTF-8 text")) from None
    if text.lstrip()[:1] in ("{", "[") and "\\u" in text:
        text = _SURROGATES.sub(_joined, text)
    return text


def _joined(match: re.Match[str]) -> str:
    high, low = int(match[2], 16), int(match[3], 16)
    return f"{match[1]}{chr(0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF))}"


class _Open:
    """A mapping or list whose end has not come yet; in a mapping `key` waits for its value."""

    __slots__ = ("anchor", "begin", "key", "merges", "node")

    def __init__(self, node: Node, anchor: str | None, begin: int) -> None:
        self.node = node
        self.anchor = anchor
        # How many values there were before it, written out.
        self.begin = begin
        self.key: Node | None = None
        self.merges: list[Node] = []


class _Builder:
    """Builds documents from parser events, so that no input can make Python recurse or expand an alias twice."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        # Each with the number of values it stands for.
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.values = 0
        self.repeated = 0

    def documents(self) -> Iterator[Node]:
        stack: list[_Open] = []
        root = Node(None, 1)
        for event in self._events():
            line = event.start_mark.line + 1
            if isinstance(event, yaml.ScalarEvent):
                node, anchor, begin = Node(_scalar(event), line), event.anchor, self._written_out()
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                if len(stack) == MAX_DEPTH:
                    raise self.error(line, Sentence("nested more than {most} levels deep", most=MAX_DEPTH))
                empty: dict[str, Node] | list[Node] = {} if isinstance(event, yaml.MappingStartEvent) else []
                stack.append(_Open(Node(empty, line), event.anchor, self._written_out()))
                continue
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                ended = stack.pop()
                node, anchor, begin = ended.node, ended.anchor, ended.begin
                for merge in ended.merges:
                    self._merge(node, merge)
            elif isinstance(event, yaml.AliasEvent):
                node, anchor, begin = self._aliased(event.anchor or "", line), None, 0
            elif isinstance(event, yaml.DocumentStartEvent):
                self.anchors = {}
                root = Node(None, line)
                continue
            elif isinstance(event, yaml.DocumentEndEvent):
                yield root
                continue
            else:
                continue
            self.values += 1
            if self.values > MAX_VALUES:
                problem = Sentence("holds more than {most} values", most=MAX_VALUES)
                raise self.error(line, problem, hint=Sentence("split the file"))
            if anchor:
                self.anchors[anchor] = node, self._written_out() - begin
            if not stack:
                root = node
            else:
                self._add(stack[-1], node, is_merge=_is_merge(event))

    def _events(self) -> Iterator[Any]:
        try:
            yield from yaml.parse(self.text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            lines = self.text.splitlines() or [""]
            line = min(error.problem_mark.line + 1 if error.problem_mark else 1, len(lines))
            raise self.error(line, _why(error, lines[line - 1])) from None
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            raise self.error(
                line, Sentence("holds a character that YAML forbids ({reason})", reason=error.reason)
            ) from None
        except (ValueError, OverflowError) as error:
            # PyYAML lets an impossible escape or version directive through as Python's own error.
            raise self.error(1, Sentence("not YAML: {problem}", problem=str(error))) from None

    def _aliased(self, name: str, line: int) -> Node:
        if name not in self.anchors:
            problem = Sentence("*{name} refers to no anchor before it", name=printable(name, 40))
            raise self.error(line, problem)
        node, values = self.anchors[name]
        self.repeated += values - 1
        if self.repeated > MAX_REPEATED:
            problem = Sentence("aliases repeat more than {most} values", most=MAX_REPEATED)
            raise self.error(line, problem, hint=Sentence("write them out, or split the file"))
        return node

    def _written_out(self) -> int:
        """Values so far, as many as there would be without aliases."""
        return self.values + self.repeated

    def _add(self, parent: _Open, node: Node, *, is_merge: bool) -> None:
        """Put a finished value where it belongs: into the list, or in a mapping as key and value in turn."""
        members = parent.node.value
        if isinstance(members, list):
            members.append(node)
        elif parent.key is None:
            parent.key = _MERGE if is_merge else node
        elif isinstance(members, dict):
            key_node, parent.key = parent.key, None
            if key_node is _MERGE:
                parent.merges.append(node)
                return
            key = _key(key_node)
            if key is None:
                kind = Sentence("a mapping key is {kind}; Kubernetes takes only text", kind=key_node.kind)
                raise self.error(key_node.line, kind)
            if key in members:
                twice = Sentence("key {key!r} is set twice in one mapping", key=printable(key, 60))
                raise self.error(key_node.line, twice)
            members[key] = node

    def _merge(self, node: Node, given: Node) -> None:
        """Fill a mapping up from `<<`: its own keys win, then the first source that has the key."""
        for source in given.items if isinstance(given.value, list) else [given]:
            if not isinstance(source.value, dict):
                raise self.error(given.line, Sentence("<< merges something that is not a mapping"))
            for key, value in source.value.items():
                node.mapping.setdefault(key, value)

    def error(self, line: int, problem: Sentence, hint: Sentence | str = "") -> InputError:
        return InputError(f"{self.source}:{line}", problem, hint=hint, line=line)


# Stands for the key `<<`, which quoted is a key like any other.
_MERGE = Node("<<", 0)


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]


def _why(error: yaml.MarkedYAMLError, line: str) -> Sentence:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return Sentence("a tab is used for indentation; YAML takes only blanks")
    if _CALL_OUT.search(line):
        return Sentence("not YAML: the line ends in a call-out mark such as <1>, copied from a manual")
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    return Sentence("not YAML: {problem}", problem=problem)


def _key(node: Node) -> str | None:
    """A mapping key as JSON has it: numbers and booleans turn into text."""
    match node.value:
        case str(text):
            return text
        case bool(value):
            return "true" if value else "false"
        case int() | float():
            return str(node.value)
        case _:
            return None


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    plain = event.implicit[0]
    tag = event.tag or ""
    if (tag in _STRING_TAGS or not tag.startswith(_CORE_TAG)) and not plain:
        return event.value
    return resolve(event.value)


def resolve(text: str) -> Scalar:
    """What an unquoted scalar is to go-yaml: null, a boolean, a number, or the text itself."""
    if text in _NAMED:
        return _NAMED[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer:
        sign, hexadecimal, binary, octal, decimal = integer.groups()
        digits, base = next(
            (d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if d
        )
        number = int(f"{sign}{digits}", base)
        if -(1 << 63) <= number < 1 << 64:
            return number
    if len(plain) <= 400 and _FLOAT.fullmatch(plain):
        number_with_point = float(plain)
        if abs(number_with_point) != float("inf"):
            return number_with_point
    return text
