"""What is wrong with the pods of a manifest, wherever they run: what the API server refuses, and what is not pinned.

The kubelet pins and aligns only Guaranteed pods with whole CPUs, and says nothing about all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from numaware.diagnose.evidence.source_text import SourceText
from numaware.diagnose.explain.caveats import guarantee_gap
from numaware.diagnose.finding import Evidence, Finding, Message, Severity, Subject, finding
from numaware.machine.words import printable
from numaware.workload.demand import is_memory, quantity_text
from numaware.workload.manifest import Workload
from numaware.workload.pod import NANO, Container, Pod, amount, milli, units
from numaware.workload.problem import Problem
from numaware.workload.qos import qos_class
from numaware.workload.requirements import is_extended

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253
_NEAR = 300
# Containers of one pod told one by one.
_MOST = 20


def subject_of(workload: Workload) -> Subject:
    """Who a finding on these pods is about: the owner, since that is what a person edits."""
    name = f"{workload.name}/{workload.group}" if workload.group else workload.name
    return Subject(workload.kind, workload.namespace, printable(name, 160))


def problem_findings(problems: tuple[Problem, ...], source: SourceText) -> Iterator[Finding]:
    """What the API server refuses, and the fields that it drops without a word."""
    subject = Subject("File", name=source.file)
    for problem in problems[:_MOST]:
        if _is_filled_in_later(source, problem.line):
            continue
        facts: dict[str, Any] = {"path": problem.path, "message": problem.text}
        where = [source.at(problem.line)]
        if problem.severity == "error" or problem.code == "bad-name":
            yield finding("manifest-invalid", subject, facts, where)
        elif problem.near:
            facts["near"] = problem.near
            yield finding("ignored-field", subject, facts, where, variant="manifest")
        elif problem.code == "fraction-of-a-byte":
            yield finding("memory-in-fractions-of-a-byte", subject, facts, where)


def _is_filled_in_later(source: SourceText, line: int) -> bool:
    """Whether the line is a template's: what stands there is not what the API server will see."""
    text = source.lines[line - 1] if 0 < line <= len(source.lines) else ""
    return "${" in text or "{{" in text


def pod_findings(workload: Workload, source: SourceText) -> Iterator[Finding]:
    """All about the pods of one template."""
    yield from _name(workload, source)
    pod = workload.pod
    qos = qos_class(pod)
    if qos != "Guaranteed":
        yield _not_guaranteed(workload, source, qos)
    elif pod.pod_level:
        subject = subject_of(workload)
        place = [source.at(workload.line_of(f"{workload.spec_path}.resources"))]
        yield finding("pod-level-resources-not-pinned", subject, {"qos": qos}, place)
    else:
        yield from _fractional(workload, source)
    yield from _larger_init(workload, source)


def _name(workload: Workload, source: SourceText) -> Iterator[Finding]:
    if workload.name == "unnamed" or (
        len(workload.name) <= _LONGEST_NAME and _SUBDOMAIN.fullmatch(workload.name.rstrip("-"))
    ):
        return
    facts = {
        "path": "metadata.name",
        "message": f'Invalid value: "{printable(workload.name, 80)}": a lowercase RFC 1123 subdomain must consist of '
        "lower case letters, digits, '-' and '.', and start and end with a letter or digit",
    }
    yield finding("manifest-invalid", subject_of(workload), facts, [_name_line(workload, source)])


def _name_line(workload: Workload, source: SourceText) -> Evidence:
    """The line of the name, which stands near the spec, before or after it."""
    spec = workload.line_of(workload.spec_path)
    for number in range(max(1, spec - _NEAR), min(len(source.lines), spec + _NEAR) + 1):
        line = source.lines[number - 1]
        if workload.name in line and "ame" in line:
            return source.at(number, workload.name)
    return source.at(spec)


# Guaranteed or not


def _not_guaranteed(workload: Workload, source: SourceText, qos: str) -> Finding:
    pod = workload.pod
    gaps = list(_gaps(workload))
    missing = [{"container": name, "missing": what} for name, what, _, _ in gaps[:_MOST]]
    facts = {
        "qos": qos,
        "missing": Message("gaps", {"gaps": missing}) if missing else None,
        "containers": missing,
        "yaml": _guaranteed_yaml(pod),
    }
    evidence = [
        source.at(line, key=resource, label=what)
        for _, what, line, resource in sorted(gaps[:4], key=lambda gap: gap[2])
        if line
    ]
    severity: Severity = "warning" if workload.topology_policy or _wants_its_own(pod) else "info"
    return finding(
        "not-guaranteed", subject_of(workload), facts, evidence or [source.whole()], severity=severity
    )


