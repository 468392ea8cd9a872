"""What a verdict alone does not say: containers that are not pinned, requests no manager looks at, a slow kubelet."""

from __future__ import annotations

from collections.abc import Iterator

from numaware.diagnose.wording import amount_of, quantity_of
from numaware.machine.quantity import Family, Quantity
from numaware.twin.node import Merge, Node
from numaware.twin.topology.cost import combinations, kubelet_seconds
from numaware.workload.demand import exclusive_cpus, is_memory
from numaware.workload.pod import Container, Pod, amount, units
from numaware.workload.qos import peak, qos_class
from numaware.workload.requirements import is_extended


def caveats(node: Node, pod: Pod, merges: list[Merge], *, admitted: bool) -> Iterator[str]:
    """One sentence each, the ones that change the meaning of the verdict first."""
    if pod.uid in node.state.pods:
        yield (
            "this pod is on the node already: this is what the kubelet would say of it after a restart, "
            "given what the pod holds"
        )
    if admitted:
        yield from beyond_the_node(node, pod)
    yield from _not_pinned(node, pod)
    yield from _slow_merges(node, merges)


def beyond_the_node(node: Node, pod: Pod) -> Iterator[str]:
    """What other parts of Kubernetes would stop: the resource managers do not count what is shared."""
    offered = dict(_allocatable(node))
    names = {name for one in pod.in_order for name, _ in one.requests} | {
        name for name, _ in pod.pod_requests
    }
    for resource in sorted(names):
        nano = _asked_in_all(node, pod, resource)
        if resource in offered and nano > offered[resource]:
            most = quantity_of(resource, offered[resource] // 10**9)
            yield (
                f"the pod asks for {amount_of(resource, units(nano))} and the node offers {most}: no scheduler "
                f"would send it here, and the kubelet would fail it with OutOf{resource}"
            )
        elif nano and is_extended(resource) and resource not in node.kubelet.devices.inventories:
            yield (
                f"no device plugin here offers {resource}, so the kubelet passes over it; "
                "a scheduler would not send the pod here"
            )


def _asked_in_all(node: Node, pod: Pod, resource: str) -> int:
    """Nano-units of a resource as a scheduler counts them."""

    def need(container: Container) -> int:
        return amount(container.requests, resource)

    containers = peak(pod, need, sidecars=node.kubelet.rules.sidecars)
    return max(containers, amount(pod.pod_requests, resource)) + amount(pod.overhead, resource)


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


def _not_pinned(node: Node, pod: Pod) -> Iterator[str]:
    """Which containers the CPU and Memory Managers pass over, and why; silent where neither does anything."""
    kubelet = node.kubelet
    if not kubelet.cpus and not kubelet.memory:
        return
    what = "CPUs" if kubelet.cpus else "memory"
    if pod.pod_level:
        yield (
            f"no container gets {what} of its own: the pod has resources as a whole (spec.resources), "
            "and the CPU and Memory Managers pass over such pods"
        )
        return
    qos = qos_class(pod)
    if qos != "Guaranteed":
        yield (
            f"no container gets {what} of its own: the pod is {qos}, and only Guaranteed pods do"
            + _missing(pod)
        )
        return
    if kubelet.cpus:
        for container in pod.in_order:
            if not exclusive_cpus(container):
                cpu = Quantity(amount(container.requests, "cpu"))
                yield (
                    f"container {container.name} gets no CPUs of its own: it asks for {cpu} CPU, "
                    "and only whole numbers are pinned"
                )


def _missing(pod: Pod) -> str:
    """The first thing that keeps a pod from being Guaranteed."""
    for container in pod.in_order:
        for resource in ("cpu", "memory"):
            reason = _differs(container, resource)
            if reason:
                return f" (container {container.name} {reason})"
    return ""


def _differs(container: Container, resource: str) -> str:
    request, limit = amount(container.requests, resource), amount(container.limits, resource)
    if not limit:
        return f"has no {resource} limit"
    if request != limit:
        family: Family = "binary" if is_memory(resource) else "decimal"
        return f"requests {Quantity(request, family)} {resource} of a limit of {Quantity(limit, family)}"
    return ""


def _slow_merges(node: Node, merges: list[Merge]) -> Iterator[str]:
    """Merges that take the twin no time, but would keep a real kubelet busy."""
    single = node.kubelet.config.topology_policy == "single-numa-node"
    for merge in merges:
        lists = [hints for answer in (merge.device, merge.cpu, merge.memory) for hints in answer.values()]
        count = combinations(lists, single_nodes=single)
        seconds = kubelet_seconds(count)
        if seconds:
            who = f"container {merge.container}" if merge.container else "this pod"
            yield (
                f"a real kubelet would try {count:,} combinations of hints for {who}, about {_duration(seconds)}; "
                "fewer NUMA nodes (BIOS: NPS, SNC) or fewer resources with topology keep it quick"
            )


def _duration(seconds: int) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds" if seconds > 1 else "1 second"
