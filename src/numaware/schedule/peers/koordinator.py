"""Koordinator's NodeNUMAResource (v1.8.0) for pods without CPU binding.

Held against recordings of Koordinator's own plugin. It merges hints as the kubelet does, but makes them differently: for
the pod as a whole, from what is free *now* instead of what is installed. It can afford to, because its own agent sets
the cpusets; a kubelet that decides for itself may refuse what passes here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from numaware.schedule.peers.placement import REFUSED, UNJUDGED, PeerPlacement, gathered
from numaware.schedule.peers.zones import PeerZone, Topology
from numaware.workload.pod import NANO, Resources, amount

# Every mask is looked at, and there are 2^zones of them.
_MOST_ZONES = 16
_NANO_PER_MILLI = 10**6
_TOP = 100

# Zones by their ids, ascending.
Mask = tuple[int, ...]
_Shares = dict[int, dict[str, int]]


class Strategy(NamedTuple):
    """How nodes and hints are scored: by what stays free or (`most`) is used of the resources that have a weight."""

    most: bool = False
    zone_most: bool = False
    weights: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))


DEFAULT = Strategy()


class Outcome(NamedTuple):
    """What Filter and Reserve say.

    `affinity` are the NUMA nodes that Filter chose, None where it chose none; `refusal` the reasons of the one that
    refused, and `filtered` says that Filter did.
    """

    placement: PeerPlacement
    affinity: Mask | None = None
    refusal: tuple[str, ...] = ()
    filtered: bool = False


class _Hints(NamedTuple):
    """The masks that one resource of the pod could live on, narrowest first, and which of them it prefers."""

    masks: Sequence[Mask]
    preferred: Sequence[Mask]


def place(topology: Topology, request: Resources, strategy: Strategy = DEFAULT) -> Outcome:
    """Whether Koordinator would send the pod there, and how it would split it over the zones.

    Filter looks at nothing under best-effort, and keeps no affinity on a machine of one zone under single-numa-node.
    """
    policy = topology.manager.policy
    books = _Books(topology, request)
    if policy == "none" or not books.wanted:
        return Outcome(UNJUDGED)
    hints = books.hints(restricted=policy == "restricted")
    chosen: Mask | None
    if policy == "best-effort":
        chosen = books.best([hint.preferred for hint in hints.values()], strategy) or books.everywhere
        shares, missing = books.split(chosen)
        if missing:
            return Outcome(REFUSED, refusal=tuple(f"Insufficient NUMA {name}" for name in sorted(missing)))
        return Outcome(PeerPlacement("placed", gathered(shares)))
    missing = [name for name, hint in hints.items() if not hint.masks]
    if missing:
        return Outcome(
            REFUSED, refusal=tuple(f"Unsatisfied NUMA {name}" for name in sorted(missing)), filtered=True
        )
    if policy == "restricted":
        chosen = books.best([hint.masks for hint in hints.values()], strategy)
    else:
        chosen = books.best(
            [[mask for mask in hint.preferred if len(mask) == 1] for hint in hints.values()], strategy
        )
    if chosen is None:
        joint = " & " if policy == "restricted" else ","
        return Outcome(REFUSED, refusal=(_unaligned(hints, joint),), filtered=True)
    if policy == "single-numa-node" and chosen == books.everywhere:
        return Outcome(UNJUDGED)
    return Outcome(PeerPlacement("placed", gathered(books.split(chosen)[0])), chosen)


def score(
    outcome: Outcome,
    topology: Topology,
    request: Resources,
    totals: tuple[Mapping[str, int], Mapping[str, int]],
    strategy: Strategy = DEFAULT,
) -> int:
    """The node's score, of 100: over the zones that give something, or over its `totals` (allocatable and requested)."""
    if outcome.affinity is None:
        allocatable, used = totals
    else:
        giving = {zone for zone, _ in outcome.placement.zones}
        allocatable, used = _summed(zone for zone in topology.zones if zone.id in giving)
    return _score(allocatable, used, request, strategy.weights, most=strategy.most)


