"""What a pod could ask for instead: the nearest amount of one resource, or of several where one is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from numaware.diagnose.explain.change import Change, admits, tries
from numaware.diagnose.finding import Message
from numaware.machine.quantity import Quantity
from numaware.twin.node import Node, Verdict
from numaware.workload.demand import ContainerDemand, is_memory, quantity_text
from numaware.workload.pod import NANO, Container, Pod, Resources, amount

_MEBI = 1 << 20


class _Knob(NamedTuple):
    """One resource of one container: how much was asked for, and in which steps it is handed out."""

    place: int
    resource: str
    asked: int
    step: int


def request_changes(node: Node, pod: Pod, verdict: Verdict) -> Iterator[Change]:
    """Other requests that would be admitted, each change alone; two or more together only if none alone is."""
    wanted = node.kubelet.demand(pod).containers
    knobs = [knob for index, container in enumerate(wanted) for knob in _knobs(node, index, container)]
    # In container scope the refusal was about one container; less for another could help, but not as plainly.
    refused = [knob for knob in knobs if verdict.container in ("", wanted[knob.place].name)]
    proposed = False
    for knob in refused:
        count = _nearest(node, pod, knob, smt=verdict.reason == "SMTAlignmentError")
        if count:
            proposed = True
            yield _change(pod, {knob: count})
    for change in _larger_init(node, pod, wanted, verdict.container):
        proposed = True
        yield change
    if not proposed:
        yield from _several(node, pod, [*(knob for knob in knobs if knob not in refused), *refused])


def _knobs(node: Node, index: int, container: ContainerDemand) -> Iterator[_Knob]:
    """What the managers of this node hand out to a container."""
    kubelet = node.kubelet
    if kubelet.cpus and container.cpus:
        per_core = kubelet.layout.cpus_per_core if kubelet.cpus.options.full_pcpus_only else 1
        yield _Knob(index, "cpu", container.cpus, per_core)
    if kubelet.memory:
        for kind, count in container.memory:
            size = kind.removeprefix("hugepages-")
            if count:
                yield _Knob(index, kind, count, _MEBI if size == kind else Quantity.parse(size).value)
    for name, count in container.devices:
        if count and name in kubelet.devices.inventories:
            yield _Knob(index, name, count, 1)


def _nearest(node: Node, pod: Pod, knob: _Knob, *, smt: bool = False) -> int | None:
    """The most below what was asked for that is admitted, or with `smt` the least above; None if nothing is."""

    def fits(count: int) -> bool:
        return admits(node, _with(pod, knob, count))

    if is_memory(knob.resource):
        return _by_halving(fits, -(-knob.asked // knob.step), knob.step)
    above = range(knob.asked + 1, knob.asked + node.kubelet.layout.cpus_per_core) if smt else range(0)
    # What fits is no down-set (a larger request may prefer two NUMA nodes), so it is walked from the top.
    inventory = node.kubelet.devices.inventories.get(knob.resource)
    in_the_machine = node.kubelet.layout.cpu_count if inventory is None else len(inventory.ids)
    most = min(knob.asked - 1, in_the_machine)
    lowest = max(0, most - tries(node))
    near = next((count for count in (*above, *range(most, lowest, -1)) if fits(count)), None)
    return _by_halving(fits, lowest + 1, 1) if near is None and lowest else near


def _by_halving(fits: Callable[[int], bool], beyond: int, step: int) -> int | None:
    """An amount in whole steps that fits while one step more does not; `beyond` steps are known not to."""
    low, high = 0, beyond
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle * step):
            low = middle
        else:
            high = middle
    return low * step or None


def _larger_init(node: Node, pod: Pod, wanted: tuple[ContainerDemand, ...], refused: str) -> Iterator[Change]:
    """A container has to go where the pod's init containers were; a larger init container starts where both fit."""
    count = next((container.cpus for container in wanted if container.name == refused), 0)
    for index, container in enumerate(wanted):
        knob = _Knob(index, "cpu", container.cpus, 1)
        if container.ends and 0 < container.cpus < count and admits(node, _with(pod, knob, count)):
            yield _change(pod, {knob: count})


def _several(node: Node, pod: Pod, knobs: list[_Knob]) -> Iterator[Change]:
    """Everything at its least, if that is admitted; then one after the other gets back what it can."""
    smallest = pod
    for knob in knobs:
        smallest = _with(smallest, knob, min(knob.step, knob.asked))
    if not knobs or not admits(node, smallest):
        return
    changed: dict[_Knob, int] = {}
    for knob in knobs:
        whole = _with(smallest, knob, knob.asked)
        if admits(node, whole):
            smallest = whole
        else:
            changed[knob] = _nearest(node, smallest, knob) or min(knob.step, knob.asked)
            smallest = _with(smallest, knob, changed[knob])
    yield _change(pod, changed)


def _with(pod: Pod, knob: _Knob, count: int) -> Pod:
    """The pod with one container asking for another amount, as request and limit alike."""

    def changed(resources: Resources) -> Resources:
        return tuple((name, count * NANO if name == knob.resource else nano) for name, nano in resources)

    def replaced(containers: tuple[Container, ...], place: int) -> tuple[Container, ...]:
        old = containers[place]
        new = msgspec.structs.replace(old, requests=changed(old.requests), limits=changed(old.limits))
        return (*containers[:place], new, *containers[place + 1 :])

    inits = len(pod.init_containers)
    if knob.place < inits:
        return msgspec.structs.replace(pod, init_containers=replaced(pod.init_containers, knob.place))
    return msgspec.structs.replace(pod, containers=replaced(pod.containers, knob.place - inits))


def _change(pod: Pod, counts: dict[_Knob, int]) -> Change:
    """The change, and as a strategic merge patch of the pod spec."""
    changed = pod
    for knob, count in counts.items():
        changed = _with(changed, knob, count)
    asking = []
    patch: dict[str, list[dict[str, Any]]] = {}
    for place, knobs in groupby(sorted(counts), key=lambda knob: knob.place):
        container = pod.in_order[place]
        init = place < len(pod.init_containers)
        amounts = []
        parts: dict[str, dict[str, str]] = {}
        for knob in knobs:
            resource, count = knob.resource, counts[knob]
            amounts.append(((resource, count), (resource, knob.asked)))
            written = quantity_text(resource, count * NANO)
            for part, resources in (("requests", container.requests), ("limits", container.limits)):
                if amount(resources, resource):
                    parts.setdefault(part, {})[resource] = written
        asking.append({"container": container.name, "init": init, "amounts": amounts})
        listed = patch.setdefault("initContainers" if init else "containers", [])
        listed.append({"name": container.name, "resources": parts})
    return Change("request", Message("change-request", {"parts": asking}), patch, changed)
