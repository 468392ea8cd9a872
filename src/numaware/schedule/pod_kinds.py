"""What kind of pod it is: the workload class that handles it, and all that decides where it may go.

Exclusive pods with a policy of their own get a strict fit, exclusive pods without one the least distance, and pods that
share CPUs are spread by load and left to run-time affinity. Each pod is handled by exactly one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.schedule.node_facts import pod_requests
from numaware.workload.demand import demand
from numaware.workload.pod import Pod

WorkloadClass = Literal["high", "medium", "low"]

CLASS_ANNOTATION = "numaware.io/workload-class"
POLICY_ANNOTATIONS = ("numaware.io/numa-topology-policy", "volcano.sh/numa-topology-policy")
CLASSES: dict[str, WorkloadClass] = {"high": "high", "medium": "medium", "low": "low"}
_PRIORITY_CLASSES = {f"numaware-{name}": kind for name, kind in CLASSES.items()}


def workload_class(pod: Pod) -> WorkloadClass:
    """What the annotation says, else the PriorityClass, else what the pod itself is."""
    annotations = dict(pod.scheduling.annotations)
    said = CLASSES.get(annotations.get(CLASS_ANNOTATION, "")) or _PRIORITY_CLASSES.get(
        pod.scheduling.priority_class
    )
    if said is not None:
        return said
    if not is_exclusive(pod):
        return "low"
    return "high" if any(annotations.get(name) for name in POLICY_ANNOTATIONS) else "medium"


def is_exclusive(pod: Pod) -> bool:
    """Whether a kubelet would give the pod something of its own: CPUs or devices."""
    wanted = demand(pod)
    return any(part.cpus or any("/" in name for name, _ in part.devices) for part in wanted.containers)


def owns_something(pod: Pod) -> bool:
    """Whether any part of a node may be the pod's alone: CPUs, memory, devices or a part of one."""
    return is_exclusive(pod) or any(part.memory for part in demand(pod).containers)


class Kind(msgspec.Struct, frozen=True, cache_hash=True):
    """What decides the answer for a pod, besides its constraints: pods of one kind are asked about once."""

    shape: tuple[object, ...]
    requests: tuple[tuple[str, int], ...]
    workload: WorkloadClass


def kind_of(pod: Pod) -> Kind:
    """The kind of a pod; pods of one kind share one object, whose hash is worked out once."""
    scheduling = pod.scheduling
    place = (
        pod.containers,
        pod.init_containers,
        pod.qos,
        pod.pod_requests,
        pod.pod_limits,
        pod.overhead,
        scheduling.annotations,
        scheduling.priority_class,
    )
    known = _KINDS.get(place)
    if known is None:
        if len(_KINDS) >= _MOST_KINDS:
            _KINDS.clear()
        known = _KINDS[place] = Kind(pod.shape, pod_requests(pod), workload_class(pod))
    return known


_MOST_KINDS = 8192
_KINDS: dict[tuple[object, ...], Kind] = {}
