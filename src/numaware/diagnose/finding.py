"""What was found in a piece of evidence: one model for every reader, rule, language and renderer.

A `Finding` holds facts, not sentences. Its code (and `variant`, where one code has several texts) picks the texts of
a language, which are filled from the facts: so a finding reads the same in a terminal, in JSON, in a report and in
another language. Codes are a contract with other people's scripts: they are added to and never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

Severity = Literal["error", "warning", "info"]
# certain: the evidence says so in as many words; likely: it follows from facts seen; possible: one reading of several.
Confidence = Literal["certain", "likely", "possible"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")

# Every code with the severity it has unless a rule knows better.
CODES: dict[str, Severity] = {
    # a pod was refused, or got less than it asked for
    "topology-affinity-error": "error",
    "topology-affinity-error-disjoint-hints": "error",
    "smt-alignment-error": "error",
    "not-enough-exclusive-cpus": "error",
    "distributed-cpus-miscounted": "error",
    "empty-pod-shared-pool": "error",
    "not-enough-memory-on-nodes": "error",
    "out-of-cpu": "error",
    "out-of-resource": "error",
    "devices-unavailable": "error",
    "devices-unhealthy": "error",
    "device-plugin-error": "error",
    "device-plugin-refused": "error",
    "admission-error": "error",
    "admission-loop": "error",
    "unaligned-under-best-effort": "warning",
    "cpu-spread-over-nodes-under-best-effort": "warning",
    "memory-needs-two-nodes": "warning",
    # a kubelet does not start, or would not
    "cpu-manager-no-reserved-cpus": "error",
    "cpu-manager-reserved-cpus-wrong": "error",
    "cpu-manager-state-policy-mismatch": "error",
    "cpu-manager-state-reserved-mismatch": "error",
    "cpu-manager-state-corrupt": "error",
    "memory-manager-reserved-memory-mismatch": "error",
    "memory-manager-state-mismatch": "error",
    "memory-manager-state-corrupt": "error",
    "device-manager-state-corrupt": "warning",
    "too-many-numa-nodes": "error",
    "unknown-policy": "error",
    "unknown-policy-option": "error",
    "policy-option-needs-gate": "error",
    "incompatible-policy-options": "error",
    "kubelet-configuration-invalid": "error",
    "not-a-kubelet-configuration": "error",
    "marks-of-a-manual": "error",
    "ignored-field": "warning",
    "reserved-cpus-split-cores": "warning",
    # a manifest or configuration that will not do what its author thinks
    "fractional-cpu-not-pinned": "warning",
    "not-guaranteed": "warning",
    "init-larger-than-app": "warning",
    "pod-level-resources-not-pinned": "warning",
    "memory-in-fractions-of-a-byte": "warning",
    "devices-without-topology": "warning",
    "pass-device-specs": "warning",
    "claim-not-aligned": "warning",
    "devices-served-by-dra": "warning",
    "cpu-driver-beside-static": "error",
    "manifest-invalid": "error",
    "never-fits": "error",
    # a node that is not as it should be
    "machine-unreadable": "error",
    "kubelet-not-running": "error",
    "podresources-missing": "warning",
    "state-stale-entries": "warning",
    "pod-lost-at-restart": "error",
    "restart-kubelet-stops": "error",
    "nri-disabled": "info",
    "cgroup-v1": "warning",
    "cgroup-without-cpuset": "error",
    "cgroup-driver-mismatch": "warning",
    "numad-running": "warning",
    "isolated-cpus-reserved": "warning",
    # a cluster that is not as it should be
    "component-missing": "warning",
    "component-not-ready": "warning",
    "component-old": "warning",
    "nodes-not-ready": "warning",
    "nodes-without-topology": "warning",
    "topology-unusable": "warning",
    "topology-stale": "warning",
    "policies-differ": "warning",
    "numa-aware-off": "warning",
    "numa-policy-unheeded": "warning",
    "runtime-without-nri": "warning",
    # evidence that could not be read, or not to its end
    "evidence-incomplete": "warning",
    "nothing-recognised": "warning",
    # what is fine
    "aligned": "info",
    "healthy": "info",
}


class Subject(msgspec.Struct, frozen=True):
    """What a finding is about: a Pod, a Node, a Kubelet, a KubeletConfiguration, a File; empty where not known."""

    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""


class Message(msgspec.Struct, frozen=True):
    """A sentence to be worded in the reader's language: its key in the texts, and the facts it needs."""

    key: str
    facts: dict[str, Any] = {}


class Evidence(msgspec.Struct, frozen=True):
    """A line somebody can look up. `mark` is the part of the text that matters, `label` what to say beneath it.

    `line` counts from 1; 0 is the file as a whole.
    """

    file: str
    line: int = 0
    text: str = ""
    mark: str = ""
    label: Message | None = None


class Finding(msgspec.Struct, frozen=True):
    """One thing that happened, or will. `facts` are JSON values and messages under camelCase names, ready to be quoted."""

    code: str
    severity: Severity
    subject: Subject
    confidence: Confidence = "certain"
    facts: dict[str, Any] = {}
    evidence: tuple[Evidence, ...] = ()
    variant: str = ""


def finding(
    code: str,
    subject: Subject,
    facts: Mapping[str, Any] | None = None,
    evidence: Iterable[Evidence] = (),
    *,
    confidence: Confidence = "certain",
    severity: Severity | None = None,
    variant: str = "",
) -> Finding:
    """A finding with the severity of its code; facts that are not known (None) are left out."""
    known = {name: value for name, value in (facts or {}).items() if value is not None}
    return Finding(code, severity or CODES[code], subject, confidence, known, tuple(evidence), variant)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The order in which people want to read them; equal ones stay in the order of the evidence."""
    return sorted(
        findings, key=lambda one: (SEVERITIES.index(one.severity), CONFIDENCES.index(one.confidence))
    )


def is_trouble(findings: Iterable[Finding]) -> bool:
    """Whether a command that found these has to say no (exit code 1)."""
    return any(one.severity != "info" for one in findings)
