"""Findings in Chinese; what is missing here is told in English."""

from __future__ import annotations

from numaware.diagnose.texts.chinese import advice, lint
from numaware.diagnose.texts.chinese.labels import LABELS
from numaware.diagnose.texts.chinese.words import SPECS

__all__ = ["LABELS", "SPECS", "TEXTS"]

TEXTS = {**advice.TEXTS, **lint.TEXTS}
