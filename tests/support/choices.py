"""All that options can be set to, for tests that try each."""

from __future__ import annotations

from typing import get_args

from numaware.diagnose.recommend.configuration import Purpose
from numaware.diagnose.texts import Lang

LANGUAGES: tuple[Lang, ...] = get_args(Lang)
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
