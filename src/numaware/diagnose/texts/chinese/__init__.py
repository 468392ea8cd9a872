"""Findings in Chinese; what is missing here is told in English."""

from __future__ import annotations

from numaware.diagnose.texts.chinese import (
    console,
    doctor,
    explain,
    inputs,
    labels,
    lint,
    recommend,
    refusals,
    scheduling,
    startup,
    views,
)
from numaware.diagnose.texts.chinese.words import SPECS as WORDS

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
SENTENCES = {**inputs.SENTENCES, **console.SENTENCES}
SPECS = {**WORDS, **explain.SPECS, **scheduling.SPECS, **views.SPECS}
TEXTS = {**refusals.TEXTS, **startup.TEXTS, **lint.TEXTS, **doctor.TEXTS}
