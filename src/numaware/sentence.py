"""Sentences of ours as values: English with named holes, and what fills them.

Whoever finds something wrong is far from any reader, and does not know the reader's language. So what is raised or handed on
is a `Sentence`: `str` of it is the English, and `diagnose.texts.say` finds another language under its template and fills
the same facts in. Words of others (an API server's, a kubelet's, a parser's) are facts, or plain `str`: they are quoted.
"""

from __future__ import annotations

from typing import Any


class Sentence:
    """A template and its facts; a fact may be a sentence in its turn. Facts are filled in and never read as templates."""

    __slots__ = ("facts", "template")

    def __init__(self, template: str = "", /, **facts: Any) -> None:
        self.template = template
        self.facts = facts

    def __str__(self) -> str:
        return self.template.format_map(self.facts)

    def __repr__(self) -> str:
        return f"Sentence({self.template!r}, {self.facts!r})"

    def __bool__(self) -> bool:
        return bool(self.template)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sentence) and (self.template, self.facts) == (other.template, other.facts)

    def __hash__(self) -> int:
        return hash(self.template)


def quoted(text: str) -> Sentence:
    """What somebody else said, where a sentence has to be."""
    return Sentence("{text}", text=text) if text else Sentence()


def sentence_of(error: Exception) -> Sentence | str:
    """What an error says: the sentence it was raised with, or else its text."""
    said = error.args[0] if error.args else ""
    return said if isinstance(said, Sentence) else str(error)
