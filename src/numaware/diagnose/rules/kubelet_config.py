"""What is wrong with a kubelet configuration: what stops the kubelet, and what it would silently do without.

With a machine the twin is started as well, so that what depends on the hardware is found too: CPUs and NUMA nodes it
does not have, and too many of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.finding import Confidence, Finding, Severity
from numaware.diagnose.rules.config_check import Bench
from numaware.diagnose.rules.policy_options import option_findings
from numaware.machine.cpuset import list_form
from numaware.machine.quantity import ZERO, Quantity
from numaware.machine.words import printable
from numaware.twin import kubelet_config
from numaware.twin.errors import StartError
from numaware.twin.gotext import quoted
from numaware.twin.hardware import Hardware, layout
from numaware.twin.kubelet import MOST_NODES, start
from numaware.twin.options import DEFAULT_MAX_ALLOWABLE, parse_topology_options
from numaware.twin.reservation import node_reservation
from numaware.twin.validation import TOPOLOGY_POLICIES, TOPOLOGY_SCOPES
from numaware.workload.demand import is_memory
from numaware.workload.problem import Problem

CPU_POLICIES = ("none", "static")
MEMORY_POLICIES = ("None", "Static")
_MOST = 50
_MEBI = 1 << 20
_DID_YOU_MEAN = re.compile(r"did you mean (\S+)\?")


def kubelet_findings(bench: Bench) -> list[Finding]:
    """All of it, in the order in which a kubelet would come to it."""
    found = [
        *_refusals(bench),
        *_policies(bench),
        *option_findings(bench),
        *_cpu_reservation(bench),
        *_memory_reservation(bench),
        *_ignored(bench),
    ]
    if bench.hardware is not None:
        found += _on_machine(bench, bench.hardware, found)
    return found


# What the kubelet checks before any manager starts


def _refusals(bench: Bench) -> Iterator[Finding]:
    errors = [problem for problem in bench.file.problems if problem.severity == "error"]
    for problem in errors[:_MOST]:
        chosen = {
            "topologyManagerPolicy": (bench.config.topology_policy, TOPOLOGY_POLICIES),
            "topologyManagerScope": (bench.config.topology_scope, TOPOLOGY_SCOPES),
        }
        given, allowed = chosen.get(problem.path, ("", ()))
        if given and given not in allowed:
            yield _unknown_policy(bench, problem.path, given, allowed, problem.text)
        elif problem.path.endswith("PolicyOptions"):
            gate = problem.path.removesuffix("PolicyOptions")
            gate = f"{gate[:1].upper()}{gate[1:]}PolicyOptions".replace("Cpu", "CPU")
            options = bench.config.cpu_options if "CPU" in gate else bench.config.topology_options
            facts = {
                "options": [printable(name, 80) for name, _ in options[:_MOST]],
                "gate": gate,
                "message": problem.text,
            }
            yield bench.found("policy-option-needs-gate", facts, problem.path, variant="all")
        else:
            facts = {"path": problem.path, "message": problem.text}
            yield bench.found("kubelet-configuration-invalid", facts, *problem.path.split("."))


def _policies(bench: Bench) -> Iterator[Finding]:
    """The CPU and Memory Managers look at their policies only when they start."""
    config = bench.config
    if config.cpu_policy not in CPU_POLICIES:
        yield _unknown_policy(bench, "cpuManagerPolicy", config.cpu_policy, CPU_POLICIES)
    if config.memory_policy not in MEMORY_POLICIES and bench.minor >= 21:
        yield _unknown_policy(bench, "memoryManagerPolicy", config.memory_policy, MEMORY_POLICIES)


def _unknown_policy(
    bench: Bench, field: str, given: str, allowed: tuple[str, ...], message: str = ""
) -> Finding:
    near = [one for one in allowed if one.lower() == given.lower().replace("_", "-")]
    facts = {
        "field": field,
        "given": printable(given, 80),
        "allowed": list(allowed),
        "near": near[0] if near else None,
        "message": message or f"unknown policy: {quoted(printable(given, 80))}",
    }
    return bench.found("unknown-policy", facts, field)


# Reservations


def _cpu_reservation(bench: Bench) -> Iterator[Finding]:
    config = bench.config
    if config.cpu_policy != "static" or bench.file.refused:
        return
    if "cpu" not in node_reservation(config, bench.hardware.numa if bench.hardware else ()):
        severity, confidence = _certainty(bench)
        yield bench.found(
            "cpu-manager-no-reserved-cpus",
            {"policy": "static", "reservedCpus": 0},
            "cpuManagerPolicy",
            severity=severity,
            confidence=confidence,
            variant="on-a-base" if bench.file.laid_over else "",
        )


def _certainty(bench: Bench) -> tuple[Severity, Confidence]:
    """What is missing in a piece may stand in the part that is not here."""
    return ("warning", "possible") if bench.file.laid_over else ("error", "certain")


def _memory_reservation(bench: Bench) -> Iterator[Finding]:
    config = bench.config
    if config.memory_policy != "Static" or bench.minor < 21 or bench.file.refused:
        return
    totals: dict[str, Quantity] = {}
    for entry in config.reserved_memory:
        for kind, quantity in entry.limits:
            totals[kind] = totals.get(kind, ZERO) + quantity
    unknown = bench.hardware is None and any(
        signal == "memory.available" and threshold.endswith("%") and threshold not in ("0%", "100%")
        for signal, threshold in config.eviction_hard
    )
    wanted = {
        kind: quantity
        for kind, quantity in node_reservation(config, bench.hardware.numa if bench.hardware else ()).items()
        if is_memory(kind)
    }
    for kind in sorted({*totals, *wanted, "memory"}):
        found, needed = totals.get(kind, ZERO), wanted.get(kind, ZERO)
        if kind == "memory" and unknown and found.nano > 0:
            # A share of a machine that is not known: nothing can be added up.
            continue
        if found.nano != needed.nano or (kind == "memory" and not found.nano):
            yield _unequal(bench, kind, found, needed)


def _unequal(bench: Bench, kind: str, found: Quantity, wanted: Quantity) -> Finding:
    config = bench.config
    parts = {
        "kubeReserved": dict(config.kube_reserved).get(kind),
        "systemReserved": dict(config.system_reserved).get(kind),
        "evictionHard": dict(config.eviction_hard).get("memory.available") if kind == "memory" else None,
    }
    facts: dict[str, Any] = {
        "resource": kind,
        "found": str(found),
        "wanted": str(wanted),
        **{name: None if amount is None else str(amount) for name, amount in parts.items()},
        "difference": str(
            Quantity(abs(found.nano - wanted.nano), wanted.family if wanted.nano else found.family)
        ),
        "example": _split(bench, kind, wanted) if wanted.nano > 0 else None,
        "message": None if found.nano or wanted.nano else "you should specify the system reserved memory",
    }
    # In a piece that is laid over others, only what is written here is known to be so.
    doubtful = (
        bench.file.laid_over and found.nano > 0 and None in (parts["kubeReserved"], parts["systemReserved"])
    )
    return bench.found(
        "memory-manager-reserved-memory-mismatch",
        facts,
        "reservedMemory" if config.reserved_memory else "memoryManagerPolicy",
        variant=_story(kind, found, wanted),
        severity="warning" if doubtful else None,
        confidence="possible" if doubtful else "certain",
    )


def _story(kind: str, found: Quantity, wanted: Quantity) -> str:
    """Sums that differ are one story; nothing on one side, or on both, are others."""
    if wanted.nano:
        return ""
    if kind != "memory":
        return "not-reservable"
    return "unbacked" if found.nano else "nothing-reserved"


def _split(bench: Bench, kind: str, wanted: Quantity) -> str:
    """The amount over the nodes that are named already, or those of the machine, evenly, the first with the rest."""
    nodes = sorted({entry.numa_node for entry in bench.config.reserved_memory})
    if bench.hardware is not None:
        nodes = [node.id for node in bench.hardware.numa if node.memory_bytes]
    nodes = nodes[:64] or [0]
    step = _MEBI if wanted.value % _MEBI == 0 else 1
    each = wanted.value // step // len(nodes) * step
    lines = ["reservedMemory:"]
    for place, node in enumerate(nodes):
        amount = each + (wanted.value - each * len(nodes) if place == 0 else 0)
        if amount:
            size = f"{amount // _MEBI}Mi" if amount % _MEBI == 0 else str(amount)
            lines += [f"- numaNode: {node}", "  limits:", f"    {kind}: {size}"]
    return "\n".join(lines)


# What the kubelet passes over


def _ignored(bench: Bench) -> Iterator[Finding]:
    for problem in bench.file.problems:
        if problem.severity != "note" or not problem.path:
            continue
        facts = {"path": problem.path, "message": problem.text}
        keys = problem.path.split(".")
        if problem.path == "apiVersion":
            # A piece for a manual may leave it out; a wrong one is never right.
            severity: Severity = "warning" if problem.text == "is missing" else "error"
            facts["fix"] = f"apiVersion: {kubelet_config.API_VERSION}"
            yield bench.found("kubelet-configuration-invalid", facts, "apiVersion", severity=severity)
            continue
        if problem.text == kubelet_config.NOT_TEXT:
            yield bench.found("manifest-invalid", facts, keys[-1], severity="warning")
            continue
        near = _DID_YOU_MEAN.search(problem.text)
        severity = "warning" if near or _is_a_misunderstanding(problem) else "info"
        yield bench.found(
            "ignored-field", {**facts, "near": near[1] if near else None}, *keys, severity=severity
        )


def _is_a_misunderstanding(problem: Problem) -> bool:
    """Somebody wrote down NUMA settings that do nothing: they believe that they do."""
    return (
        problem.path in ("reservedMemory", "topologyManagerPolicyOptions")
        or "is ignored: a kubelet" in problem.text
    )


# On a machine


def _on_machine(bench: Bench, hardware: Hardware, found: list[Finding]) -> Iterator[Finding]:
    crowded = _too_many_nodes(bench, hardware)
    if crowded:
        yield crowded
    if crowded or any(one.severity == "error" for one in found):
        # The kubelet does not come further than that.
        return
    try:
        kubelet = start(hardware, bench.config)
    except StartError as error:
        yield _start_refusal(bench, hardware, error.stage, printable(error.message, 600))
        return
    except ValueError as error:
        yield bench.found("kubelet-configuration-invalid", {"path": "machine", "message": str(error)})
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
        field = "reservedSystemCPUs" if bench.config.reserved_cpus else "cpuManagerPolicyOptions"
        yield bench.found("reserved-cpus-split-cores", facts, field)


def _start_refusal(bench: Bench, hardware: Hardware, stage: str, message: str) -> Finding:
    meaning = start_failure(message)
    if meaning is not None:
        field = {"memory": "reservedMemory", "cpu": "cpuManagerPolicy"}.get(stage, "topologyManagerPolicy")
        return bench.found(meaning.code, meaning.facts, field, variant=meaning.variant)
    if "reserved-cpus" in message:
        facts = {
            "message": message,
            "reserved": bench.config.reserved_cpus,
            "online": list_form(layout(hardware.numa).all_cpus),
        }
        return bench.found("cpu-manager-reserved-cpus-wrong", facts, "reservedSystemCPUs")
    return bench.found("kubelet-configuration-invalid", {"path": stage, "message": message})


def _too_many_nodes(bench: Bench, hardware: Hardware) -> Finding | None:
    config = bench.config
    if config.topology_policy == "none":
        return None
    options = parse_topology_options(config.topology_options, config.version, config.feature_gates)
    allowed = DEFAULT_MAX_ALLOWABLE if isinstance(options, str) else options.max_allowable
    count = len(hardware.numa)
    if count <= min(allowed, MOST_NODES):
        return None
    facts = {"found": count, "most": min(allowed, MOST_NODES), "policy": config.topology_policy}
    return bench.found("too-many-numa-nodes", facts, "topologyManagerPolicy")
