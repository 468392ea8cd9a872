"""Chance that can be repeated: every draw of the lab comes from one of these, made from the run's seed."""

from __future__ import annotations

import random


def source(seed: int, purpose: str) -> random.Random:
    """A source of its own for each purpose, so that one draw more in one place moves nothing elsewhere."""
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 - repeatable draws are the point, there is nothing to guess
