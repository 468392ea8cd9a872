"""One pod, or pod template, from its node: API defaults applied, refusals and oddities collected on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec

from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.sentence import Sentence, sentence_of
from numaware.workload.pod import Container, Pod, Qos, Resources, amount
from numaware.workload.problem import Code, Problem
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
from numaware.workload.yamlfile import Node

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


class PodReader:
    """Reads one pod spec; afterwards `problems` tells what was found and `lines` where each field is."""

    def __init__(self, spec: Node, path: str) -> None:
        self.spec = spec
        self.path = path
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {path: spec.line}
        self._names: set[str] = set()

    def pod(self, name: str, namespace: str, uid: str, status: Node) -> Pod:
        """The pod as the kubelet gets it; worth using only if no problem is an error."""
        self._misplaced(self.spec, self.path, _MISPLACED_IN_SPEC)
        containers = self._containers("containers")
        if not containers:
            self._error(f"{self.path}.containers", self.spec.line, "Required value")
        init_containers = self._containers("initContainers")
        names = {
            name
            for container in containers + init_containers
            for name, _ in container.requests + container.limits
        }
        if len(names) > MAX_RESOURCES:
            text = Sentence(
                "names {count} resources; no pod has more than {most}", count=len(names), most=MAX_RESOURCES
            )
            self._error(self.path, self.spec.line, text)
            return Pod(name, namespace, uid)
        overhead = self._amounts(self.spec.get("overhead"), f"{self.path}.overhead")
        self._refuse(f"{self.path}.overhead", container_refusals(Requirements({}, overhead)))
        pod = Pod(
            name=name,
            namespace=namespace,
            uid=uid,
            containers=containers,
            init_containers=init_containers,
            qos=self._qos(status),
            overhead=resources(overhead),
        )
        own = self._own_requirements(pod)
        return msgspec.structs.replace(
            pod, pod_requests=resources(own.requests), pod_limits=resources(own.limits)
        )

    @property
    def refused(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)

    def _containers(self, field: str) -> tuple[Container, ...]:
        node = self.spec.get(field)
        path = f"{self.path}.{field}"
        if node.value is not None and not isinstance(node.value, list):
            text = Sentence("expected a list of containers, got a JSON {kind}", kind=node.kind)
            self._error(path, node.line, text)
        if len(node.items) > MAX_CONTAINERS:
            self._error(
                path, node.line, f"Too many: {len(node.items)}: must have at most {MAX_CONTAINERS} items"
            )
            return ()
        return tuple(
            self._container(item, f"{path}[{index}]", sidecar=field == "initContainers")
            for index, item in enumerate(node.items)
        )

    def _container(self, node: Node, path: str, *, sidecar: bool) -> Container:
        self.lines[path] = node.line
        name = self._container_name(node, path)
        self._misplaced(node, path, _MISPLACED_IN_CONTAINER)
        needs = self._requirements(node.get("resources"), f"{path}.resources").defaulted()
        self._refuse(f"{path}.resources", container_refusals(needs))
        return Container(
            name=name,
            requests=resources(needs.requests),
            limits=resources(needs.limits),
            restartable=sidecar and node.get("restartPolicy").value == "Always",
        )

    def _container_name(self, node: Node, path: str) -> str:
        given = node.get("name")
        if given.value is None or given.value == "":
            self._error(f"{path}.name", node.line, "Required value")
            return ""
        name = given.text
        if name is None:
            text = Sentence("expected text, got a JSON {kind}; put it in quotes", kind=given.kind)
            self._error(f"{path}.name", given.line, text)
            return ""
        if name in self._names:
            self._error(f"{path}.name", given.line, f'Duplicate value: "{printable(name, 80)}"')
        elif not _DNS_LABEL.fullmatch(name):
            text = Sentence("{name!r} is not a name the API server takes", name=printable(name, 80))
            self._note(f"{path}.name", given.line, text, "bad-name")
        self._names.add(name)
        return name

    def _requirements(self, node: Node, path: str) -> Requirements:
        self.lines[path] = node.line
        if node.value is not None and not isinstance(node.value, dict):
            text = Sentence("expected a mapping, got a JSON {kind}", kind=node.kind)
            self._error(path, node.line, text)
        self._misplaced(node, path, _MISPLACED_IN_RESOURCES)
        return Requirements(
            requests=self._amounts(node.get("requests"), f"{path}.requests"),
            limits=self._amounts(node.get("limits"), f"{path}.limits"),
        )

    def _amounts(self, node: Node, path: str) -> Amounts:
        self.lines[path] = node.line
        if node.value is not None and not isinstance(node.value, dict):
            text = Sentence(
                "expected a mapping of resources to quantities, got a JSON {kind}", kind=node.kind
            )
            self._error(path, node.line, text)
        amounts: Amounts = {}
        for name, value in node.mapping.items():
            field = f"{path}[{shown(name)}]"
            self.lines[field] = value.line
            try:
                amounts[name] = quantity(value)
            except ValueError as error:
                self._error(
                    field, value.line, Sentence("Invalid value: {problem}", problem=sentence_of(error))
                )
                continue
            if value.value is None:
                self._note(field, value.line, Sentence("has no value and counts as 0"))
            elif (name == "memory" or name.startswith(HUGEPAGES)) and amounts[name].milli_value % 1000:
                refusal = f'fractional byte value "{amounts[name]}" is invalid, must be an integer'
                self._note(field, value.line, refusal, "fraction-of-a-byte")
        return amounts

    def _own_requirements(self, pod: Pod) -> Requirements:
        """The pod's own resources (`spec.resources`), filled up from its containers as the API server does."""
        node = self.spec.get("resources")
        path = f"{self.path}.resources"
        needs = self._requirements(node, path) if node.value is not None else Requirements({}, {})
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
        self._refuse(path, pod_refusals(whole))
        self._refuse(path, _smaller_than_containers(whole, asked, limited))
        for index, container in enumerate(pod.containers):
            for name, nano in container.limits:
                if name in limits and nano > limits[name].nano:
                    where = f"{self.path}.containers[{index}].resources.limits[{shown(name)}]"
                    self._error(
                        where,
                        self.line_of(where),
                        f'Invalid value: "{Quantity(nano, limits[name].family)}": '
                        f"must be less than or equal to pod limits of {limits[name]}",
                    )
        return whole

    def _qos(self, status: Node) -> Qos | None:
        recorded = status.get("qosClass")
        for known in _QOS_CLASSES:
            if recorded.value == known:
                return known
        if recorded.value is not None:
            self._note("status.qosClass", recorded.line, Sentence("is no QoS class; it is computed instead"))
        return None

    def line_of(self, path: str) -> int:
        """The line of a field, or of the nearest field around it."""
        while path not in self.lines and "." in path:
            path = path.rsplit("[", 1)[0] if path.endswith("]") else path.rsplit(".", 1)[0]
        return self.lines.get(path, self.spec.line)

    def _misplaced(self, node: Node, path: str, table: dict[str, str]) -> None:
        for wrong, right in table.items():
            if wrong in node.mapping:
                line = node.mapping[wrong].line
                text = Sentence("is no field of Kubernetes and is ignored; did you mean {near}?", near=right)
                self._note(f"{path}.{wrong}", line, text, near=right)

    def _refuse(self, path: str, refusals: Iterable[Refusal]) -> None:
        for below, text in refusals:
            where = f"{path}.{below}" if below else path
            self._error(where, self.line_of(where), text)

    def _error(self, path: str, line: int, text: Sentence | str) -> None:
        self.problems.append(Problem("error", path, text, line))

    def _note(self, path: str, line: int, text: Sentence | str, code: Code = "", near: str = "") -> None:
        self.problems.append(Problem("note", path, text, line, code, near))


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
