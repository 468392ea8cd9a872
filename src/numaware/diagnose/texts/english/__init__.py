"""Findings in English."""

from __future__ import annotations

from numaware.diagnose.texts.english import advice, fine, lint, refusals, startup
from numaware.diagnose.texts.english.labels import LABELS
from numaware.diagnose.texts.english.words import SPECS

__all__ = ["LABELS", "SPECS", "TEXTS"]

TEXTS = {**refusals.TEXTS, **startup.TEXTS, **advice.TEXTS, **fine.TEXTS, **lint.TEXTS}
