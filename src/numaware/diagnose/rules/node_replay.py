"""A refused pod asked about again: the twin of its node, with the configuration, state files and manifest at hand."""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.diagnose.evidence.bundle import Bundle, Piece, about
from numaware.diagnose.evidence.logs.journal import stem
from numaware.diagnose.evidence.topology_report import with_report
from numaware.diagnose.explain.explanation import Explanation, explain
from numaware.diagnose.finding import Evidence, Finding
from numaware.errors import InputError
from numaware.machine.assumed_cores import with_cores
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import load_state
from numaware.twin.inventory import hardware_of, registered_resources
from numaware.twin.kubelet import start
from numaware.twin.node import Node
from numaware.twin.settings import configuration
from numaware.twin.state.device import DeviceCheckpoint
from numaware.workload.demand import quantity_text
from numaware.workload.manifest import Workload
from numaware.workload.pod import Pod

# What the kubelet says to a pod, and the twin too.
_REASONS = ("TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError")
_MOST_CHANGES = 3


def with_twin(bundle: Bundle, refusal: Finding) -> Finding:
    """The finding with what the pod asks for, and what the twin says, where the evidence is enough for that."""
    if refusal.subject.kind != "Pod" or not refusal.subject.name:
        return refusal
    piece = _workload(bundle, refusal)
    if piece is None:
        return refusal
    facts: dict[str, Any] = {**refusal.facts, "requests": _requests(piece.content.pod)}
    evidence = (*refusal.evidence, Evidence(piece.file))
    if refusal.facts.get("reason") in _REASONS:
        said = _ask(bundle, refusal.subject.node, piece.content)
        if said is not None:
            facts |= _compared(said, str(refusal.facts["reason"]))
        refusal = with_report(bundle, refusal, piece.content.pod)
        facts = {**facts, **refusal.facts}
        evidence = (*refusal.evidence, Evidence(piece.file))
    known = {name: value for name, value in facts.items() if value is not None}
    return msgspec.structs.replace(refusal, facts=known, evidence=evidence)


def _workload(bundle: Bundle, refusal: Finding) -> Piece[Workload] | None:
    """The manifest of the pod: of the pod itself, or of the controller whose name the pod's begins with."""
    subject = refusal.subject
    for piece in bundle.workloads:
        workload = piece.content
        if subject.namespace and workload.namespace not in (subject.namespace, "default"):
            continue
        if workload.kind == "Pod":
            if subject.name == workload.pod.name:
                return piece
        elif stem(subject.name).startswith(f"{workload.name}-"):
            return piece
    return None


def _requests(pod: Pod) -> dict[str, dict[str, str]]:
    return {
        container.name: {name: quantity_text(name, nano) for name, nano in container.requests}
        for container in pod.in_order
    }


def _ask(bundle: Bundle, node: str, workload: Workload) -> Explanation | None:
    """What the twin would do with the pod; None where the node is not known well enough."""
    machine, settings = about(bundle.machines, node), about(bundle.settings, node)
    if machine is None or settings is None:
        return None
    files = {
        piece.content.name: piece.content.data
        for piece in bundle.states
        if not node or len(bundle.states) <= 3 or node in piece.file
    }
    devices = [
        piece.content.checkpoint
        for piece in bundle.states
        if isinstance(piece.content.checkpoint, DeviceCheckpoint)
    ]
    try:
        # Where it is whole cores that count, none are assumed.
        counted = dict(settings.content.cpu_options or ()).get("full-pcpus-only") == "true"
        whole = machine.content if counted else with_cores(machine.content)
        resources = registered_resources(whole, devices[0])[0] if devices else None
        kubelet = start(hardware_of(whole, resources), configuration(settings.content))
        state = load_state(kubelet, files)
        return explain(node, Node(kubelet, state), workload.pod, totals=False)
    except (StartError, KubeletPanic, InputError, ValueError):
        return None


def _compared(said: Explanation, reason: str) -> dict[str, Any]:
    agrees = not said.admitted and said.reason == reason
    return {
        "twin": "confirmed" if agrees else "disagrees",
        "twinSays": said.reason or "admitted",
        "why": [cause.text for cause in said.why] or None,
        "changes": [change.text for change in said.changes[:_MOST_CHANGES]] or None,
        "bestChange": said.changes[0].text if agrees and said.changes else None,
    }
