"""Findings in Chinese; what is missing here is told in English."""

from __future__ import annotations

from numaware.diagnose.texts.chinese import advice, doctor, fine, labels, lint, recommend, refusals, startup
from numaware.diagnose.texts.chinese.words import SPECS

__all__ = ["LABELS", "SPECS", "TEXTS"]

LABELS = {**labels.LABELS, **recommend.LABELS, **doctor.LABELS}
TEXTS = {
    **refusals.TEXTS,
    **startup.TEXTS,
    **advice.TEXTS,
    **fine.TEXTS,
    **lint.TEXTS,
    **doctor.TEXTS,
}
