"""What is wrong with a kubelet configuration: what stops the kubelet, and what it would silently do without.

With a machine the twin is started as well, so that what depends on the hardware is found too: CPUs and NUMA nodes it
does not have, and too many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.finding import Confidence, Finding, Severity
from numaware.diagnose.rules.config_check import ConfigCheck
from numaware.diagnose.rules.memory_sum import apart, split
from numaware.diagnose.rules.policy_options import option_findings
from numaware.machine.cpuset import list_form
from numaware.machine.quantity import ZERO, Quantity
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin import kubelet_config
from numaware.twin.errors import StartError
from numaware.twin.gotext import quoted
from numaware.twin.hardware import Hardware, layout
from numaware.twin.kubelet import MOST_NODES, start
from numaware.twin.options import DEFAULT_MAX_ALLOWABLE, parse_topology_options
from numaware.twin.reservation import node_reservation
from numaware.twin.validation import TOPOLOGY_POLICIES, TOPOLOGY_SCOPES
from numaware.workload.demand import is_memory

CPU_POLICIES = ("none", "static")
MEMORY_POLICIES = ("None", "Static")
_MOST = 50


def kubelet_findings(check: ConfigCheck) -> list[Finding]:
    """All of it, in the order in which a kubelet would come to it."""
    findings = [
        *_refusals(check),
        *_policies(check),
        *option_findings(check),
        *_cpu_reservation(check),
        *_memory_reservation(check),
        *_ignored(check),
    ]
    if check.hardware is not None:
        findings += _on_machine(check, check.hardware, findings)
    return findings


# What the kubelet checks before any manager starts


def _refusals(check: ConfigCheck) -> Iterator[Finding]:
    errors = [problem for problem in check.file.problems if problem.severity == "error"]
    for problem in errors[:_MOST]:
        chosen = {
            "topologyManagerPolicy": (check.config.topology_policy, TOPOLOGY_POLICIES),
            "topologyManagerScope": (check.config.topology_scope, TOPOLOGY_SCOPES),
        }
        given, allowed = chosen.get(problem.path, ("", ()))
        if given and given not in allowed:
            yield _unknown_policy(check, problem.path, given, allowed, problem.text)
        elif problem.path.endswith("PolicyOptions"):
            gate = problem.path.removesuffix("PolicyOptions")
            gate = f"{gate[:1].upper()}{gate[1:]}PolicyOptions".replace("Cpu", "CPU")
            options = check.config.cpu_options if "CPU" in gate else check.config.topology_options
            facts = {
                "options": [printable(name, 80) for name, _ in options[:_MOST]],
                "gate": gate,
                "message": problem.text,
            }
            yield check.finding("policy-option-needs-gate", facts, problem.path, variant="all")
        else:
            facts = {"path": problem.path, "message": problem.text}
            yield check.finding("kubelet-configuration-invalid", facts, *problem.path.split("."))


def _policies(check: ConfigCheck) -> Iterator[Finding]:
    """The CPU and Memory Managers look at their policies only when they start."""
    config = check.config
    if config.cpu_policy not in CPU_POLICIES:
        yield _unknown_policy(check, "cpuManagerPolicy", config.cpu_policy, CPU_POLICIES)
    if config.memory_policy not in MEMORY_POLICIES and check.minor >= 21:
        yield _unknown_policy(check, "memoryManagerPolicy", config.memory_policy, MEMORY_POLICIES)


def _unknown_policy(
    check: ConfigCheck, field: str, given: str, allowed: tuple[str, ...], message: Sentence | str = ""
) -> Finding:
    near = [one for one in allowed if one.lower() == given.lower().replace("_", "-")]
    facts = {
        "field": field,
        "given": printable(given, 80),
        "allowed": list(allowed),
        "near": near[0] if near else None,
        "message": message or f"unknown policy: {quoted(printable(given, 80))}",
    }
    return check.finding("unknown-policy", facts, field)


# Reservations


def _cpu_reservation(check: ConfigCheck) -> Iterator[Finding]:
    config = check.config
    if config.cpu_policy != "static" or check.file.refused:
        return
    if "cpu" not in node_reservation(config, check.hardware.numa if check.hardware else ()):
        severity, confidence = _certainty(check)
        yield check.finding(
            "cpu-manager-no-reserved-cpus",
            {"policy": "static", "reservedCpus": 0},
            "cpuManagerPolicy",
            severity=severity,
            confidence=confidence,
            variant="on-a-base" if check.file.laid_over else "",
        )


def _certainty(check: ConfigCheck) -> tuple[Severity, Confidence]:
    """What is missing in a piece may stand in the part that is not here."""
    return ("warning", "possible") if check.file.laid_over else ("error", "certain")


def _memory_reservation(check: ConfigCheck) -> Iterator[Finding]:
    config = check.config
    if config.memory_policy != "Static" or check.minor < 21 or check.file.refused:
        return
    totals: dict[str, Quantity] = {}
    for entry in config.reserved_memory:
        for kind, quantity in entry.limits:
            totals[kind] = totals.get(kind, ZERO) + quantity
    unknown = check.hardware is None and any(
        signal == "memory.available" and threshold.endswith("%") and threshold not in ("0%", "100%")
        for signal, threshold in config.eviction_hard
    )
    wanted = {
        kind: quantity
        for kind, quantity in node_reservation(config, check.hardware.numa if check.hardware else ()).items()
        if is_memory(kind)
    }
    for kind in sorted({*totals, *wanted, "memory"}):
        reserved, needed = totals.get(kind, ZERO), wanted.get(kind, ZERO)
        if kind == "memory" and unknown and reserved.nano > 0:
            # A share of a machine that is not known: nothing can be added up.
            continue
        if reserved.nano != needed.nano or (kind == "memory" and not reserved.nano):
            yield _unequal(check, kind, reserved, needed)


def _unequal(check: ConfigCheck, kind: str, reserved: Quantity, wanted: Quantity) -> Finding:
    config = check.config
    parts = {
        "kubeReserved": dict(config.kube_reserved).get(kind),
        "systemReserved": dict(config.system_reserved).get(kind),
        "evictionHard": dict(config.eviction_hard).get("memory.available") if kind == "memory" else None,
    }
    facts: dict[str, Any] = {
        "resource": kind,
        "found": str(reserved),
        "wanted": str(wanted),
        **{name: None if amount is None else str(amount) for name, amount in parts.items()},
        **apart(reserved, wanted),
        "example": _split(check, kind, wanted) if wanted.nano > 0 else None,
        "message": None if reserved.nano or wanted.nano else "you should specify the system reserved memory",
    }
    # In a piece that is laid over others, only what is written here is known to be so.
    doubtful = (
        check.file.laid_over
        and reserved.nano > 0
        and None in (parts["kubeReserved"], parts["systemReserved"])
    )
    return check.finding(
        "memory-manager-reserved-memory-mismatch",
        facts,
        "reservedMemory" if config.reserved_memory else "memoryManagerPolicy",
        variant=_variant(kind, reserved, wanted),
        severity="warning" if doubtful else None,
        confidence="possible" if doubtful else "certain",
    )


def _variant(kind: str, reserved: Quantity, wanted: Quantity) -> str:
    """Which text fits: sums that differ, or nothing on one side, or on both."""
    if wanted.nano:
        return ""
    if kind != "memory":
        return "not-reservable"
    return "unbacked" if reserved.nano else "nothing-reserved"


def _split(check: ConfigCheck, kind: str, wanted: Quantity) -> str:
    """The amount over the nodes that are named already, or those of the machine."""
    nodes = sorted({entry.numa_node for entry in check.config.reserved_memory})
    if check.hardware is not None:
        nodes = [node.id for node in check.hardware.numa if node.memory_bytes]
    return split(kind, wanted, nodes)


# What the kubelet passes over


def _ignored(check: ConfigCheck) -> Iterator[Finding]:
    for problem in check.file.problems:
        if problem.severity != "note" or not problem.path:
            continue
        facts = {"path": problem.path, "message": problem.text}
        keys = problem.path.split(".")
        if problem.path == "apiVersion":
            # A piece for a manual may leave it out; a wrong one is never right.
            severity: Severity = "warning" if problem.code == "missing" else "error"
            facts["fix"] = f"apiVersion: {kubelet_config.API_VERSION}"
            yield check.finding("kubelet-configuration-invalid", facts, "apiVersion", severity=severity)
            continue
        if problem.code == "not-text":
            yield check.finding("manifest-invalid", facts, keys[-1], severity="warning")
            continue
        # NUMA settings that do nothing were written by somebody who believes that they do something.
        severity = "warning" if problem.near or problem.code in ("no-effect", "newer-field") else "info"
        yield check.finding(
            "ignored-field", {**facts, "near": problem.near or None}, *keys, severity=severity
        )


# On a machine


def _on_machine(check: ConfigCheck, hardware: Hardware, so_far: list[Finding]) -> Iterator[Finding]:
    crowded = _too_many_nodes(check, hardware)
    if crowded:
        yield crowded
    if crowded or any(one.severity == "error" for one in so_far):
        # The kubelet does not come further than that.
        return
    try:
        kubelet = start(hardware, check.config)
    except StartError as error:
        yield _start_refusal(check, hardware, error.stage, printable(error.message, 600))
        return
    except ValueError as error:
        yield check.finding("kubelet-configuration-invalid", {"path": "machine", "message": str(error)})
        return
    cpus = kubelet.cpus
    if cpus is not None and cpus.options.full_pcpus_only and cpus.reserved_cores != cpus.reserved:
        lost = cpus.reserved_cores & ~cpus.reserved
        facts = {
            "reserved": list_form(cpus.reserved),
            "lost": list_form(lost),
            "whole": list_form(cpus.reserved_cores),
            "count": lost.bit_count(),
        }
        field = "reservedSystemCPUs" if check.config.reserved_cpus else "cpuManagerPolicyOptions"
        yield check.finding("reserved-cpus-split-cores", facts, field)


def _start_refusal(check: ConfigCheck, hardware: Hardware, stage: str, message: str) -> Finding:
    meaning = start_failure(message)
    if meaning is not None:
        field = {"memory": "reservedMemory", "cpu": "cpuManagerPolicy"}.get(stage, "topologyManagerPolicy")
        return check.finding(meaning.code, meaning.facts, field, variant=meaning.variant)
    if stage == "kubelet":
        facts = {
            "message": message,
            "reserved": check.config.reserved_cpus,
            "online": list_form(layout(hardware.numa).all_cpus),
        }
        return check.finding("cpu-manager-reserved-cpus-wrong", facts, "reservedSystemCPUs")
    return check.finding("kubelet-configuration-invalid", {"path": stage, "message": message})


def _too_many_nodes(check: ConfigCheck, hardware: Hardware) -> Finding | None:
    config = check.config
    if config.topology_policy == "none":
        return None
    options = parse_topology_options(config.topology_options, config.version, config.feature_gates)
    allowed = DEFAULT_MAX_ALLOWABLE if isinstance(options, str) else options.max_allowable
    count = len(hardware.numa)
    if count <= min(allowed, MOST_NODES):
        return None
    facts = {"found": count, "most": min(allowed, MOST_NODES), "policy": config.topology_policy}
    return check.finding("too-many-numa-nodes", facts, "topologyManagerPolicy")
