"""How long to wait before trying again: longer each time, and at random, so that clients do not come at the same moment."""

from __future__ import annotations

import random

# Doubling stops mattering long before; keeps the power small however long a server stays away.
_MOST_DOUBLINGS = 16


def full_jitter(dice: random.Random, attempt: int, *, base: float, cap: float) -> float:
    """Seconds to wait after failure number `attempt` (from 0): anything up to a bound that doubles, up to `cap`."""
    return dice.uniform(0, min(cap, base * 2 ** min(attempt, _MOST_DOUBLINGS)))
