"""Random numbers that can be repeated: every draw of the lab comes from one of these sources, made from the seed of the run."""

from __future__ import annotations

import random


def random_source(seed: int, purpose: str) -> random.Random:
    """A source of its own for each purpose, so that one draw more in one place moves nothing elsewhere."""
    return random.Random(f"{seed}/{purpose}")  # noqa: S311 - repeatable draws are the point, there is nothing to guess
