"""Findings in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.english import (
    doctor,
    explain,
    labels,
    lint,
    recommend,
    refusals,
    scheduling,
    startup,
    views,
)
from numaware.diagnose.texts.english.words import SPECS as WORDS

__all__ = ["LABELS", "REASONS", "SENTENCES", "SPECS", "TEXTS"]

LABELS = {
    **labels.LABELS,
    **recommend.LABELS,
    **doctor.LABELS,
    **explain.LABELS,
    **scheduling.LABELS,
    **views.LABELS,
}
REASONS = scheduling.REASONS
# A sentence brings its English with it.
SENTENCES: Mapping[str, str] = {}
SPECS = {**WORDS, **explain.SPECS, **scheduling.SPECS, **views.SPECS}
TEXTS = {**refusals.TEXTS, **startup.TEXTS, **lint.TEXTS, **doctor.TEXTS}
