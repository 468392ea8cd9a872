"""The smallest changes that would admit a refused pod, each proven by asking the twin again.

One knob is turned at a time: a smaller request, another policy, another option, or pods that would have to go. What is
proposed has been tried; what could not be proven is not proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, Literal

import msgspec

from numaware.diagnose.capacity import pod_name
from numaware.diagnose.wording import amount_of, quantity_of
from numaware.machine.quantity import Quantity
from numaware.twin.config import KubeletConfig, Options
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.kubelet import start
from numaware.twin.node import Node, Verdict
from numaware.twin.options import CPU_STAGES, STRICT_RESERVATION, TOPOLOGY_STAGES
from numaware.workload.demand import is_memory
from numaware.workload.pod import NANO, Container, Pod, Resources, amount, units

Kind = Literal["request", "policy", "option", "evict"]

# From strict to lax; a laxer policy is proposed only when no stricter one admits.
_POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
_MEBI = 1 << 20
# Tries for one knob; a request of more CPUs than this is searched from the top only so far.
_MOST_TRIES = 512
# Pods considered for eviction in pairs and more, the largest holders first.
_MOST_VICTIMS = 12


class Change(msgspec.Struct, frozen=True):
    """One proven change. `patch` is what to apply: a pod spec, a kubelet configuration, or the pods to remove."""

    kind: Kind
    text: str
    patch: Any


def changes(node: Node, pod: Pod, verdict: Verdict) -> tuple[Change, ...]:
    """Changes that each, alone, make the node admit the pod; nearest to what was asked first."""
    return (
        *_requests(node, pod, verdict),
        *_policies(node, pod),
        *_options(node, pod),
        *_evictions(node, pod),
    )


def admits(node: Node, pod: Pod) -> bool:
    """Whether the twin admits; a kubelet that would crash does not."""
    try:
        return node.admit(pod).admitted
    except KubeletPanic:
        return False


# Requests


def _requests(node: Node, pod: Pod, verdict: Verdict) -> Iterator[Change]:
    for index, container in enumerate(pod.in_order):
        if verdict.container and container.name != verdict.container:
            continue
        for resource in _countable(node, container):
            asked = units(amount(container.requests or container.limits, resource))
            fits = _largest(node, pod, index, resource, asked)
            if fits is not None:
                changed = amount_of(resource, fits)
                yield Change(
                    "request",
                    f"ask for {changed} instead of {quantity_of(resource, asked)} in container {container.name}",
                    _request_patch(pod, index, resource, fits),
                )


def _countable(node: Node, container: Container) -> list[str]:
    """The resources of a container that a manager of this node hands out in whole units."""
    names = {name for name, nano in (*container.requests, *container.limits) if nano > 0}
    managed = set(node.kubelet.devices.inventories)
    if node.kubelet.cpus:
        managed.add("cpu")
    if node.kubelet.memory:
        managed.update(kind for kind in names if is_memory(kind))
    return sorted(names & managed, key=lambda name: (name != "cpu", name))


def _largest(node: Node, pod: Pod, index: int, resource: str, asked: int) -> int | None:
    def fits(count: int) -> bool:
        return count > 0 and admits(node, _with_amount(pod, index, resource, count))

    if is_memory(resource):
        return _largest_memory(fits, asked, _page(resource))
    per_core = node.kubelet.layout.cpus_per_core
    # A core's worth more can be the nearest change where only whole cores are given.
    above = range(asked + 1, asked + per_core) if resource == "cpu" else range(0)
    below = range(asked - 1, max(0, asked - _MOST_TRIES), -1)
    return next((count for count in (*above, *below) if fits(count)), None)


def _largest_memory(fits: Callable[[int], bool], asked: int, page: int) -> int | None:
    """The most whole pages that fit, by halving; the answer itself is proven."""
    low, high = 0, -(-asked // page)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle * page):
            low = middle
        else:
            high = middle
    return low * page or None


def _page(resource: str) -> int:
    size = resource.removeprefix("hugepages-")
    return Quantity.parse(size).value if size != resource else _MEBI


def _with_amount(pod: Pod, index: int, resource: str, count: int) -> Pod:
    """The pod with one container asking for another amount, as request and limit alike."""

    def changed(resources: Resources) -> Resources:
        return tuple((name, count * NANO if name == resource else nano) for name, nano in resources)

    def replaced(containers: tuple[Container, ...], place: int) -> tuple[Container, ...]:
        old = containers[place]
        new = msgspec.structs.replace(old, requests=changed(old.requests), limits=changed(old.limits))
        return (*containers[:place], new, *containers[place + 1 :])

    inits = len(pod.init_containers)
    if index < inits:
        return msgspec.structs.replace(pod, init_containers=replaced(pod.init_containers, index))
    return msgspec.structs.replace(pod, containers=replaced(pod.containers, index - inits))


def _request_patch(pod: Pod, index: int, resource: str, count: int) -> dict[str, Any]:
    """A strategic merge patch of the pod spec."""
    container = pod.in_order[index]
    text = str(Quantity.of(count, "binary" if is_memory(resource) else "decimal"))
    parts = {
        part: {resource: text}
        for part, resources in (("requests", container.requests), ("limits", container.limits))
        if amount(resources, resource)
    }
    field = "initContainers" if index < len(pod.init_containers) else "containers"
    return {field: [{"name": container.name, "resources": parts}]}


# Kubelet configuration


def _policies(node: Node, pod: Pod) -> Iterator[Change]:
    config = node.kubelet.config
    if config.topology_policy in _POLICIES:
        for policy in _POLICIES[_POLICIES.index(config.topology_policy) + 1 :]:
            if _admits_with(node, pod, topology_policy=policy):
                text = f"set topologyManagerPolicy to {policy} (now {config.topology_policy})"
                yield Change("policy", text, {"topologyManagerPolicy": policy})
                break
    if config.topology_policy != "none":
        scope = "pod" if config.topology_scope == "container" else "container"
        if _admits_with(node, pod, topology_scope=scope):
            text = f"set topologyManagerScope to {scope} (now {config.topology_scope})"
            yield Change("policy", text, {"topologyManagerScope": scope})


def _options(node: Node, pod: Pod) -> Iterator[Change]:
    config = node.kubelet.config
    for field, key, known in (
        ("cpu_options", "cpuManagerPolicyOptions", CPU_STAGES),
        ("topology_options", "topologyManagerPolicyOptions", TOPOLOGY_STAGES),
    ):
        current: Options = getattr(config, field)
        for name in sorted(known):
            # Strict reservation changes which CPUs the state files may mention: no change to make on a live node.
            if name == STRICT_RESERVATION or dict(current).get(name, "true") not in ("true", "false"):
                continue
            on = dict(current).get(name) == "true"
            others = tuple(pair for pair in current if pair[0] != name)
            options = others if on else tuple(sorted((*others, (name, "true"))))
            if _admits_with(node, pod, **{field: options}):
                yield Change("option", f"{'remove' if on else 'add'} option {name}", {key: dict(options)})


def _admits_with(node: Node, pod: Pod, **changed: Any) -> bool:
    """Whether the node would admit under another configuration that can take over its state as it is."""
    config: KubeletConfig = msgspec.structs.replace(node.kubelet.config, **changed)
    try:
        kubelet = start(node.kubelet.hardware, config)
        if kubelet.cpus and kubelet.cpus.restore(node.state.cpu).shared != node.state.cpu.shared:
            return False
    except StartError:
        return False
    return admits(Node(kubelet, node.state), pod)


# Eviction


def _evictions(node: Node, pod: Pod) -> Iterator[Change]:
    victims = _smallest_eviction(node, pod)
    if victims:
        names = [pod_name(node, uid) for uid in victims]
        pods = "pod" if len(names) == 1 else "pods"
        yield Change(
            "evict",
            f"remove {pods} {', '.join(names)}",
            {"evict": [_reference(node, uid) for uid in victims]},
        )


def _smallest_eviction(node: Node, pod: Pod) -> tuple[str, ...]:
    """The fewest pods whose leaving admits the pod, small ones first among equally few."""
    holders = sorted(
        (uid for uid in node.state.pods if _held(node, uid) != (0, 0, 0)),
        key=lambda uid: (_held(node, uid), uid),
    )
    for uid in holders:
        if admits(node.release(uid), pod):
            return (uid,)
    largest = holders[-_MOST_VICTIMS:]
    for size in (2, 3):
        for uids in combinations(largest, size):
            if admits(node.release(*uids), pod):
                return uids
    return tuple(holders) if len(holders) > 3 and admits(node.release(*holders), pod) else ()


def _held(node: Node, uid: str) -> tuple[int, int, int]:
    """How much a pod holds: CPUs, bytes, devices."""
    state = node.state
    return (
        sum(cpus.bit_count() for cpus in state.cpu.owned.get(uid, {}).values()),
        sum(block.size for blocks in state.memory.blocks.get(uid, {}).values() for block in blocks),
        sum(mask.bit_count() for held in state.device.owned.get(uid, {}).values() for mask in held.values()),
    )


def _reference(node: Node, uid: str) -> dict[str, str]:
    found = node.state.pods[uid]
    named = {"namespace": found.namespace, "name": found.name} if found.namespace else {}
    return {**named, "uid": uid}
