"""Structured klog text: a quoted message, then `key=value` pairs whose values may be quoted, JSON, Go or bare.

A hand-written scanner, since a value can hold anything and a regular expression for all of it can be made to take
forever: every character is looked at once.
"""

from __future__ import annotations

_OPEN, _CLOSE = "[{(", "]})"
MOST_PAIRS = 64


def split(text: str) -> tuple[str, dict[str, str]]:
    """The message and the values by key, quotes and escapes removed; text without the form is all message."""
    if not text.startswith('"'):
        return text, {}
    message, at = _quoted(text, 0)
    pairs: dict[str, str] = {}
    while at < len(text) and len(pairs) < MOST_PAIRS:
        equals = text.find("=", at)
        if equals < 0:
            break
        key = text[at:equals].strip()
        value, at = _value(text, equals + 1)
        if key and " " not in key:
            pairs[key] = value
    return message, pairs


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
    end = at
    while end < len(text) and text[end] != " ":
        end += 1
    return text[at:end], end


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The content of a Go-quoted string and where it ends; one that was cut off ends with the text."""
    parts: list[str] = []
    index = at + 1
    while index < len(text):
        letter = text[index]
        if letter == '"':
            return "".join(parts), index + 1
        if letter == "\\" and index + 1 < len(text):
            index += 1
            letter = {"n": "\n", "t": "\t", "r": "\r"}.get(text[index], text[index])
        parts.append(letter)
        index += 1
    return "".join(parts), len(text)


def _balanced(text: str, at: int) -> tuple[str, int]:
    depth, index, quoted = 0, at, False
    while index < len(text):
        letter = text[index]
        if quoted:
            if letter == "\\":
                index += 1
            elif letter == '"':
                quoted = False
        elif letter == '"':
            quoted = True
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
            if depth == 0:
                return text[at : index + 1], index + 1
        index += 1
    return text[at:], len(text)
