"""NVIDIA KAI-Scheduler (v0.17.0): its numa plugin, and the default order of nodes it is part of.

Held against recordings of KAI's own functions. For every resource the plugin asks for the fewest zones that could hold
the request when empty, against what is left in them now. Nodes are ordered by a sum of points, equal ones by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from numaware.schedule.peers.placement import (
    REFUSED,
    UNJUDGED,
    UNPLACED,
    PeerPlacement,
    gathered,
    subsets,
)
from numaware.schedule.peers.requests import is_numa_bound, pod_request
from numaware.schedule.peers.zones import Policy, Scope, Topology
from numaware.workload.pod import NANO, Container, Pod, Resources
from numaware.workload.qos import peak, qos_class

GPU = "nvidia.com/gpu"
# Zones have one resource for all names that end so; in a pod's own request KAI knows two of them only.
_GPU_SUFFIX = "gpu"
_GPU_NAMES = (GPU, "amd.com/gpu")
_STRANGE_GPU = 1000
# KAI counts CPUs in thousandths and adds them to bytes and devices as they are.
_RAW_PER_CPU = 1000

_TOP = 100
_IDLE = 1000
_SAME_TYPE = 10
PACKED = 9
# A part of a GPU goes where a GPU is shared already, whatever else speaks against it.
SHARED = 10_000

Amounts = dict[str, int]


class _Books(NamedTuple):
    """One node while a pod is placed: what its zones could hold, what they have left, and which resources count."""

    policy: Policy
    allocatable: Sequence[Amounts]
    left: list[Amounts]
    judged: frozenset[str]


def place(topology: Topology, pod: Pod, *, ignored: frozenset[str] = frozenset()) -> PeerPlacement:
    """Whether KAI would send the pod there, and which zones it would expect the kubelet to use.

    `ignored` is the administrator's `ignoreList`: resources whose kubelet manager is switched off.
    """
    policy = topology.manager.policy
    if policy == "none":
        return UNJUDGED
    guaranteed = qos_class(pod) == "Guaranteed"
    reported = reported_by(topology, ignored)
    if not guaranteed and not asks_for_devices(request_of(pod), reported):
        return UNJUDGED
    books = _Books(
        policy,
        [folded(zone.allocatable) for zone in topology.zones],
        [folded(zone.available) for zone in topology.zones],
        reported if guaranteed else frozenset(name for name in reported if not is_numa_bound(name)),
    )
    untouched = books._replace(left=[dict(left) for left in books.left])
    staying, passing = _units(pod, topology.manager.scope, guaranteed=guaranteed)
    taken: dict[int, Amounts] = {}
    for unit in staying:
        chosen = _choose(books, unit)
        if chosen is None:
            break
        _draw(books, chosen, unit, taken)
    else:
        # KAI does not deduct what a sidecar holds while an init container runs.
        if all(_choose(untouched, unit) is not None for unit in passing):
            zones = {topology.zones[position].id: amounts for position, amounts in taken.items()}
            return PeerPlacement("placed", gathered(zones))
    return UNPLACED if policy == "best-effort" else REFUSED


def request_of(pod: Pod) -> Amounts:
    """What the pod takes of a whole node; GPUs that have a name KAI does not know are forgotten."""
    return folded(
        (name, nano) for name, nano in pod_request(pod) if nano and (name in _GPU_NAMES or not is_gpu(name))
    )


def room_of(allocatable: Resources) -> Amounts:
    """What a whole node has to give; GPUs of a name that KAI does not know hide those it does, counted in thousandths."""
    strange = [nano * _STRANGE_GPU for name, nano in allocatable if is_gpu(name) and name not in _GPU_NAMES]
    room = folded(allocatable)
    return room | {GPU: strange[-1]} if strange else room


def reported_by(topology: Topology, ignored: frozenset[str]) -> frozenset[str]:
    """The resources that some zone of the node names."""
    named = (folded((*zone.allocatable, *zone.available)) for zone in topology.zones)
    return frozenset(name for names in named for name in names if name not in ignored)


def asks_for_devices(request: Amounts, reported: frozenset[str]) -> bool:
    """Whether a pod that is not Guaranteed asks for something that zones report and the kubelet aligns all the same."""
    return any(name in reported for name in request if not is_numa_bound(name))


def is_gpu(name: str) -> bool:
    """Whether zones count the resource as GPUs."""
    return name.endswith(_GPU_SUFFIX)


def folded(resources: Iterable[tuple[str, int]]) -> Amounts:
    """Amounts under KAI's names: those of all GPUs are added."""
    total: Amounts = {}
    for name, nano in resources:
        key = GPU if is_gpu(name) else name
        total[key] = total.get(key, 0) + nano
    return total


