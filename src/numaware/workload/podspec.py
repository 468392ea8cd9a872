"""One pod, or pod template, from its node: API defaults applied, refusals and oddities collected on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec

from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.sentence import Sentence, sentence_of
from numaware.workload.fields import Field
from numaware.workload.pod import Container, Pod, Qos, Resources, amount, without_resources
from numaware.workload.qos import peak
from numaware.workload.requirements import (
    HUGEPAGES,
    Amounts,
    Refusal,
    Requirements,
    container_refusals,
    pod_refusals,
    quantity,
    resources,
    shown,
)
from numaware.workload.schedulingspec import PodSource, read_scheduling

# Far beyond any real pod. The cost of looking at a pod grows with the product of the two.
MAX_CONTAINERS = 250
MAX_RESOURCES = 64

_QOS_CLASSES: tuple[Qos, ...] = get_args(Qos)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# What people write, and where it has to be: a key that Kubernetes silently ignores.
_MISPLACED_IN_CONTAINER = {
    "resource": "resources",
    "Resources": "resources",
    "limits": "resources.limits",
    "limit": "resources.limits",
    "requests": "resources.requests",
    "request": "resources.requests",
}
_MISPLACED_IN_RESOURCES = {
    "limit": "limits",
    "Limits": "limits",
    "request": "requests",
    "Requests": "requests",
    "cpu": "limits or requests",
    "memory": "limits or requests",
}
_MISPLACED_IN_SPEC = {
    "container": "containers",
    "initContainer": "initContainers",
    "initcontainers": "initContainers",
    "limits": "containers[].resources.limits",
    "requests": "containers[].resources.requests",
}


def read_pod(source: PodSource, uid: str, status: Field) -> Pod:
    """The pod as scheduler and kubelet get it; worth using only if nothing in the reading is an error."""
    pod = msgspec.structs.replace(_resources_of(source, uid, status), scheduling=read_scheduling(source))
    served = pod.scheduling.served
    # KUBELET: a limit that the pod's status maps to a claim of DRA is passed over (allocateContainerResources, v1.35).
    return without_resources(pod, served.resources, limits_only=True) if served else pod


def _resources_of(source: PodSource, uid: str, status: Field) -> Pod:
    spec = source.root.get("spec").located()
    _note_misplaced(spec, _MISPLACED_IN_SPEC)
    names: set[str] = set()
    containers = _containers(spec.get("containers"), names)
    if not containers:
        spec.error("Required value", "containers")
    init_containers = _containers(spec.get("initContainers"), names)
    named = {
        name
        for container in containers + init_containers
        for name, _ in container.requests + container.limits
    }
    if len(named) > MAX_RESOURCES:
        spec.error(
            Sentence(
                "names {count} resources; no pod has more than {most}", count=len(named), most=MAX_RESOURCES
            )
        )
        return Pod(source.pod, source.namespace, uid)
    overhead = read_amounts(spec.get("overhead"))
    _refuse(spec.get("overhead"), container_refusals(Requirements({}, overhead)))
    pod = Pod(
        name=source.pod,
        namespace=source.namespace,
        uid=uid,
        containers=containers,
        init_containers=init_containers,
        qos=_qos(status.get("qosClass")),
        overhead=resources(overhead),
    )
    own = _own_requirements(spec, pod)
    return msgspec.structs.replace(
        pod, pod_requests=resources(own.requests), pod_limits=resources(own.limits)
    )


def _containers(listed: Field, names: set[str]) -> tuple[Container, ...]:
    """The containers of a list; `names` are those that stand before, and grow."""
    number = len(listed.node.items)
    if listed.value is not None and not isinstance(listed.value, list):
        listed.error(Sentence("expected a list of containers, got a JSON {kind}", kind=listed.node.kind))
    if number > MAX_CONTAINERS:
        listed.error(f"Too many: {number}: must have at most {MAX_CONTAINERS} items")
        return ()
    sidecars = listed.path.endswith("initContainers")
    return tuple(_container(item.located(), names, sidecar=sidecars) for item in listed.items())


def _container(container: Field, names: set[str], *, sidecar: bool) -> Container:
    name = _container_name(container, names)
    _note_misplaced(container, _MISPLACED_IN_CONTAINER)
    needs = _requirements(container.get("resources")).defaulted()
    _refuse(container.get("resources"), container_refusals(needs))
    return Container(
        name=name,
        requests=resources(needs.requests),
        limits=resources(needs.limits),
        restartable=sidecar and container.get("restartPolicy").value == "Always",
    )


def _container_name(container: Field, names: set[str]) -> str:
    given = container.get("name")
    if given.value in (None, ""):
        container.error("Required value", "name")
        return ""
    name = given.text()
    if name in names:
        given.error(f'Duplicate value: "{printable(name, 80)}"')
    elif name and not _DNS_LABEL.fullmatch(name):
        text = Sentence("{name!r} is not a name the API server takes", name=printable(name, 80))
        given.note(text, "bad-name")
    if name:
        names.add(name)
    return name


def _requirements(needs: Field) -> Requirements:
    needs.located().expect_mapping()
    _note_misplaced(needs, _MISPLACED_IN_RESOURCES)
    return Requirements(
        requests=read_amounts(needs.get("requests")), limits=read_amounts(needs.get("limits"))
    )


def read_amounts(listed: Field) -> Amounts:
    """Resources and their quantities, without those that are none."""
    kind = listed.located().node.kind
    if listed.value is not None and not isinstance(listed.value, dict):
        listed.error(Sentence("expected a mapping of resources to quantities, got a JSON {kind}", kind=kind))
    amounts: Amounts = {}
    for name, field in listed.mapping():
        try:
            amounts[name] = quantity(field.located().node)
        except ValueError as error:
            field.error(Sentence("Invalid value: {problem}", problem=sentence_of(error)))
            continue
        if field.value is None:
            field.note(Sentence("has no value and counts as 0"))
        elif (name == "memory" or name.startswith(HUGEPAGES)) and amounts[name].milli_value % 1000:
            refusal = f'fractional byte value "{amounts[name]}" is invalid, must be an integer'
            field.note(refusal, "fraction-of-a-byte")
    return amounts


def _own_requirements(spec: Field, pod: Pod) -> Requirements:
    """The pod's own resources (`spec.resources`), filled up from its containers as the API server does."""
    own = spec.get("resources")
    needs = _requirements(own) if own.value is not None else Requirements({}, {})
    if not needs.requests and not needs.limits:
        return needs
    asked, limited = _together(pod, limits=False), _together(pod, limits=True)
    pages = [name for name in limited if name.startswith(HUGEPAGES) and name not in needs.requests]
    limits = {**{name: limited[name] for name in pages}, **needs.limits}
    requests = needs.requests
    if limits:
        from_containers = {name: total for name, total in asked.items() if name in ("cpu", "memory")}
        requests = {**limits, **from_containers, **requests}
    whole = Requirements(requests, limits)
    _refuse(own, pod_refusals(whole))
    _refuse(own, _smaller_than_containers(whole, asked, limited))
    for index, container in enumerate(pod.containers):
        for name, nano in container.limits:
            if name in limits and nano > limits[name].nano:
                spec.reading.refuse(
                    f"{spec.path}.containers[{index}].resources.limits[{shown(name)}]",
                    f'Invalid value: "{Quantity(nano, limits[name].family)}": '
                    f"must be less than or equal to pod limits of {limits[name]}",
                )
    return whole


