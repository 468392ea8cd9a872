"""NVIDIA KAI-Scheduler's numa plugin, from its published description (v0.17), not from recordings.

One rule for every resource: the fewest zones that could hold the request when empty, against what is left in them now.
Where the description says nothing the choice here is the lowest zones first; docs/peers.md lists these points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numaware.schedule.peers.placement import REFUSED, UNJUDGED, PeerPlacement, gathered, subsets
from numaware.schedule.peers.requests import pod_request
from numaware.schedule.peers.zones import PeerZone, Policy, Topology
from numaware.workload.pod import NANO, Pod, Resources, amount
from numaware.workload.qos import qos_class
from numaware.workload.requirements import is_native


class _Books(NamedTuple):
    """The zones, what is left in each while containers are placed, and which resources count."""

    policy: Policy
    zones: tuple[PeerZone, ...]
    left: list[dict[str, int]]
    judged: frozenset[str]

    def wanted(self, request: Resources) -> Resources:
        return tuple(
            (name, nano)
            for name, nano in request
            if nano and name in self.judged and not (name == "cpu" and nano % NANO)
        )


def place(topology: Topology, pod: Pod, *, ignored: frozenset[str] = frozenset()) -> PeerPlacement:
    """Whether KAI would send the pod there, and which zones it would expect the kubelet to use.

    `ignored` is the administrator's `ignoreList`: resources whose kubelet manager is switched off.
    """
    policy, zones = topology.manager.policy, topology.zones
    if policy == "none":
        return UNJUDGED
    reported = frozenset(name for zone in zones for name, _ in zone.available) - ignored
    guaranteed = qos_class(pod) == "Guaranteed"
    judged = frozenset(name for name in reported if guaranteed or not is_native(name))
    books = _Books(policy, zones, [dict(zone.available) for zone in zones], judged)
    taken: dict[int, dict[str, int]] = {}
    for request, stays in _steps(topology, pod):
        wanted = books.wanted(request)
        if not wanted:
            continue
        chosen = _choose(books, wanted)
        if chosen is None:
            # Best effort refuses nobody, but there is nothing to record or to score.
            return UNJUDGED if policy == "best-effort" else REFUSED
        if stays:
            _take(books, chosen, wanted, taken)
    return PeerPlacement(admitted=True, zones=gathered(taken))


def score(placement: PeerPlacement) -> int:
    """100 for one zone, 50 for two, and so on; 0 where the pod fits no zones or the rule has no say."""
    return 100 // placement.span if placement.span else 0


def _steps(topology: Topology, pod: Pod) -> list[tuple[Resources, bool]]:
    """The requests in the order they are served, and whether each stays: an ordinary init container goes again."""
    if topology.manager.scope == "pod":
        return [(pod_request(pod), True)]
    return [(container.requests, container.restartable) for container in pod.init_containers] + [
        (container.requests, True) for container in pod.containers
    ]


def _choose(books: _Books, wanted: Resources) -> tuple[int, ...] | None:
    """The positions of the zones to use: as few as the policy allows, the first of equals."""
    sizes: Sequence[int] = range(1, len(books.zones) + 1)
    if books.policy == "single-numa-node":
        sizes = (1,)
    elif books.policy == "restricted":
        # Preferred for every resource means: as wide as each of them needs at least, so they all need the same.
        widths = {_narrowest(books.zones, name, nano) for name, nano in wanted}
        sizes = [width for width in widths if width is not None] if len(widths) == 1 else ()
    everywhere = range(len(books.zones))
    for size in sizes:
        if not all(_could_hold(books, name, nano, size) for name, nano in wanted):
            continue
        for positions in subsets(everywhere, size):
            if all(
                sum(books.left[position].get(name, 0) for position in positions) >= nano
                for name, nano in wanted
            ):
                return positions
    return None


def _narrowest(zones: tuple[PeerZone, ...], name: str, wanted: int) -> int | None:
    """The fewest zones that could hold it when empty."""
    total = 0
    for width, there in enumerate(
        sorted((amount(zone.allocatable, name) for zone in zones), reverse=True), 1
    ):
        total += there
        if total >= wanted:
            return width
    return None


def _could_hold(books: _Books, name: str, wanted: int, size: int) -> bool:
    return sum(sorted((left.get(name, 0) for left in books.left), reverse=True)[:size]) >= wanted


def _take(
    books: _Books, positions: tuple[int, ...], wanted: Resources, taken: dict[int, dict[str, int]]
) -> None:
    for name, nano in wanted:
        missing = nano
        for position in positions:
            here = min(missing, books.left[position].get(name, 0))
            if here:
                books.left[position][name] -= here
                missing -= here
                mine = taken.setdefault(books.zones[position].id, {})
                mine[name] = mine.get(name, 0) + here
