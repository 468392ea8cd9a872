"""Less looking for garbage in programs that run for long: most of what an engine knows stays, and is in no cycle."""

from __future__ import annotations

import gc

# Objects made before Python looks for cycles among them; at the usual 700 it would look several times for every ten pods.
_OBJECTS_BETWEEN_LOOKS = 20_000


def settle() -> None:
    """What is in memory now stays, so that nobody need go through it again; what comes is looked at now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
