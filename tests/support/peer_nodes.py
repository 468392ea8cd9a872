"""Zones and pods for tests of other schedulers' rules, each in one line, amounts as people write them."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.machine.quantity import Quantity
from numaware.schedule.peers.zones import PeerZone, Policy, Scope, Topology, TopologyManager
from numaware.workload.pod import Container, Pod, Resources

Amounts = Mapping[str, str | int]
GPU = "vendor.example/gpu"


def amounts(texts: Amounts | None) -> Resources:
    return tuple(sorted((name, Quantity.parse(text).nano) for name, text in (texts or {}).items()))


def zone(
    number: int,
    available: Amounts,
    allocatable: Amounts | None = None,
    costs: Mapping[int, int] | None = None,
) -> PeerZone:
    """A zone that is empty unless what is allocatable is said, too."""
    return PeerZone(
        number,
        amounts(available),
        amounts(available if allocatable is None else allocatable),
        tuple(sorted((costs or {}).items())),
    )


def topology(
    *zones: PeerZone, policy: Policy = "single-numa-node", scope: Scope = "container", most: int = 8
) -> Topology:
    return Topology(zones, TopologyManager(policy, scope, most))


def guaranteed(requests: Amounts, name: str = "app", *, sidecar: bool = False) -> Container:
    return Container(name, amounts(requests), amounts(requests), sidecar)


def burstable(requests: Amounts, name: str = "app") -> Container:
    return Container(name, amounts(requests))


def pod(*containers: Container, init: tuple[Container, ...] = (), overhead: Amounts | None = None) -> Pod:
    return Pod("p", containers=containers, init_containers=init, overhead=amounts(overhead))