def _score(
    allocatable: Mapping[str, int],
    used: Mapping[str, int],
    request: Resources,
    weights: tuple[tuple[str, int], ...],
    *,
    most: bool,
) -> int:
    """The weighted mean; CPU and memory count whether asked for or not, anything else only where it is."""
    total = whole = 0
    for name, weight in weights:
        room, wanted = _whole(name, allocatable.get(name, 0)), amount(request, name)
        if not room or not weight or (name not in ("cpu", "memory") and not wanted):
            continue
        after = _whole(name, used.get(name, 0) + wanted)
        part = min(after, room) if most else max(0, room - after)
        total += weight * (part * _TOP // room)
        whole += weight
    return total // whole if whole else 0


def _whole(name: str, nano: int) -> int:
    """The amount as Kubernetes counts it: CPUs in thousandths, everything else in units, rounded up."""
    return -(-nano // (_NANO_PER_MILLI if name == "cpu" else NANO))


def _summed(zones: Iterable[PeerZone]) -> tuple[dict[str, int], dict[str, int]]:
    """What zones have together, and what of it is allocated."""
    allocatable: dict[str, int] = {}
    used: dict[str, int] = {}
    for zone in zones:
        left = dict(zone.available)
        for name, nano in zone.allocatable:
            allocatable[name] = allocatable.get(name, 0) + nano
            used[name] = used.get(name, 0) + nano - left.get(name, 0)
    return allocatable, used


class _Books:
    """The zones of a node by id, and what the pod wants of resources that they report."""

    def __init__(self, topology: Topology, request: Resources) -> None:
        if len(topology.zones) > _MOST_ZONES:
            raise ValueError(
                f"{len(topology.zones)} zones; the masks of more than {_MOST_ZONES} are too many to try"
            )
        self.zones = {zone.id: zone for zone in topology.zones}
        self.everywhere: Mask = tuple(sorted(self.zones))
        reported = {name for zone in topology.zones for name, _ in zone.allocatable}
        self.request = request
        self.wanted = [(name, nano) for name, nano in request if nano and name in reported]
        self.left = {
            name: {zone.id: max(0, amount(zone.available, name)) for zone in topology.zones}
            for name, _ in self.wanted
        }

    def hints(self, *, restricted: bool) -> dict[str, _Hints]:
        """The hints of each resource: masks on which the *whole pod* fits and where no zone has run out of it.

        Under restricted all that is feasible counts as preferred, which is why it refuses less than the kubelet.
        """
        feasible = [mask for mask in _masks(self.everywhere) if not self.split(mask)[1]]
        hints = {}
        for name, left in self.left.items():
            masks = [mask for mask in feasible if all(left[zone] for zone in mask)]
            narrowest = len(masks[0]) if masks else 0
            preferred = masks if restricted else [mask for mask in masks if len(mask) == narrowest]
            hints[name] = _Hints(masks, preferred)
        return hints

    def best(self, candidates: Sequence[Collection[Mask]], strategy: Strategy) -> Mask | None:
        """The mask that all resources have among their candidates.

        Of the narrowest a later one wins if it is lower *or* has a better score, so a lower one always wins.
        """
        others = [frozenset(masks) for masks in candidates[1:]]
        common = [mask for mask in candidates[0] if all(mask in masks for masks in others)]
        narrowest = min(map(len, common), default=0)
        best, top = None, 0
        for mask in common:
            if len(mask) == narrowest:
                mark = self._mark(mask, strategy)
                if best is None or _number(mask) < _number(best) or mark > top:
                    best, top = mask, mark
        return best

    def _mark(self, mask: Mask, strategy: Strategy) -> int:
        allocatable, used = _summed(self.zones[zone] for zone in mask)
        return _score(allocatable, used, self.request, strategy.weights, most=strategy.zone_most)

    def split(self, mask: Mask) -> tuple[_Shares, list[str]]:
        """The request spread evenly over the zones of a mask, and the resources that do not fit that way."""
        shares: _Shares = {}
        missing = []
        for name, nano in self.wanted:
            grain = _NANO_PER_MILLI if name == "cpu" else NANO
            left = self.left[name]
            rest = -(-nano // grain) * grain
            for remaining, zone in zip(range(len(mask), 0, -1), _split_order(mask, left), strict=True):
                share = min(rest if remaining == 1 else rest // remaining // grain * grain, left[zone])
                rest -= share
                if share:
                    shares.setdefault(zone, {})[name] = share
            if rest:
                missing.append(name)
        return shares, missing


def _split_order(mask: Mask, left: Mapping[int, int]) -> list[int]:
    """The zones of a mask in the order they are asked, meant to be those with least left first.

    An insertion sort whose comparison takes positions in the list for ids of zones, as Koordinator's does: the order is
    right for the lowest zones only.
    """
    order = list(mask)
    for end in range(1, len(order)):
        place = end
        while place and left.get(place, 0) < left.get(place - 1, 0):
            order[place - 1], order[place] = order[place], order[place - 1]
            place -= 1
    return order


@lru_cache(maxsize=64)
def _masks(zones: Mask) -> tuple[Mask, ...]:
    """All sets of zones, smaller ones first."""
    return tuple(mask for size in range(1, len(zones) + 1) for mask in combinations(zones, size))


def _number(mask: Mask) -> int:
    return sum(1 << zone for zone in mask)


def _unaligned(hints: Mapping[str, _Hints], joint: str) -> str:
    causes = (
        f"{name} prefer {_listed(hint.preferred)} among {_listed(hint.masks)}"
        for name, hint in sorted(hints.items())
    )
    return f"Unaligned NUMA Hint cause {joint.join(causes)}"


def _listed(masks: Sequence[Mask]) -> str:
    return f"[{' '.join(_digits(_number(mask)) for mask in masks)}]"


def _digits(mask: int) -> str:
    """A mask in binary, padded as kubelets do: to an even number of digits unless it is a power of four."""
    width = next((shift + 2 for shift in range(62, 0, -2) if mask > 1 << shift), 2)
    return f"{mask:0{width}b}"
