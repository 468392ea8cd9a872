"""What a verdict alone does not say: containers that are not pinned, requests no manager looks at, a slow kubelet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from numaware.diagnose.finding import Message
from numaware.machine.quantity import Quantity
from numaware.twin.node import Merge, Node
from numaware.twin.rules import modelled_as
from numaware.twin.topology.cost import combinations, kubelet_seconds
from numaware.workload.demand import exclusive_cpus, quantity_text
from numaware.workload.pod import Container, Pod, amount, units
from numaware.workload.qos import qos_class, requested_in_all
from numaware.workload.requirements import is_extended


def caveats(node: Node, pod: Pod, merges: list[Merge], *, admitted: bool) -> Iterator[Message]:
    """One sentence each, the ones that change the meaning of the verdict first."""
    version = node.kubelet.config.version
    if stand_in := modelled_as(version):
        yield Message("caveat-newer", {"version": version, "known": stand_in})
    if pod.uid in node.state.pods:
        yield Message("caveat-here")
    if admitted:
        yield from _beyond_amounts(node, pod)
    yield from _not_pinned(node, pod)
    yield from _slow_merges(node, merges)


def beyond_the_node(node: Node, pod: Pod) -> Iterator[Message]:
    """What other parts of Kubernetes would stop: the resource managers do not count what is shared, or nobody offers."""
    yield from _beyond_amounts(node, pod)
    yield from unoffered_devices(node, pod)


def _beyond_amounts(node: Node, pod: Pod) -> Iterator[Message]:
    offered = dict(_allocatable(node))
    for resource, nano in sorted(requested_in_all(pod, sidecars=node.kubelet.rules.sidecars).items()):
        if resource in offered and nano > offered[resource]:
            asked, most = (resource, units(nano)), (resource, offered[resource] // 10**9)
            yield Message("beyond-amount", {"asked": asked, "most": most, "resource": resource})


def unoffered_devices(node: Node, pod: Pod, served: Collection[str] = ()) -> Iterator[Message]:
    """Devices that the pod wants and neither a plugin of the node has nor DRA has `served`: no scheduler sends the pod there."""
    for resource, nano in sorted(requested_in_all(pod, sidecars=node.kubelet.rules.sidecars).items()):
        known = {*node.kubelet.devices.inventories, *served}
        if nano and is_extended(resource) and resource not in known:
            yield Message("beyond-device", {"resource": resource})


def _allocatable(node: Node) -> Iterator[tuple[str, int]]:
    """What the node offers in all, in nano-units, of what every node has; memory only where the machine's is known."""
    reservation = node.kubelet.reservation
    numa = node.kubelet.hardware.numa
    pages = sum(size for one in numa for _, size in one.hugepages)
    totals = {
        "cpu": node.kubelet.layout.cpu_count,
        "memory": max(0, sum(one.memory_bytes for one in numa) - pages),
    }
    for resource, total in totals.items():
        if total:
            kept = reservation.get(resource, Quantity.of(0)).nano
            yield resource, max(0, total * 10**9 - kept)


def _not_pinned(node: Node, pod: Pod) -> Iterator[Message]:
    """Which containers the CPU and Memory Managers pass over, and why; silent where neither does anything."""
    kubelet = node.kubelet
    if not kubelet.cpus and not kubelet.memory:
        return
    what = "cpu" if kubelet.cpus else "memory"
    if pod.pod_level and not kubelet.pod_level:
        yield Message("caveat-pod-level", {"what": what})
        return
    qos = qos_class(pod)
    if qos != "Guaranteed":
        yield Message("caveat-qos", {"what": what, "qos": qos, **_missing(pod)})
        return
    if kubelet.cpus:
        for container in pod.in_order:
            if not pod.pod_level and not exclusive_cpus(container):
                cpu = str(Quantity(amount(container.requests, "cpu")))
                yield Message("caveat-fraction", {"container": container.name, "cpu": cpu})


def _missing(pod: Pod) -> dict[str, Any]:
    """The first thing that keeps a pod from being Guaranteed; what its containers ask for does not, if it asks itself."""
    if pod.pod_level:
        return {}
    for container in pod.in_order:
        for resource in ("cpu", "memory"):
            gap = guarantee_gap(container, resource)
            if gap:
                return {"container": container.name, "gap": gap}
    return {}


def guarantee_gap(container: Container, resource: str) -> Message | None:
    """What keeps a container from counting as Guaranteed, None where nothing does."""
    request, limit = amount(container.requests, resource), amount(container.limits, resource)
    if not limit:
        return Message("gap-no-limit", {"resource": resource})
    if request != limit:
        amounts = {"request": quantity_text(resource, request), "limit": quantity_text(resource, limit)}
        return Message("gap-differs", {"resource": resource, **amounts})
    return None


def _slow_merges(node: Node, merges: list[Merge]) -> Iterator[Message]:
    """Merges that take the twin no time, but would keep a real kubelet busy."""
    single = node.kubelet.config.topology_policy == "single-numa-node"
    for merge in merges:
        lists = [hints for answer in (merge.device, merge.cpu, merge.memory) for hints in answer.values()]
        count = combinations(lists, single_nodes=single)
        seconds = kubelet_seconds(count)
        if seconds:
            facts: dict[str, Any] = {"count": count, "seconds": seconds}
            if merge.container:
                yield Message("caveat-slow-container", {**facts, "container": merge.container})
            else:
                yield Message("caveat-slow", facts)
