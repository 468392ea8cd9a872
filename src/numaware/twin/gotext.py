"""How Go reads and prints the few things that end up in the kubelet's own messages.

The kubelet's errors quote a user's text with `%q`, print maps with `%v` and carry the words of `strconv`; a message
is only recognised (by a person, by a log search) when it is the same to the letter.
"""

from __future__ import annotations

from collections.abc import Iterable

from numaware.machine.cpuset import MAX_ID

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """`%q`: in double quotes, what does not print as an escape."""
    return f'"{"".join(map(_letter, text))}"'


def listed(texts: Iterable[str]) -> str:
    """`%q` of a list of strings."""
    return f"[{' '.join(map(quoted, texts))}]"


def map_text(pairs: Iterable[tuple[str, str]]) -> str:
    """`%v` of a map: sorted keys, nothing quoted."""
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(pairs))}]"


def parse_bool(text: str) -> bool:
    """`strconv.ParseBool`; a ValueError carries Go's message."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")


def parse_int(text: str) -> int:
    """`strconv.Atoi`; a ValueError carries Go's message."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    # A number of twenty and more significant digits is out of any range; Python need not convert a megabyte of them.
    significant = digits.lstrip("0")
    number = int(f"{text[0] if digits != text else ''}{significant[:20] or '0'}")
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return number


def cpu_list_problem(text: str) -> str:
    """Why the kubelet cannot read a CPU list, or nothing: unlike the kernel it takes neither blanks nor strides."""
    try:
        for part in text.split(",") if text else ():
            low, dash, high = part.partition("-")
            first = parse_int(low)
            last = parse_int(high) if dash else first
            if first > last:
                return f"invalid range {quoted(part)} ({first} > {last})"
            if last > MAX_ID or first < 0:
                return f"CPU {last if last > MAX_ID else first} is beyond the CPUs of any machine"
    except ValueError as error:
        return str(error)
    return ""


def _letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
