"""What the kubelet refuses in its settings before any manager starts, in its own words.

Mirrors `ValidateKubeletConfiguration` (pkg/kubelet/apis/config/validation) and the parsing that `run` does next
(cmd/kubelet/app/server.go), v1.20 to v1.36, for the settings of the resource managers. What the managers themselves
refuse (a missing reservation, unequal sums, clashing options) comes later, when they start on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.twin.config import DEFAULT_VERSION, Options
from numaware.twin.gates import GATES, Gates, enabled
from numaware.twin.gotext import cpu_list_problem, listed, map_text, quoted
from numaware.twin.rules import rules_for
from numaware.twin.settings import Settings
from numaware.workload.problem import Problem

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_SCOPES = ("container", "pod")

_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS = (
    "memory.available",
    "allocatableMemory.available",
    "imagefs.available",
    "imagefs.inodesFree",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
)
_SIGNALS_SINCE_31 = ("containerfs.available", "containerfs.inodesFree")
_QUANTITY_SHAPE = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_PERCENTAGE = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")


def problems(settings: Settings, version: str = DEFAULT_VERSION) -> tuple[Problem, ...]:
    """Each refusal as an error, in the order in which the kubelet would come to it."""
    minor = rules_for(version).minor
    unsettable = tuple(gate_problems(settings.feature_gates or (), minor))
    if unsettable:
        # The kubelet gives up at the first bad gate, since all later rules depend on them.
        return unsettable
    return (
        *_topology_problems(settings, minor),
        *_reserved_cpus_problems(settings, minor),
        *_reserved_memory_problems(settings, minor),
        *_reserved_problems("kubeReserved", "--kube-reserved", settings.kube_reserved),
        *_reserved_problems("systemReserved", "--system-reserved", settings.system_reserved),
        *_eviction_problems(settings.eviction_hard, minor),
        *_option_gate_problems(settings, minor),
    )


def _error(setting: str, text: str) -> Problem:
    return Problem("error", setting, printable(text, 2000))


def _prefix(minor: int) -> str:
    """v1.24 gave all of these messages one beginning."""
    return "invalid configuration: " if minor >= 24 else ""


def gate_problems(gates: Gates, minor: int) -> Iterator[Problem]:
    """Gates that v1.`minor` does not know or has locked otherwise; those of other parts of Kubernetes are left to the kubelet."""
    for name, on in gates:
        if name not in GATES:
            continue
        state = GATES[name].at(minor)
        if state is None:
            yield _error("featureGates", f"unrecognized feature gate: {name}")
        elif state[0] == "stable" and on != state[1]:
            wanted, locked = str(on).lower(), str(state[1]).lower()
            yield _error(
                "featureGates", f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}"
            )


def _topology_problems(settings: Settings, minor: int) -> Iterator[Problem]:
    # KUBELET: the gate was locked open in v1.27; until then a closed gate forbids all but the defaults.
    closed = minor < 27 and not enabled("TopologyManager", minor, settings.feature_gates or ())
    for word, value, values, choice in (
        ("Policy", settings.topology_policy, TOPOLOGY_POLICIES, listed(TOPOLOGY_POLICIES)),
        ("Scope", settings.topology_scope, TOPOLOGY_SCOPES, '"container", or "pod"'),
    ):
        setting = f"topologyManager{word}"
        begin = f"invalid configuration: {setting}"
        if closed and (value or values[0]) != values[0]:
            yield _error(setting, f"{begin} {value} requires feature gate TopologyManager")
        if (value or values[0]) not in values:
            flag = f"(--topology-manager-{word.lower()})"
            yield _error(
                setting,
                f"{begin} {flag} {quoted(value or '')} must be one of: {choice}"
                if minor >= 24
                else f"{begin} non-allowable value: {value}",
            )


def _reserved_cpus_problems(settings: Settings, minor: int) -> Iterator[Problem]:
    cpus = settings.reserved_cpus
    if not cpus:
        return
    if settings.system_reserved_cgroup or settings.kube_reserved_cgroup:
        yield _error(
            "reservedSystemCPUs",
            f"{_prefix(minor)}can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
            "(--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
        )
    reason = cpu_list_problem(cpus)
    if reason:
        named = f" {cpus}" if minor >= 24 else ""
        yield _error(
            "reservedSystemCPUs",
            f"{_prefix(minor)}unable to parse reservedSystemCPUs (--reserved-cpus){named}, error: {reason}",
        )


def _reserved_memory_problems(settings: Settings, minor: int) -> Iterator[Problem]:
    begin = _prefix(minor)
    seen = set()
    for reservation in settings.reserved_memory or () if minor >= 21 else ():
        node = reservation.numa_node
        for name, amount in reservation.limits:
            if name != "memory" and not name.startswith("hugepages-"):
                yield _error(
                    "reservedMemory",
                    f"{begin}the limit type {quoted(name)} for NUMA node {node} is not supported, "
                    "only [memory hugepages-<HugePageSize>] is accepted",
                )
            if amount.nano == 0:
                yield _error(
                    "reservedMemory",
                    f"{begin}reserved memory may not be zero for NUMA node {node} and resource {quoted(name)}",
                )
            if (node, name) in seen:
                yield _error(
                    "reservedMemory",
                    f"{begin}the reserved memory has a duplicate value for NUMA node {node} and resource {quoted(name)}",
                )
            seen.add((node, name))


def _reserved_problems(setting: str, flag: str, texts: Options | None) -> Iterator[Problem]:
    for name, text in texts or ():
        reason = _not_reservable(name, text)
        if reason:
            yield _error(setting, f"{flag} value failed to parse: {reason}")


def _not_reservable(name: str, text: str) -> str:
    if name not in _RESERVABLE:
        return f"cannot reserve {quoted(name)} resource"
    reason = _not_a_quantity(text)
    if reason:
        return f"failed to parse quantity {quoted(text)} for {quoted(name)} resource: {reason}"
    return (
        f"resource quantity for {quoted(name)} cannot be negative: {text}"
        if Quantity.parse(text).nano < 0
        else ""
    )


def _not_a_quantity(text: str) -> str:
    try:
        Quantity.parse(text)
    except ValueError:
        if re.fullmatch(_QUANTITY_SHAPE, text):
            return "unable to parse quantity's suffix"
        return f"quantities must match the regular expression '{_QUANTITY_SHAPE}'"
    return ""


def _eviction_problems(thresholds: Options | None, minor: int) -> Iterator[Problem]:
    for signal, text in thresholds or ():
        reason = _not_a_threshold(signal, text, minor)
        if reason:
            yield _error("evictionHard", reason)


def _not_a_threshold(signal: str, text: str, minor: int) -> str:
    if signal not in _SIGNALS and not (minor >= 31 and signal in _SIGNALS_SINCE_31):
        return f"unsupported eviction signal {printable(signal)}"
    if text.endswith("%"):
        number = text.rstrip("%")
        if not _PERCENTAGE.fullmatch(number):
            return f"strconv.ParseFloat: parsing {quoted(number)}: invalid syntax"
        if float(number) < 0:
            return f"eviction percentage threshold {signal} must be >= 0%: {text}"
        return (
            f"eviction percentage threshold {signal} must be <= 100%: {text}" if float(number) > 100 else ""
        )
    reason = _not_a_quantity(text)
    if reason or Quantity.parse(text).nano > 0:
        return reason
    return f"eviction threshold {signal} must be positive: {Quantity.parse(text)}"


def _option_gate_problems(settings: Settings, minor: int) -> Iterator[Problem]:
    """Options as such had gates of their own, now locked open; setting any with the gate closed stops the kubelet."""
    for setting, options, words, needed, since in (
        (
            "cpuManagerPolicyOptions",
            settings.cpu_options,
            "CPU Manager policy options",
            ("CPUManager", "CPUManagerPolicyOptions"),
            22,
        ),
        (
            "topologyManagerPolicyOptions",
            settings.topology_options,
            "topology manager policy options",
            # The first of them could be closed until v1.26.
            ("TopologyManager", "TopologyManagerPolicyOptions")[minor > 26 :],
            26,
        ),
    ):
        closed = minor >= since and not enabled(needed[-1], minor, settings.feature_gates or ())
        if options is not None and closed:
            gates = ", ".join(map(quoted, needed))
            yield _error(setting, f"{words} {map_text(options)} require feature gates {gates} enabled")