def _qos(recorded: Field) -> Qos | None:
    for known in _QOS_CLASSES:
        if recorded.value == known:
            return known
    if recorded.value is not None:
        recorded.note(Sentence("is no QoS class; it is computed instead"))
    return None


def _note_misplaced(around: Field, table: dict[str, str]) -> None:
    for wrong, right in table.items():
        if wrong in around.node.mapping:
            text = Sentence("is no field of Kubernetes and is ignored; did you mean {near}?", near=right)
            around.get(wrong).note(text, near=right)


def _refuse(field: Field, refusals: Iterable[Refusal]) -> None:
    for below, text in refusals:
        field.reading.refuse(f"{field.path}.{below}" if below else field.path, text)


def _together(pod: Pod, *, limits: bool) -> Amounts:
    """What the containers need at one moment, per resource; printed in the binary family, as sizes are."""

    def of(container: Container) -> Resources:
        return container.limits if limits else container.requests

    def at_peak(name: str) -> int:
        return peak(pod, lambda container: amount(of(container), name))

    names = sorted({name for container in pod.in_order for name, _ in of(container)})
    return {name: Quantity(at_peak(name), "decimal" if name == "cpu" else "binary") for name in names}


def _smaller_than_containers(needs: Requirements, asked: Amounts, limited: Amounts) -> Iterator[Refusal]:
    for name, total in asked.items():
        own = needs.requests.get(name)
        if own is not None and total.nano > own.nano:
            yield (
                f"requests[{name}]",
                f'Invalid value: "{own}": must be greater than or equal to aggregate container requests of {total}',
            )
    for name, total in limited.items():
        own = needs.limits.get(name)
        if own is not None and name.startswith(HUGEPAGES) and total.nano > own.nano:
            yield (
                f"limits[{shown(name)}]",
                f'Invalid value: "{own}": must be greater than or equal to aggregate container limits of {total}',
            )
