"""What is left on a node: amounts, places for pods, ports of the host.

Mirrors kube-scheduler's plugins NodeResourcesFit and NodePorts (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from numaware.diagnose.reason import Reason
from numaware.workload.demand import Amounts
from numaware.workload.scheduling import EVERY_ADDRESS, HostPort

TOO_MANY_PODS = Reason("too-many-pods")
PORTS_TAKEN = Reason("host-ports")

# kube-scheduler asks for these first; it takes the others in any order, here by name.
_FIRST = {"pods": 0, "cpu": 1, "memory": 2, "ephemeral-storage": 3}


def capacity_reasons(
    requests: Amounts, allocatable: Mapping[str, int], used: Mapping[str, int]
) -> tuple[Reason, ...]:
    """Everything there is too little of, none if the pod fits. A resource the node does not have counts as 0."""
    short = [
        resource
        for resource, amount in requests
        if amount > 0 and amount > allocatable.get(resource, 0) - used.get(resource, 0)
    ]
    return _short_of(tuple(short)) if short else ()


@lru_cache(maxsize=1024)
def _short_of(resources: tuple[str, ...]) -> tuple[Reason, ...]:
    """The reasons in kube-scheduler's order; few resources are short together."""
    return tuple(
        TOO_MANY_PODS if resource == "pods" else Reason("insufficient", (resource,))
        for resource in sorted(resources, key=lambda resource: (_FIRST.get(resource, len(_FIRST)), resource))
    )


def ports_reason(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> Reason | None:
    """Whether a port is taken: one on every address is in the way of the same port on any address, and the reverse."""
    taken: dict[tuple[str, int], set[str]] = {}
    for port in used:
        taken.setdefault((port.protocol, port.port), set()).add(port.address)
    for port in wanted:
        addresses = taken.get((port.protocol, port.port))
        if addresses and (
            port.address == EVERY_ADDRESS or EVERY_ADDRESS in addresses or port.address in addresses
        ):
            return PORTS_TAKEN
    return None