# The order of nodes


def numa_score(placement: PeerPlacement, zones: int) -> float:
    """100 for one zone or nothing to place, 50 for two, and so on; `zones` are those of a node the rule is silent on."""
    if placement.verdict == "placed":
        return _TOP / max(1, len(placement.zones))
    return _TOP / zones if placement.verdict == "unjudged" and zones else 0


def type_score(*, wants_gpus: bool, has_gpus: bool) -> int:
    """Pods without GPUs had better go to nodes without."""
    return 0 if wants_gpus or has_gpus else _SAME_TYPE


def idle_score(*, idle: bool) -> int:
    """A node that could start the pod at once is worth more than all the rest together."""
    return _IDLE if idle else 0


def packing_score(free: int, least: int, most: int) -> float:
    """The fuller the better, in what is free of GPUs (of CPUs for pods without), against all nodes that have any."""
    if not most:
        return 0
    return PACKED * (1 - (free - least) / (most - least)) if most > least else PACKED


# One unit at a time


def _units(pod: Pod, scope: Scope, *, guaranteed: bool) -> tuple[list[Amounts], list[Amounts]]:
    """What is placed at once and stays, in order, and what comes and goes before it."""

    def cpu(container: Container) -> int:
        nano = dict(container.requests).get("cpu", 0)
        return 0 if nano % NANO or not guaranteed else nano

    def alone(container: Container) -> Amounts:
        return {**folded(container.requests), "cpu": cpu(container)}

    if scope == "pod":
        return [{**folded(pod_request(pod)), "cpu": peak(pod, cpu)}], []
    sidecars = [container for container in pod.init_containers if container.restartable]
    passing = [container for container in pod.init_containers if not container.restartable]
    return [alone(container) for container in (*sidecars, *pod.containers)], list(map(alone, passing))


def _wanted(books: _Books, unit: Amounts) -> Resources:
    return tuple((name, nano) for name, nano in unit.items() if nano and name in books.judged)


def _choose(books: _Books, unit: Amounts) -> Sequence[int] | None:
    """The positions of the zones to use, in the order they are drawn from; None where no zones will do."""
    wanted = _wanted(books, unit)
    if not wanted:
        return ()
    if books.policy == "best-effort":
        return _greedy(books.left, dict(wanted))
    width = 1
    if books.policy == "restricted":
        # The width preferred for one resource has to be that of all.
        widths = {_narrowest(books.allocatable, name, nano) for name, nano in wanted}
        width = widths.pop() or 0
        if widths or not width:
            return None
    for positions in subsets(range(len(books.left)), width):
        if all(sum(books.left[at].get(name, 0) for at in positions) >= nano for name, nano in wanted):
            return positions
    return None


def _narrowest(zones: Sequence[Amounts], name: str, wanted: int) -> int | None:
    """The fewest zones that could hold it when empty."""
    total = 0
    for width, there in enumerate(sorted((zone.get(name, 0) for zone in zones), reverse=True), 1):
        total += there
        if total >= wanted:
            return width
    return None


def _greedy(left: Sequence[Amounts], wanted: Amounts) -> list[int] | None:
    """Always the zone that covers most of what is missing, bytes and CPUs added up: more zones than needed, at times.

    A zone that has less than nothing left takes away from what others cover.
    """
    missing, chosen = dict(wanted), list[int]()
    while any(nano > 0 for nano in missing.values()):
        best, most = None, 0
        for position, zone in enumerate(left):
            cover = sum(
                min(nano, zone.get(name, 0)) * (_RAW_PER_CPU if name == "cpu" else 1)
                for name, nano in missing.items()
                if nano > 0
            )
            if cover > most and position not in chosen:
                best, most = position, cover
        if best is None:
            return None
        chosen.append(best)
        missing = {name: nano - left[best].get(name, 0) for name, nano in missing.items()}
    return chosen


def _draw(books: _Books, positions: Sequence[int], unit: Amounts, taken: dict[int, Amounts]) -> None:
    """Take the unit out of the zones, each emptied before the next."""
    for name, nano in _wanted(books, unit):
        missing = nano
        for position in positions:
            here = min(missing, max(0, books.left[position].get(name, 0)))
            if here:
                books.left[position][name] -= here
                missing -= here
                mine = taken.setdefault(position, {})
                mine[name] = mine.get(name, 0) + here
