"""Explanations in English, to be compared with what people read."""

from __future__ import annotations

from typing import NamedTuple

from numaware.diagnose.explain.causes import Cause
from numaware.diagnose.explain.explanation import Explanation
from numaware.diagnose.texts import say


class CauseInWords(NamedTuple):
    resource: str
    wants: tuple[tuple[int, ...], ...]
    blocked_by: tuple[str, ...]
    text: str


def cause_in_words(cause: Cause) -> CauseInWords:
    return CauseInWords(cause.resource, cause.wants, tuple(map(say, cause.blocked_by)), say(cause.text))


def causes_of(explanation: Explanation) -> list[CauseInWords]:
    return [cause_in_words(cause) for cause in explanation.why]


def warnings_of(explanation: Explanation) -> tuple[str, ...]:
    return tuple(map(say, explanation.warnings))


def changes_of(explanation: Explanation) -> list[str]:
    return [say(change.text) for change in explanation.changes]
