"""What a pod asks for, as the peers add it up, and which resources they tie to NUMA nodes."""

from __future__ import annotations

from numaware.workload.pod import Container, Pod, Resources, amount
from numaware.workload.qos import peak
from numaware.workload.requirements import HUGEPAGES, is_extended, is_native

_ALWAYS_REPORTED = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def effective_request(pod: Pod) -> Resources:
    """Per resource the largest init container or the sum of the containers, whichever is more, plus overhead.

    A sidecar counts as any other init container, so what it holds while the pod runs is not added. The pod's own
    resources (`spec.resources`) are not looked at.
    """
    total = _summed(pod.containers)
    for container in pod.init_containers:
        for name, nano in container.requests:
            total[name] = max(total.get(name, 0), nano)
    for name, nano in pod.overhead:
        total[name] = total.get(name, 0) + nano
    return tuple(sorted(total.items()))


def _summed(containers: tuple[Container, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        for name, nano in container.requests:
            total[name] = total.get(name, 0) + nano
    return total


def pod_request(pod: Pod) -> Resources:
    """What Kubernetes itself counts for a pod: its peak with sidecars running on, or its own request, plus overhead."""

    def at_peak(name: str) -> int:
        return peak(pod, lambda container: amount(container.requests, name))

    total = {name: at_peak(name) for container in pod.in_order for name, _ in container.requests}
    total.update(pod.pod_requests)
    for name, nano in pod.overhead:
        total[name] = total.get(name, 0) + nano
    return tuple(sorted(total.items()))


def names_a_device(pod: Pod) -> bool:
    """Whether some container requests a resource that is not Kubernetes' own, if only zero of it."""
    return any(not is_native(name) for container in pod.in_order for name, _ in container.requests)


def is_numa_bound(resource: str) -> bool:
    """Whether the kubelet ties it to NUMA nodes, for pods that are Guaranteed."""
    return resource in ("cpu", "memory") or resource.startswith(HUGEPAGES)


def is_host_level(resource: str) -> bool:
    """Whether it may belong to the machine as a whole."""
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def is_counted(resource: str, allocatable: frozenset[str]) -> bool:
    """Whether kube-scheduler's own books have the resource on a node with these names in `status.allocatable`."""
    if resource in _ALWAYS_REPORTED:
        return True
    countable = (
        is_extended(resource)
        or resource.startswith((HUGEPAGES, "attachable-volumes-"))
        or "kubernetes.io/" in resource
    )
    return countable and resource in allocatable
