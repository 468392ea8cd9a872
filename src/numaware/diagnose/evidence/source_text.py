"""A file as somebody wrote it: the line that a finding points at, and the part of it that matters.

Fields are looked up in the text itself, not in what a parser made of it, so that one way serves YAML, JSON, a
configuration quoted inside another document, and flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from numaware.diagnose.finding import Evidence, Message

# As YAML counts lines; `str.splitlines` knows more ends than that.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")
_ONE_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|[^,{}\[\]]+")
_COMMENT = re.compile(r"\s+#.*")
_LONGEST = 400
_BEFORE = 100
# Settings whose flag is not called like the field.
_FLAGS = {"reservedSystemCPUs": "reserved-cpus"}


class SourceText:
    """The lines of one file."""

    def __init__(self, data: bytes, source: str) -> None:
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        self.file = source
        self.lines = _LINE_END.split(data.decode(encoding, errors="replace"))

    def at(self, line: int, mark: str = "", key: str = "", label: Message | None = None) -> Evidence:
        """A line by its number; without a mark, the value of the key, or else all that is set there, matters."""
        if not 1 <= line <= len(self.lines):
            return Evidence(self.file)
        text = self.lines[line - 1].rstrip()
        match = _pattern(key).search(text) if key else None
        return _evidence(self.file, line, text, mark or _value(text, match.end() if match else 0), label)

    def whole(self) -> Evidence:
        """The file, where no line of it is to blame."""
        return Evidence(self.file)

    def field(self, *keys: str, label: Message | None = None) -> Evidence:
        """The last place of the first key, and from there on the way down to the last key that is written at all."""
        reached = None
        for key in keys:
            last = None
            for place in self._places(key, 0 if reached is None else reached[0] + 1):
                last = place
                if reached is not None:
                    break
            if last is None:
                break
            reached = last
        if reached is None:
            return self.whole()
        number, match = reached
        text = self.lines[number].rstrip()
        return _evidence(self.file, number + 1, text, _value(text, match.end()) or match["key"], label)

    def _places(self, key: str, begin: int) -> Iterator[tuple[int, re.Match[str]]]:
        """The lines that have the key, from one on; as text first, which is quick, then exactly."""
        pattern, flag = _pattern(key), _flag(key)
        for number in range(begin, len(self.lines)):
            line = self.lines[number]
            if (key in line or flag in line) and (match := pattern.search(line)):
                yield number, match


def _flag(key: str) -> str:
    return _FLAGS.get(key, _CAPITAL.sub(r"-\1", key).lower())


@lru_cache(maxsize=256)
def _pattern(key: str) -> re.Pattern[str]:
    name, flag = re.escape(key), re.escape(_flag(key))
    return re.compile(rf"(?<![\w.-])[\"']?(?P<key>{name}|--{flag})[\"']?(?:\s*[:=<]|\s+|$)")


def _value(text: str, begin: int) -> str:
    """What stands after a key: of a mapping on one line only the one value, without remarks and the commas of JSON."""
    rest = _COMMENT.sub("", text[begin : begin + _LONGEST])
    if not begin:
        return (rest.partition(": ")[2] or rest).strip().rstrip(",").rstrip()
    rest = rest.strip()
    if "{" in text[:begin] and (match := _ONE_VALUE.match(rest)):
        return match[0].rstrip()
    return rest.rstrip(",").rstrip()


def _evidence(file: str, line: int, text: str, mark: str, label: Message | None) -> Evidence:
    if len(text) > _LONGEST:
        mark = mark[:_BEFORE]
        begin = max(0, text.find(mark) - _BEFORE)
        text = text[begin : begin + _LONGEST]
    return Evidence(file, line, text, mark.strip() if mark.strip() in text else "", label)
