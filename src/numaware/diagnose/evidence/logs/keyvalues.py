"""Structured klog text: a quoted message, then `key=value` pairs whose values may be quoted, JSON, Go or bare.

A hand-written scanner, since a value can hold anything and a regular expression for all of it can be made to take
forever: every character is looked at once.
"""

from __future__ import annotations

import json
import re
from typing import Any

_OPEN = "[{("
MOST_PAIRS = 64


def message(text: str) -> tuple[str, str]:
    """The message and the rest; text that does not begin with a quote is all message."""
    if not text.startswith('"'):
        return text, ""
    quoted, at = _quoted(text, 0)
    return quoted, text[at:]


def pairs(text: str) -> dict[str, str]:
    """The values by key, quotes and escapes removed."""
    values: dict[str, str] = {}
    at = 0
    while at < len(text) and len(values) < MOST_PAIRS:
        equals = text.find("=", at)
        if equals < 0:
            break
        key = text[at:equals].strip()
        value, at = _value(text, equals + 1)
        if key and " " not in key:
            values[key] = value
    return values


def parsed_json(text: object) -> Any:
    """The JSON in a text; what is no text is taken as it is, and what is not JSON is None."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _value(text: str, at: int) -> tuple[str, int]:
    if at >= len(text):
        return "", at
    first = text[at]
    if first == '"':
        return _quoted(text, at)
    if first == "<":
        # A value of several lines, closed by ` >`; `<nil>` is one word.
        end = text.find(">", at)
        end = len(text) if end < 0 else end
        return text[at + 1 : end].strip() if " " in text[at:end] else text[at : end + 1], end + 1
    if first in _OPEN or text.startswith("map[", at):
        return _balanced(text, at)
    end = text.find(" ", at)
    end = len(text) if end < 0 else end
    return text[at:end], end


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The content of a Go-quoted string and where it ends; one that was cut off ends with the text."""
    end = at + 1
    while True:
        end = text.find('"', end)
        if end < 0:
            return _unescaped(text[at + 1 :]), len(text)
        before = end - 1
        while text[before] == "\\":
            before -= 1
        if (end - before) % 2:
            return _unescaped(text[at + 1 : end]), end + 1
        end += 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
# What matters for nesting: brackets, and quotes, which may hold anything.
_NESTING = re.compile(r'["\[\](){}]')


def _balanced(text: str, at: int) -> tuple[str, int]:
    depth, index = 0, at
    while match := _NESTING.search(text, index):
        letter, index = match[0], match.end()
        if letter == '"':
            index = _quoted(text, match.start())[1]
        elif letter in _OPEN:
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return text[at:index], index
    return text[at:], len(text)
