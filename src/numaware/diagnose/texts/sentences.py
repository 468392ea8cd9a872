"""English sentences that are found again as they were said, to be told in another language.

What is wrong with an input, or goes wrong on the way, is raised in English wherever that happens, far from any reader.
The English sentence is then the key under which the other language has it. `{}` in a key is whatever stands there: a
name, a number, or a sentence that is told in its turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property

# No sentence of ours is longer, and nobody should wait for a search through somebody's megabytes.
_LONGEST = 4_000


class Sentences:
    """A table of sentences; those with more words of their own are tried first."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = table

    def told(self, text: str, retell: Callable[[str], str]) -> str:
        """The sentence in the language of the table, empty if it is not there; `retell` is for what is in its holes."""
        if len(text) > _LONGEST:
            return ""
        if text in self.table:
            return self.table[text]
        for pattern, template in self._patterns:
            if match := pattern.fullmatch(text):
                return template.format(*map(retell, match.groups()))
        return ""

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        holed = [key for key in self.table if "{}" in key]
        holed.sort(key=lambda key: (-len(key.replace("{}", "")), key))
        return [
            (re.compile("(.+?)".join(map(re.escape, key.split("{}"))), re.DOTALL), self.table[key])
            for key in holed
        ]
