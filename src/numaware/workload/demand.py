"""A pod's demands in the units the resource managers count in, worked out once per shape.

Exclusive CPUs, bytes of memory per kind, devices per resource: for each container in the order it is served, and
for the pod as a whole. Only what a manager would act on is here (a Burstable pod demands no exclusive CPU).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from numaware.machine.quantity import Quantity
from numaware.workload.pod import Container, Pod, Qos, Resources, Shape, amount, milli, units
from numaware.workload.qos import peak, qos_class

# (resource, amount) pairs, ascending by resource.
Amounts = tuple[tuple[str, int], ...]


class ContainerDemand(NamedTuple):
    """What one container wants. `ends` marks an ordinary init container: what it got may be used again."""

    name: str
    ends: bool
    cpus: int
    memory: Amounts
    devices: Amounts


class Demand(NamedTuple):
    """What a pod wants: container by container, and at its peak as one.

    `own` where the managers see that the pod has resources of its own (the gate PodLevelResourceManagers): what it wants as
    one is then those, whatever its containers ask for; nothing if it is not Guaranteed.
    """

    qos: Qos
    containers: tuple[ContainerDemand, ...]
    cpus: int
    memory: Amounts
    devices: Amounts
    own: bool = False


def demand(pod: Pod, *, sidecars: bool = True, pod_level: bool = False) -> Demand:
    """The demands of a pod; without `sidecars` (kubelets before v1.29) every init container is an ordinary one.

    `pod_level` where the gate PodLevelResourceManagers is open; `Kubelet.demand` knows both.
    """
    return demand_of(pod.shape, sidecars, pod_level)


def exclusive_cpus(container: Container) -> int:
    """Whole CPUs requested; a fraction gets none of its own. 1000m is 1."""
    request = amount(container.requests, "cpu")
    return _whole_cpus(request)


def _whole_cpus(request: int) -> int:
    return milli(request) // 1000 if milli(request) % 1000 == 0 else 0


def is_memory(resource: str) -> bool:
    """Whether the Memory Manager looks after a resource."""
    return resource == "memory" or resource.startswith("hugepages-")


def quantity_text(resource: str, nano: int) -> str:
    """An amount as it would be written in a manifest: memory in binary units, all else in decimal ones."""
    return str(Quantity(nano, "binary" if is_memory(resource) else "decimal"))


@lru_cache(maxsize=8192)
def demand_of(shape: Shape, sidecars: bool, pod_level: bool) -> Demand:
    """As `demand`, once for all pods of one shape."""
    containers, init_containers, recorded, requests, limits = shape
    pod = Pod("", "", "", containers, init_containers, recorded, (), requests, limits)
    qos = qos_class(pod)
    # KUBELET: the CPU and Memory Managers pass over pods that have resources of their own (pod-level resources), unless
    # their gate is open; of such a pod's containers only those get something that would be Guaranteed by themselves.
    own = pod_level and pod.pod_level
    pinned = qos == "Guaranteed" and (own or not pod.pod_level)
    last_init = len(pod.init_containers)
    demands = tuple(
        ContainerDemand(
            name=container.name,
            ends=index < last_init and not (sidecars and container.restartable),
            cpus=exclusive_cpus(container) if pinned and (not own or _is_guaranteed(container)) else 0,
            memory=_memory(container.requests) if pinned and (not own or _is_guaranteed(container)) else (),
            devices=tuple((name, units(nano)) for name, nano in container.limits),
        )
        for index, container in enumerate(pod.in_order)
    )
    # KUBELET: for a pod as a whole only kinds of memory count that an app container asks for; what init containers alone
    # want is first looked at when it is allocated (getPodRequestedResources).
    kinds = sorted({name for container in pod.containers for name, _ in _memory(container.requests)})
    whole = tuple((kind, _peak_of(pod, kind, limits=False, sidecars=sidecars)) for kind in kinds)
    if own:
        whole = tuple((kind, size) for kind, size in _memory(pod.pod_requests) if size)
    resources = sorted({name for container in pod.in_order for name, _ in container.limits})
    return Demand(
        qos=qos,
        containers=demands,
        cpus=_cpus_in_all(pod, own=own, sidecars=sidecars) if pinned else 0,
        memory=whole if pinned else (),
        devices=tuple((name, _peak_of(pod, name, limits=True, sidecars=sidecars)) for name in resources),
        own=own,
    )


def _cpus_in_all(pod: Pod, *, own: bool, sidecars: bool) -> int:
    if own:
        return _whole_cpus(amount(pod.pod_requests, "cpu"))
    return peak(pod, exclusive_cpus, sidecars=sidecars)


def _is_guaranteed(container: Container) -> bool:
    """Whether the container alone would make a Guaranteed pod."""
    return all(
        amount(container.requests, name) == amount(container.limits, name) > 0 for name in ("cpu", "memory")
    )


def _memory(requests: Resources) -> Amounts:
    return tuple((name, units(nano)) for name, nano in requests if is_memory(name))


def _peak_of(pod: Pod, name: str, *, limits: bool, sidecars: bool) -> int:
    def need(container: Container) -> int:
        return units(amount(container.limits if limits else container.requests, name))

    return peak(pod, need, sidecars=sidecars)
