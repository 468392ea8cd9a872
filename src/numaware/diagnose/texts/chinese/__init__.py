"""Findings in Chinese; what is missing here is told in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.english.words import SPECS
from numaware.diagnose.texts.text import Text

__all__ = ["LABELS", "SPECS", "TEXTS"]

TEXTS: Mapping[str, Text] = {}
LABELS: Mapping[str, str] = {}
