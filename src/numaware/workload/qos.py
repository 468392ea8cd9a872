"""Quality-of-service class, and how much a pod needs at once when containers run one after another.

Mirrors the kubelet's `pkg/apis/core/v1/helper/qos` and the sidecar formula of its managers (v1.29 and later).
"""

from __future__ import annotations

from collections.abc import Callable

from numaware.workload.pod import Container, Pod, Qos, Resources, amount

_QOS_RESOURCES = ("cpu", "memory")


def qos_class(pod: Pod) -> Qos:
    """Guaranteed, Burstable or BestEffort; what the API server recorded wins."""
    if pod.qos is not None:
        return pod.qos
    if pod.pod_level:
        return _class_of([(pod.pod_requests, pod.pod_limits)])
    return _class_of([(container.requests, container.limits) for container in pod.in_order])


def _class_of(parts: list[tuple[Resources, Resources]]) -> Qos:
    requested = {name: sum(amount(requests, name) for requests, _ in parts) for name in _QOS_RESOURCES}
    limited = {name: sum(amount(limits, name) for _, limits in parts) for name in _QOS_RESOURCES}
    if not any(requested.values()) and not any(limited.values()):
        return "BestEffort"
    # KUBELET: sums decide, not each container: one container may request less than its limit if another makes
    # up for it; only the presence of both limits is asked of every container (GetPodQOS).
    every_limit = all(amount(limits, name) > 0 for _, limits in parts for name in _QOS_RESOURCES)
    return "Guaranteed" if every_limit and requested == limited else "Burstable"


def requested_in_all(pod: Pod, *, sidecars: bool = True) -> dict[str, int]:
    """Nano-units that a pod takes from a node as a whole, as schedulers count: its containers at their peak.

    What the pod asks for as a whole (pod-level resources) replaces that; the overhead comes on top of either, and so does
    what a resize in progress makes count.
    """

    def at_peak(name: str) -> int:
        return peak(pod, lambda container: amount(container.requests, name), sidecars=sidecars)

    total = {name: at_peak(name) for container in pod.in_order for name, _ in container.requests}
    total.update(pod.pod_requests)
    for name, nano in pod.overhead + pod.resizing:
        total[name] = total.get(name, 0) + nano
    return total


def peak(pod: Pod, need: Callable[[Container], int], *, sidecars: bool = True) -> int:
    """The most the pod needs at one moment, when `need` says what each container needs.

    Init containers run one by one before the app containers; a sidecar, once started, stays. Before v1.29 the
    managers knew no sidecars (`sidecars=False`): every init container then counts as one that ends.
    """
    running = 0
    most = 0
    for container in pod.init_containers:
        if sidecars and container.restartable:
            running += need(container)
            most = max(most, running)
        else:
            most = max(most, running + need(container))
    return max(most, running + sum(need(container) for container in pod.containers))
