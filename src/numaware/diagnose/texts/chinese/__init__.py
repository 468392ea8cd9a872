"""Findings in Chinese; what is missing here is told in English."""

from __future__ import annotations

from numaware.diagnose.texts.chinese import advice, doctor, labels, lint, recommend
from numaware.diagnose.texts.chinese.words import SPECS

__all__ = ["LABELS", "SPECS", "TEXTS"]

LABELS = {**labels.LABELS, **recommend.LABELS, **doctor.LABELS}
TEXTS = {**advice.TEXTS, **lint.TEXTS, **doctor.TEXTS}
