"""Koordinator's NodeNUMAResource rule, from its published description (v1.8), not from recordings.

It merges hints as the kubelet does, but makes them differently: for the pod as a whole, from what is free *now* instead
of what is installed. It can afford to, because its own agent sets the cpusets; a kubelet that decides for itself may
refuse what passes here. Where the description says nothing the choice is the lowest zones; see docs/peers.md.
"""

from __future__ import annotations

from typing import NamedTuple

from numaware.machine.cpuset import iter_bits
from numaware.schedule.peers.placement import REFUSED, UNJUDGED, PeerPlacement, gathered
from numaware.schedule.peers.requests import pod_request
from numaware.schedule.peers.zones import PeerZone, Policy, Topology
from numaware.twin.hardware import mask_order, sums
from numaware.twin.topology.hints import Hints
from numaware.twin.topology.merge import merge, narrower
from numaware.workload.pod import NANO, Pod, Resources, amount

# Every mask is looked at, and there are 2^zones of them.
_MOST_ZONES = 16
_NANO_PER_MILLI = 10**6


class _Hinted(NamedTuple):
    """One resource of the pod that zones report, with the masks it could live on."""

    name: str
    wanted: int
    hints: Hints


def place(topology: Topology, pod: Pod) -> PeerPlacement:
    """Whether Koordinator would send the pod there, and how it would split it over the zones."""
    zones, policy = tuple(sorted(topology.zones, key=lambda zone: zone.id)), topology.manager.policy
    if policy == "none" or not zones:
        return UNJUDGED
    if len(zones) > _MOST_ZONES:
        raise ValueError(f"{len(zones)} zones; the masks of more than {_MOST_ZONES} are too many to try")
    hinted = _hinted(zones, pod_request(pod), policy)
    if not hinted:
        return UNJUDGED
    if not all(one.hints.masks for one in hinted):
        return REFUSED
    lists = [_single_nodes(one.hints) if policy == "single-numa-node" else one.hints for one in hinted]
    best = merge(lists, (1 << len(zones)) - 1, narrower)
    if best.mask is None or (policy != "best-effort" and not best.preferred):
        return REFUSED
    taken: dict[int, dict[str, int]] = {}
    chosen = [zones[position] for position in iter_bits(best.mask)]
    for one in hinted:
        if not _split(chosen, one.name, one.wanted, taken):
            return REFUSED
    return PeerPlacement(admitted=True, zones=gathered(taken))


def score(topology: Topology, placement: PeerPlacement) -> int:
    """How empty the zones used would be left (LeastAllocated, equal weights): their true load after placement."""
    given = dict(placement.zones)
    used = [zone for zone in topology.zones if zone.id in given]
    marks = []
    for name in sorted({name for amounts in given.values() for name, _ in amounts}):
        room = sum(amount(zone.allocatable, name) for zone in used)
        free = sum(amount(zone.available, name) for zone in used)
        left = free - sum(amount(amounts, name) for amounts in given.values())
        marks.append(max(0, left) * 100 // room if room else 0)
    return sum(marks) // len(marks) if marks else 0


def _hinted(zones: tuple[PeerZone, ...], request: Resources, policy: Policy) -> list[_Hinted]:
    """The hints of each resource: masks on which the *whole pod* fits and where no zone has run out of the resource."""
    wanted = [
        (name, nano, [amount(zone.available, name) for zone in zones])
        for name, nano in request
        if nano and any(name == listed for zone in zones for listed, _ in zone.available)
    ]
    feasible = list(mask_order(len(zones)))
    for _, nano, left in wanted:
        total = sums(left)
        feasible = [mask for mask in feasible if total[mask] >= nano]
    narrowest = feasible[0].bit_count() if feasible else 0
    found = []
    for name, nano, left in wanted:
        spent = sum(1 << position for position, there in enumerate(left) if not there)
        masks = [mask for mask in feasible if not mask & spent]
        # Under Restricted all that is feasible counts as preferred, which is why it refuses less than the kubelet.
        preferred = [mask for mask in masks if policy == "restricted" or mask.bit_count() == narrowest]
        found.append(_Hinted(name, nano, Hints(masks, preferred)))
    return found


def _single_nodes(hints: Hints) -> Hints:
    alone = [mask for mask in hints.preferred if mask.bit_count() == 1]
    return Hints(alone, alone)


def _split(chosen: list[PeerZone], name: str, wanted: int, taken: dict[int, dict[str, int]]) -> bool:
    """Spread a request evenly over the zones, those with least left first so that the others make up for them."""
    grain = _NANO_PER_MILLI if name == "cpu" else NANO
    zones = sorted(chosen, key=lambda zone: (amount(zone.available, name), zone.id))
    missing = wanted
    given = []
    for remaining, zone in zip(range(len(zones), 0, -1), zones, strict=True):
        share = missing if remaining == 1 else missing // remaining // grain * grain
        given.append(min(share, amount(zone.available, name)))
        missing -= given[-1]
    for zone, share in zip(zones, given, strict=True):
        # Rounding to whole units can leave a rest that the last zone has no room for.
        rest = min(missing, amount(zone.available, name) - share)
        missing -= rest
        if share + rest:
            taken.setdefault(zone.id, {})[name] = share + rest
    return not missing
