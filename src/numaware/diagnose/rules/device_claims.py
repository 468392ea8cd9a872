"""Claims of DRA before they are applied: what keeps the devices of a claim together, and who hands out CPUs.

The kubelet's Topology Manager hears nothing of such devices. Among themselves a `matchAttribute` of the claim aligns them; with CPUs
only a driver of CPUs would, and that and the CPU Manager's static policy exclude each other. `lint` calls it for every file.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaware.diagnose.evidence.source_text import SourceText
from numaware.diagnose.finding import Finding, Subject, finding
from numaware.diagnose.rules.manifests import subject_of
from numaware.machine.words import printable
from numaware.workload.demand import demand
from numaware.workload.dra.known import DraObjects
from numaware.workload.dra.objects import (
    ALIGNING,
    CPU_DRIVERS,
    NUMA_NODE,
    ClaimTemplate,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    DraObject,
)
from numaware.workload.dra.reading import is_of_dra, read_object
from numaware.workload.manifest import Manifest, Workload, objects
from numaware.workload.yamlfile import Node

_MOST = 20
# Images of drivers that hand out CPUs.
_CPU_DRIVER_IMAGE = "dra-driver-cpu"


def claim_findings(
    parsed: list[Node], pods: Manifest, source_text: SourceText, cpu_policies: frozenset[str]
) -> list[Finding]:
    """All about DRA in a file; `cpu_policies` are those of the kubelets whose configurations are given with it."""
    found: list[Finding] = []
    known = DraObjects()
    static = "static" in cpu_policies
    for _, kind, node in objects(parsed, source_text.file):
        subject, place = Subject(kind, name=_name_of(node)), source_text.at(node.line)
        driver = _CPU_DRIVER_IMAGE if _runs_cpu_driver(node) else ""
        if is_of_dra(node, kind):
            try:
                one = read_object(node, kind)
            except ValueError as error:
                facts = {"path": kind, "message": str(error)}
                found.append(finding("manifest-invalid", subject, facts, [place]))
                continue
            known.put(one)
            found += _together(one, node, source_text)
            driver = next(iter(_cpu_drivers(one)), "")
        if driver and static:
            found.append(finding("cpu-driver-beside-static", subject, {"driver": driver}, [place]))
    found += [one for workload in pods.workloads for one in _unaligned(workload, known, source_text)]
    return found[:_MOST]


def has_claims(parsed: list[Node], source: str) -> bool:
    """Whether a file has objects of DRA."""
    return any(is_of_dra(node, kind) for _, kind, node in objects(parsed, source))


def _cpu_drivers(one: DraObject) -> frozenset[str]:
    """The drivers of CPUs that an object names: its own, or as a class, which they call by their name."""
    match one:
        case DeviceSlice():
            named = {one.driver}
        case DeviceClass():
            named = {one.name, *one.drivers}
        case _:
            named = {name for request in one.spec.requests for name in request.classes}
    return CPU_DRIVERS & named


def _together(one: DraObject, node: Node, source_text: SourceText) -> Iterator[Finding]:
    """A claim of several devices that may lie on any NUMA nodes."""
    if not isinstance(one, DeviceClaim | ClaimTemplate):
        return
    spec, template = one.spec, isinstance(one, ClaimTemplate)
    requests = node.get(*(("spec",) if template else ()), "spec", "devices", "requests")
    aligned = [
        one for one in spec.constraints if one.attribute in ALIGNING or one.attribute.endswith("/numaNode")
    ]
    loose = [each for each in spec.requests if not any(rule.covers(each.name) for rule in aligned)]
    several = len(spec.requests) > 1
    if not loose or not (several or any(each.count is None or each.count > 1 for each in loose)):
        return
    names = [printable(each.name, 63) for each in spec.requests]
    facts = {
        "requests": names,
        "yaml": f"constraints:\n- requests: [{', '.join(names)}]\n  matchAttribute: {NUMA_NODE}",
    }
    yield finding(
        "claim-not-aligned",
        Subject(
            "ResourceClaimTemplate" if template else "ResourceClaim",
            printable(one.namespace, 80),
            printable(one.name, 160),
        ),
        facts,
        [source_text.at(requests.line)],
        severity="warning" if several else "info",
        variant="" if several else "one-request",
    )


def _runs_cpu_driver(node: Node) -> bool:
    containers = node.get("spec", "template", "spec", "containers").items
    return any(_CPU_DRIVER_IMAGE in (one.get("image").text or "") for one in containers)


def _name_of(node: Node) -> str:
    return printable(node.get("metadata", "name").text or "", 160)


def _unaligned(workload: Workload, known: DraObjects, source_text: SourceText) -> Iterator[Finding]:
    """A pod that gets CPUs of its own from the kubelet, on NUMA nodes that its claims know nothing of."""
    pod = workload.pod
    names = [one.name or ", ".join(one.resources) for one in known.asks_of(pod, known.served(pod))]
    if names and any(part.cpus for part in demand(pod).containers):
        facts = {"names": [printable(name, 80) for name in names]}
        place = source_text.at(workload.line_of(workload.spec_path))
        yield finding("devices-served-by-dra", subject_of(workload), facts, [place])
