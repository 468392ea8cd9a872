"""Findings in English."""

from __future__ import annotations

from numaware.diagnose.texts.english import advice, doctor, fine, labels, lint, recommend, refusals, startup
from numaware.diagnose.texts.english.words import SPECS

__all__ = ["LABELS", "SPECS", "TEXTS"]

LABELS = {**labels.LABELS, **recommend.LABELS, **doctor.LABELS}
TEXTS = {**refusals.TEXTS, **startup.TEXTS, **advice.TEXTS, **fine.TEXTS, **lint.TEXTS, **doctor.TEXTS}
