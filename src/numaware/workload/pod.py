"""A pod as the kubelet's resource managers see it: names, amounts, and the order its containers run in.

Amounts are exact integers in nano-units (`Quantity.nano`), because QoS compares exact sums while the managers
round up to CPUs in thousandths or to bytes. Resources are sorted tuples of pairs, so a pod is hashable and two
pods with equal `shape` are treated alike by every manager.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from numaware.workload.scheduling import NO_SCHEDULING, Scheduling

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]
# (resource name, nano-units), ascending by name, no name twice.
Resources = tuple[tuple[str, int], ...]

NANO = 10**9
_NANO_PER_MILLI = 10**6


class Container(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """One container; `restartable` marks an init container with restartPolicy Always (a sidecar)."""

    name: str
    requests: Resources = ()
    limits: Resources = ()
    restartable: bool = False


# Containers, init containers, recorded QoS class, the pod's own requests and limits.
Shape = tuple[tuple[Container, ...], tuple[Container, ...], Qos | None, Resources, Resources]


class Pod(msgspec.Struct, frozen=True, gc=False):
    """One pod after API defaulting (a limit without a request is also the request).

    `qos` is `status.qosClass` where the manifest carries it. `pod_level` says that the pod has resources of its
    own (`spec.resources`); `pod_requests` and `pod_limits` hold them. `scheduling` is what decides about the node before
    any manager sees the pod, and so is no part of its shape; nor is `resizing`, what a resize in progress makes schedulers count
    beyond what the kubelet holds for the pod (`resize.py`).
    """

    name: str
    namespace: str = "default"
    uid: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    qos: Qos | None = None
    overhead: Resources = ()
    pod_requests: Resources = ()
    pod_limits: Resources = ()
    scheduling: Scheduling = NO_SCHEDULING
    resizing: Resources = ()

    @property
    def pod_level(self) -> bool:
        return bool(self.pod_requests or self.pod_limits)

    @property
    def in_order(self) -> tuple[Container, ...]:
        """Init containers, then app containers: the order in which the kubelet hands out resources."""
        return self.init_containers + self.containers

    @property
    def shape(self) -> Shape:
        """All that the managers look at; pods of one shape get one answer on one node state."""
        return self.containers, self.init_containers, self.qos, self.pod_requests, self.pod_limits


def without_resources(pod: Pod, names: Collection[str], *, limits_only: bool = False) -> Pod:
    """The pod as if its containers did not ask for these resources; `limits_only` for who looks at limits alone."""

    def left(resources: Resources) -> Resources:
        return tuple((name, nano) for name, nano in resources if name not in names)

    def without(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            msgspec.structs.replace(
                one, limits=left(one.limits), requests=one.requests if limits_only else left(one.requests)
            )
            for one in containers
        )

    return msgspec.structs.replace(
        pod, containers=without(pod.containers), init_containers=without(pod.init_containers)
    )


def amount(resources: Resources, name: str) -> int:
    """The nano-units of one resource, 0 when it is not named."""
    for key, nano in resources:
        if key == name:
            return nano
    return 0


def units(nano: int) -> int:
    """Whole units, rounded up: bytes, devices, CPUs."""
    return -(-nano // NANO)


def milli(nano: int) -> int:
    """Thousandths, rounded up: the kubelet's MilliValue of a CPU amount."""
    return -(-nano // _NANO_PER_MILLI)