def _gaps(workload: Workload) -> Iterator[tuple[str, Message, int, str]]:
    """What keeps each container from counting as Guaranteed: (container, what, line, resource)."""
    for path, container in _containers(workload):
        around = (f"{path}.resources", path)
        for resource in ("cpu", "memory"):
            gap = guarantee_gap(container, resource)
            if gap is not None and amount(container.limits, resource):
                line = workload.line_of(f"{path}.resources.requests[{resource}]", *around)
                yield container.name, gap, line, resource
            elif gap is not None:
                yield container.name, gap, workload.line_of(*around), ""


def _containers(workload: Workload) -> Iterator[tuple[str, Container]]:
    """Every container with the path of its field."""
    pod = workload.pod
    for field, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for index, container in enumerate(containers):
            yield f"{workload.spec_path}.{field}[{index}]", container


def _request_line(workload: Workload, path: str, resource: str) -> int:
    """Where a container asks for a resource: in its requests or its limits, else where its resources begin."""
    return workload.line_of(f"{path}.requests[{resource}]", f"{path}.limits[{resource}]", path)


def _wants_its_own(pod: Pod) -> bool:
    """Whether the author cares: devices, huge pages, whole CPUs, or a limit set apart from its request."""
    for container in pod.in_order:
        asked = {**dict(container.requests), **dict(container.limits)}
        if any(is_extended(name) or (is_memory(name) and name != "memory") for name in asked):
            return True
        cpu = max(amount(container.requests, "cpu"), amount(container.limits, "cpu"))
        if cpu >= NANO and milli(cpu) % 1000 == 0:
            return True
        for resource in ("cpu", "memory"):
            request, limit = amount(container.requests, resource), amount(container.limits, resource)
            if request and limit and request != limit:
                return True
    return False


def _guaranteed_yaml(pod: Pod) -> str:
    """The resources of the first container that is in the way, made equal and whole."""
    gaps = (one for one in pod.in_order if guarantee_gap(one, "cpu") or guarantee_gap(one, "memory"))
    container = next(gaps, pod.containers[0])
    cpu = max(amount(container.requests, "cpu"), amount(container.limits, "cpu"))
    memory = max(amount(container.requests, "memory"), amount(container.limits, "memory"))
    lines = [f'cpu: "{units(cpu) or 1}"', f"memory: {quantity_text('memory', memory) if memory else '1Gi'}"]
    both = "\n".join(
        f"    {field}:\n" + "\n".join(f"      {line}" for line in lines) for field in ("requests", "limits")
    )
    return f"- name: {printable(container.name, 63)}\n  resources:\n{both}"


def _fractional(workload: Workload, source: SourceText) -> Iterator[Finding]:
    """In a Guaranteed pod, the containers that run on the shared CPUs all the same."""
    fractions = (pair for pair in _containers(workload) if milli(amount(pair[1].requests, "cpu")) % 1000)
    for path, container in islice(fractions, _MOST):
        nano = amount(container.requests, "cpu")
        whole = units(nano)
        facts = {
            "container": container.name,
            "cpu": quantity_text("cpu", nano),
            "whole": whole,
            "milliCpu": milli(nano),
        }
        place = _request_line(workload, f"{path}.resources", "cpu")
        label = Message("not-whole", {"whole": whole})
        evidence = [source.at(place, key="cpu", label=label)]
        yield finding("fractional-cpu-not-pinned", subject_of(workload), facts, evidence)


# Init containers


def _larger_init(workload: Workload, source: SourceText) -> Iterator[Finding]:
    """Init containers that ask for more than all that runs after them."""
    pod = workload.pod
    pinned = qos_class(pod) == "Guaranteed" and not pod.pod_level
    staying = [*pod.containers, *(one for one in pod.init_containers if one.restartable)]
    for index, init in enumerate(pod.init_containers[:_MOST]):
        if init.restartable:
            continue
        for resource, nano in init.requests:
            later = sum(amount(container.requests, resource) for container in staying)
            if nano <= later:
                continue
            path = f"{workload.spec_path}.initContainers[{index}].resources"
            place = _request_line(workload, path, resource)
            facts = {
                "init": init.name,
                "resource": resource,
                "initAmount": quantity_text(resource, nano),
                "appAmount": quantity_text(resource, later),
            }
            yield finding(
                "init-larger-than-app",
                subject_of(workload),
                facts,
                [source.at(place, key=resource)],
                variant="" if pinned else "shared",
            )
