"""Koordinator's NodeNUMAResource (v1.8.0) for pods that ask for no CPU binding.

Held against recordings of Koordinator's own plugin. It merges hints as the kubelet does, but makes them differently: for
the pod as a whole, from what is free *now* instead of what is installed. It can afford to, because its own agent sets
the cpusets; a kubelet that decides for itself may refuse what passes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from numaware.schedule.peers.placement import REFUSED, UNJUDGED, PeerPlacement, gathered
from numaware.schedule.peers.zones import PeerZone, Policy, Topology
from numaware.workload.pod import NANO, Resources, amount

# Every mask is looked at, and there are 2^zones of them.
_MOST_ZONES = 16
_NANO_PER_MILLI = 10**6
_TOP = 100

# Zones by their ids, ascending.
Mask = tuple[int, ...]
_Shares = dict[int, dict[str, int]]
# What a node could give away, and what has been requested of it.
Totals = tuple[Mapping[str, int], Mapping[str, int]]


class Strategy(NamedTuple):
    """How nodes and hints are scored: by what stays free or (`most`) is used of the resources that have a weight."""

    most: bool = False
    zone_most: bool = False
    weights: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))


DEFAULT = Strategy()


class WholeCores(NamedTuple):
    """A node that gives CPUs away by whole cores only: nano-CPUs of one core, and of all free cores of each zone."""

    core: int
    free: Mapping[int, int]


class Outcome(NamedTuple):
    """What Filter and Reserve say.

    `affinity` are the NUMA nodes that Filter chose, None where it chose none; `filtered` says that Filter refused the pod
    (`refusal` has the reasons), `short` which resources Reserve could not split.
    """

    placement: PeerPlacement
    affinity: Mask | None = None
    filtered: bool = False
    short: tuple[str, ...] = ()


def place(
    topology: Topology, request: Resources, strategy: Strategy = DEFAULT, cores: WholeCores | None = None
) -> Outcome:
    """Whether Koordinator would send the pod there, and how it would split it over the zones.

    Filter looks at nothing under best-effort, and keeps no affinity on a machine of one zone under single-numa-node.
    """
    policy = topology.manager.policy
    books = _Books(topology, request, cores)
    if policy == "none" or not books.wanted:
        return Outcome(UNJUDGED)
    chosen = books.choose(policy, strategy)
    if chosen is None and policy != "best-effort":
        return Outcome(REFUSED, filtered=True)
    if policy == "single-numa-node" and chosen == books.everywhere:
        return Outcome(UNJUDGED)
    shares, short = books.split(chosen or books.everywhere)
    if short:
        return Outcome(REFUSED, short=tuple(sorted(short)))
    return Outcome(
        PeerPlacement("placed", gathered(shares)), affinity=None if policy == "best-effort" else chosen
    )


def refusal(topology: Topology, request: Resources, cores: WholeCores | None = None) -> tuple[str, ...]:
    """Why Filter refuses the pod, in Koordinator's words."""
    books, restricted = _Books(topology, request, cores), topology.manager.policy == "restricted"
    hints: dict[str, list[Mask]] = {name: [] for name, _ in books.wanted}
    for size in range(1, len(books.everywhere) + 1):
        for name, masks in books.hints(size).items():
            hints[name] += masks
    missing = sorted(name for name, masks in hints.items() if not masks)
    if missing:
        return tuple(f"Unsatisfied NUMA {name}" for name in missing)
    causes = (
        f"{name} prefer {_listed(masks if restricted else _narrowest(masks))} among {_listed(masks)}"
        for name, masks in sorted(hints.items())
    )
    return (f"Unaligned NUMA Hint cause {(' & ' if restricted else ',').join(causes)}",)


