"""Score of scheduler-plugins by the number of NUMA nodes needed, nodes close to each other first.

Mirrors `pkg/noderesourcetopology/least_numa.go` (August 2026).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from numaware.schedule.peers.crash import CrashError
from numaware.schedule.peers.placement import subsets
from numaware.schedule.peers.zones import PeerZone, Topology
from numaware.workload.pod import Resources

# The SLIT's word for "unknown"; also the most that counts as a distance worth having.
_UNKNOWN = 255
_TOO_FAR = 256


class _Found(NamedTuple):
    """Positions in the list of zones, and whether none of as many zones lie closer together."""

    positions: tuple[int, ...]
    optimal: bool


def least_numa_nodes(topology: Topology, requests: Sequence[Resources]) -> int:
    """The score for one pod, or for its containers served one after another.

    100 minus a step per NUMA node of the widest set, half a step back when every set sits as close as it could; 0
    when a set fits nowhere; 100 when no set asks for anything that a zone lists.
    """
    zones = topology.zones
    left = [dict(zone.available) for zone in zones]
    widest, optimal = 0, True
    for request in requests:
        if not any(name in available for available in left for name, _ in request):
            continue
        combination = _fewest(zones, left, request)
        if combination is None:
            return 0
        ids = sorted({zones[position].id for position in combination.positions})
        widest = max(widest, len(ids))
        optimal = optimal and combination.optimal
        if topology.manager.scope == "container":
            _take(left, ids, request)
    if not widest:
        return 100
    step = 100 // topology.manager.max_nodes
    return 100 - widest * step + (step // 2 if optimal else 0)


def _fewest(zones: Sequence[PeerZone], left: Sequence[dict[str, int]], request: Resources) -> _Found | None:
    names = [name for name, _ in request]
    # Every zone of a combination has to list every resource, even one that belongs to the machine as a whole.
    listing = [
        position for position, available in enumerate(left) if all(name in available for name in names)
    ]
    for size in range(1, len(listing) + 1):
        # Where not even the fullest zones suffice no combination of this size does, so none needs to be tried.
        if all(
            sum(sorted((left[position][name] for position in listing), reverse=True)[:size]) >= wanted
            for name, wanted in request
        ):
            combination = _closest(zones, left, request, listing, size)
            if combination is not None:
                return combination
    return None


def _closest(
    zones: Sequence[PeerZone],
    left: Sequence[dict[str, int]],
    request: Resources,
    listing: Sequence[int],
    size: int,
) -> _Found | None:
    """The fitting combination of this size with the least distance, the first of equals."""
    costs = [dict(zone.costs) for zone in zones]
    ids = [zone.id for zone in zones]

    def distance(positions: tuple[int, ...]) -> float:
        total = sum(costs[one].get(ids[other], _UNKNOWN) for one in positions for other in positions)
        return _single(_single(total) / (len(positions) * len(positions)))

    least = min(map(distance, subsets(range(len(zones)), size)))
    best: tuple[int, ...] | None = None
    best_distance: float = _TOO_FAR
    for positions in subsets(listing, size):
        if any(sum(left[position][name] for position in positions) < wanted for name, wanted in request):
            continue
        far = distance(positions)
        if far == min(least, _UNKNOWN):
            return _Found(positions, optimal=True)
        if far < best_distance:
            best, best_distance = positions, far
    return None if best is None else _Found(best, optimal=False)


def _take(left: Sequence[dict[str, int]], ids: Sequence[int], request: Resources) -> None:
    """Take the request from the zones, lowest id first.

    The plugin uses the id as a position in its list: the wrong zone where zones are not listed in order, a crash where
    the list is shorter.
    """
    for name, wanted in request:
        missing = wanted
        for position in ids:
            if not missing:
                break
            if position >= len(left):
                raise CrashError
            here = min(missing, left[position].get(name, 0))
            if here:
                left[position][name] -= here
                missing -= here


def _single(number: float) -> float:
    """Rounded to single precision, in which the plugin compares distances."""
    return float(struct.unpack("f", struct.pack("f", number))[0])
