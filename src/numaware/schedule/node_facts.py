"""What a scheduler knows of a node besides its NUMA nodes, and what a pod takes from it in all.

Amounts are counted as kube-scheduler does: CPU in thousandths, everything else in whole units, and pods themselves as
a resource called `pods`.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from numaware.workload.demand import Amounts
from numaware.workload.pod import Container, Pod, Resources, milli, units
from numaware.workload.qos import requested_in_all
from numaware.workload.scheduling import Effect, Labels


class Taint(msgspec.Struct, frozen=True):
    """What keeps pods off a node unless they tolerate it."""

    key: str
    value: str
    effect: Effect


class NodeFacts(msgspec.Struct, frozen=True, cache_hash=True):
    """One node as the API server describes it: labels and amounts ascending by name, taints in the order they stand.

    The two policies are the kubelet's, None where nobody has told. `features` are those that it declares.
    """

    name: str
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = ()
    topology_policy: str | None = None
    cpu_policy: str | None = None
    features: tuple[str, ...] = ()


def pod_requests(pod: Pod) -> Amounts:
    """All that a pod takes from a node's allocatable, ascending by resource; amounts of zero are left out."""
    return _requests(pod.containers, pod.init_containers, pod.pod_requests, pod.overhead + pod.resizing)


@lru_cache(maxsize=8192)
def _requests(
    containers: tuple[Container, ...],
    init_containers: tuple[Container, ...],
    own: Resources,
    on_top: Resources,
) -> Amounts:
    pod = Pod("", containers=containers, init_containers=init_containers, pod_requests=own, overhead=on_top)
    total = requested_in_all(pod)
    counted = {name: milli(nano) if name == "cpu" else units(nano) for name, nano in total.items() if nano}
    return tuple(sorted({**counted, "pods": 1}.items()))
