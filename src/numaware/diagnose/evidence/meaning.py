"""What a sentence of the kubelet means (a code and facts), and how tables of such sentences are written and searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

# No sentence is longer, and a search through megabytes of somebody's log line would take its time.
_LONGEST = 8_192


class Meaning(NamedTuple):
    """A code, the variant of its text, the facts that the sentence holds, and the sentence."""

    code: str
    variant: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})
    quote: str = ""


# Groups that are counted with; all others are quoted.
_NUMBERS = frozenset({"requested", "available", "threads", "missing", "most"})

Reader = Callable[[re.Match[str]], Meaning]
Table = tuple[tuple[re.Pattern[str], Reader], ...]


def first_of(table: Table, message: str) -> Meaning | None:
    """The meaning of the first row whose sentence is in the message."""
    for pattern, reader in table:
        match = pattern.search(message[:_LONGEST])
        if match:
            return reader(match)._replace(quote=match[0])
    return None


def fixed(code: str, variant: str = "", **facts: Any) -> Reader:
    return lambda _: Meaning(code, variant, dict(facts))


def quoting(code: str, variant: str = "", **groups: int) -> Reader:
    """The whole sentence as `message`, and some of its groups by name."""

    def meaning(match: re.Match[str]) -> Meaning:
        facts = {name: match[group] for name, group in groups.items()}
        return Meaning(code, variant, {**facts, "message": match[0].strip()})

    return meaning


def taking(code: str, variant: str = "", **facts: Any) -> Reader:
    """The groups of the pattern by their names, and facts that go without saying."""

    def meaning(match: re.Match[str]) -> Meaning:
        groups = {name: text for name, text in match.groupdict().items() if text is not None}
        numbers = {name: int(groups[name]) for name in groups.keys() & _NUMBERS}
        return Meaning(code, variant, {**groups, **numbers, **facts})

    return meaning


def table(*rows: tuple[str, Reader]) -> Table:
    """Patterns and their readers, the more telling ones first."""
    return tuple((re.compile(pattern), meaning) for pattern, meaning in rows)
