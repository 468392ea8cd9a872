"""One thing wrong, or worth a word, in what a person wrote."""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.sentence import Sentence

# What a rule has to tell apart; most problems are only shown.
Code = Literal["", "missing", "not-text", "newer-field", "no-effect", "bad-name", "fraction-of-a-byte"]


class Problem(msgspec.Struct, frozen=True):
    """Where it is and what it is: an `error` is what Kubernetes itself would refuse, a `note` what it lets pass.

    `path` names the field as the API server does (`spec.containers[0].resources.limits[cpu]`); `line` counts from 1,
    and is 0 where the input has no lines. Rules go by `code`, never by the text; `near` is the field that was likely meant.
    """

    severity: Literal["error", "note"]
    path: str
    text: Sentence | str
    line: int = 0
    code: Code = ""
    near: str = ""

    def __str__(self) -> str:
        return str(self.sentence)

    @property
    def sentence(self) -> Sentence | str:
        """The text with the field it is about."""
        return Sentence("{path}: {text}", path=self.path, text=self.text) if self.path else self.text