def score(
    outcome: Outcome,
    topology: Topology,
    request: Resources,
    totals: Callable[[], Totals],
    strategy: Strategy = DEFAULT,
    bound_cpus: int | None = None,
) -> int:
    """The node's score, of 100: over the zones that give something, or over its `totals`, if Filter chose no zones.

    For a pod that gets CPUs of its own only `bound_cpus` count as used, and wherever on the node they are.
    """
    if outcome.affinity is None:
        allocatable, used = totals()
    else:
        giving = {zone for zone, _ in outcome.placement.zones}
        allocatable, used = _summed(zone for zone in topology.zones if zone.id in giving)
    if bound_cpus is not None:
        used = {**used, "cpu": bound_cpus}
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
    return -(-nano // _grain(name))


def _grain(name: str) -> int:
    return _NANO_PER_MILLI if name == "cpu" else NANO


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

    def __init__(self, topology: Topology, request: Resources, cores: WholeCores | None) -> None:
        if len(topology.zones) > _MOST_ZONES:
            raise ValueError(
                f"{len(topology.zones)} zones; the masks of more than {_MOST_ZONES} are too many to try"
            )
        self.zones = {zone.id: zone for zone in topology.zones}
        self.everywhere: Mask = tuple(sorted(self.zones))
        reported = {name for zone in topology.zones for name, _ in zone.allocatable}
        self.request = request
        self.wanted = [
            (name, _whole(name, nano) * _grain(name)) for name, nano in request if nano and name in reported
        ]
        self.left = {
            name: {zone.id: max(0, amount(zone.available, name)) for zone in topology.zones}
            for name, _ in self.wanted
        }
        self.cpu_grain = cores.core if cores else _NANO_PER_MILLI
        if cores and "cpu" in self.left:
            left = self.left["cpu"]
            self.left["cpu"] = {zone: min(nano, cores.free.get(zone, 0)) for zone, nano in left.items()}

    def hints(self, size: int) -> dict[str, list[Mask]]:
        """The hints of each resource of one size: masks on which the *whole pod* fits and no zone has run out of it."""
        feasible = [mask for mask in _masks(self.everywhere, size) if self._fits(mask)]
        return {
            name: [mask for mask in feasible if all(left[zone] for zone in mask)]
            for name, left in self.left.items()
        }

    def choose(self, policy: Policy, strategy: Strategy) -> Mask | None:
        """The narrowest mask that is a hint of all resources, and preferred by all: None where there is no such mask.

        A resource prefers its own narrowest hints, so where another has none as narrow there is nothing that all prefer.
        Under restricted every hint is preferred, which is why it refuses less than the kubelet.
        """
        for size in range(1, 2 if policy == "single-numa-node" else len(self.everywhere) + 1):
            hints = list(self.hints(size).values())
            common = [mask for mask in hints[0] if all(mask in masks for masks in hints[1:])]
            if common or (policy == "best-effort" and any(hints)):
                return self._best(common, strategy)
        return None

    def _best(self, common: Sequence[Mask], strategy: Strategy) -> Mask | None:
        """Of masks equally wide a later one wins if it is lower *or* has a better score, so a lower one always wins."""
        best, top = None, -1
        for mask in common:
            mark = self._mark(mask, strategy) if len(common) > 1 else 0
            if best is None or _number(mask) < _number(best) or mark > top:
                best, top = mask, mark
        return best

    def _fits(self, mask: Mask) -> bool:
        if len(mask) == 1:
            return all(self.left[name][mask[0]] >= nano for name, nano in self.wanted)
        return not self.split(mask)[1]

    def _mark(self, mask: Mask, strategy: Strategy) -> int:
        allocatable, used = _summed(self.zones[zone] for zone in mask)
        return _score(allocatable, used, self.request, strategy.weights, most=strategy.zone_most)

    def split(self, mask: Mask) -> tuple[_Shares, list[str]]:
        """The request spread evenly over the zones of a mask, and the resources that do not fit that way."""
        shares: _Shares = {}
        missing = []
        for name, nano in self.wanted:
            grain, left, rest = self.cpu_grain if name == "cpu" else NANO, self.left[name], nano
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


@lru_cache(maxsize=32)
def _masks(zones: Mask, size: int) -> tuple[Mask, ...]:
    return tuple(combinations(zones, size))


def _number(mask: Mask) -> int:
    return sum(1 << zone for zone in mask)


def _narrowest(masks: Sequence[Mask]) -> list[Mask]:
    """Those as narrow as the first, which is the narrowest."""
    return [mask for mask in masks if len(mask) == len(masks[0])]


def _listed(masks: Sequence[Mask]) -> str:
    return f"[{' '.join(_digits(_number(mask)) for mask in masks)}]"


def _digits(mask: int) -> str:
    """A mask in binary, padded as kubelets do: to an even number of digits unless it is a power of four."""
    width = next((shift + 2 for shift in range(62, 0, -2) if mask > 1 << shift), 2)
    return f"{mask:0{width}b}"
