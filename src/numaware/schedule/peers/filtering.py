"""Filter of scheduler-plugins: can one NUMA node hold it?

Mirrors `pkg/noderesourcetopology/filter.go` and `numaresources.go` (August 2026). Only `single-numa-node` is enforced.
What differs from the kubelet is listed in docs/peers.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from numaware.machine.quantity import Quantity
from numaware.schedule.peers.requests import (
    effective_request,
    is_counted,
    is_host_level,
    is_numa_bound,
    names_a_device,
)
from numaware.schedule.peers.zones import Topology
from numaware.workload.pod import Pod, Qos, Resources
from numaware.workload.qos import qos_class

# The plugin's table of zones has 64 places: writing the next one is a crash.
CRASHING_ID = 64

Code = Literal["Success", "Unschedulable", "Error"]


class Overdraw(NamedTuple):
    """A zone that had too little although its id was found good, which takes two zones of one id.

    `container` and `position` say whose request and which zone of the list it was.
    """

    resource: str
    container: int
    requested: int
    zone: int
    position: int
    available: int


class Status(NamedTuple):
    """The verdict on one node; an `Error` says what did not add up."""

    code: Code
    reasons: tuple[str, ...] = ()
    overdraw: Overdraw | None = None


SUCCESS = Status("Success")


class _Books(NamedTuple):
    """What is left in each zone while containers are placed one after another."""

    qos: Qos
    allocatable: frozenset[str]
    ids: tuple[int, ...]
    left: list[dict[str, int]]

    def is_free(self, resource: str) -> bool:
        """Whether the zones' amounts do not matter for this pod."""
        return self.qos != "Guaranteed" and is_numa_bound(resource)


def filter_node(
    topology: Topology | None, allocatable: frozenset[str], pod: Pod, *, fresh: bool = True
) -> Status:
    """Whether the pod may go to the node, whose `status.allocatable` names these resources.

    `topology` is None where the node has no NodeResourceTopology; `fresh` is false when the plugin's cache says that
    its copy is out of date.
    """
    qos = qos_class(pod)
    if qos == "BestEffort" and not names_a_device(pod):
        return SUCCESS
    if not fresh:
        return _unschedulable("invalid node topology data")
    if topology is None or topology.manager.policy != "single-numa-node":
        return SUCCESS
    ids = tuple(zone.id for zone in topology.zones)
    if CRASHING_ID in ids:
        return _unschedulable("a NUMA node with id 64 crashes the plugin")
    books = _Books(qos, allocatable, ids, [dict(zone.available) for zone in topology.zones])
    if topology.manager.scope == "pod":
        fits = _lowest_good_id(books, effective_request(pod)) is not None
        return SUCCESS if fits else _unschedulable("cannot align pod")
    return _container_by_container(books, pod)


def _container_by_container(books: _Books, pod: Pod) -> Status:
    for container in pod.init_containers:
        if _lowest_good_id(books, container.requests) is None:
            kind = "sidecar" if container.restartable else "init"
            return _unschedulable(f"cannot align {kind} container")
    for index, container in enumerate(pod.containers):
        chosen = _lowest_good_id(books, container.requests)
        if chosen is None:
            return _unschedulable("cannot align container")
        overdraw = _take(books, chosen, index, container.requests)
        if overdraw is not None:
            text = overdraw_text(overdraw, Quantity(overdraw.requested), Quantity(overdraw.available))
            return Status("Error", ("inconsistent resource accounting", text), overdraw)
    return SUCCESS


def _lowest_good_id(books: _Books, request: Resources) -> int | None:
    """The lowest id good for every resource, 0 when nothing constrains the choice, None when there is none."""
    good: set[int] | None = None
    for resource, wanted in request:
        if not wanted:
            continue
        if not is_counted(resource, books.allocatable):
            return None
        listing = [
            (number, left) for number, left in zip(books.ids, books.left, strict=True) if resource in left
        ]
        if not listing and is_host_level(resource):
            continue
        suitable = {number for number, left in listing if books.is_free(resource) or left[resource] >= wanted}
        good = suitable if good is None else good & suitable
        if not good:
            return None
    return 0 if good is None else min(good)


def _take(books: _Books, chosen: int, container: int, request: Resources) -> Overdraw | None:
    for position, (number, left) in enumerate(zip(books.ids, books.left, strict=True)):
        if number != chosen:
            continue
        for resource, wanted in request:
            if not wanted or resource not in left or books.is_free(resource):
                continue
            if wanted > left[resource]:
                return Overdraw(resource, container, wanted, chosen, position, left[resource])
            left[resource] -= wanted
    return None


def overdraw_text(overdraw: Overdraw, requested: Quantity, available: Quantity) -> str:
    """The plugin's words for it, with the amounts printed in the family of suffixes they were written in."""
    return f'resource "{overdraw.resource}" request {requested} exceeds NUMA {overdraw.zone} availability {available}'


def _unschedulable(reason: str) -> Status:
    return Status("Unschedulable", (reason,))
