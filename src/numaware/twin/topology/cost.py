"""How long the real kubelet would take over a merge that takes the twin no time.

The kubelet tries every combination of hints, one by one; measured on v1.35 a combination costs about half a
microsecond. Operators should know before a pod makes a kubelet busy for minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from numaware.twin.topology.hints import Hints

_NANOSECONDS_EACH = 500


def combinations(lists: Iterable[Hints | None], *, single_nodes: bool) -> int:
    """How many combinations the kubelet walks; single-numa-node first drops all but preferred single nodes."""
    return prod(
        1
        if hints is None
        else sum(not mask & (mask - 1) for mask in hints.preferred)
        if single_nodes
        else max(1, len(hints.masks))
        for hints in lists
    )


def kubelet_seconds(count: int) -> int:
    """Whole seconds a kubelet needs for that many combinations; 0 is "no time worth a word"."""
    return count * _NANOSECONDS_EACH // 10**9
