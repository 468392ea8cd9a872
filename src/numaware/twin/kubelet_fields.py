"""The fields of a KubeletConfiguration: those the resource managers read, decoded as the kubelet decodes them.

The kubelet's decoder is stricter than YAML looks: a map of text takes no number and no bare `true`, which is the most
common mistake in such files (`full-pcpus-only: true` must be `"true"`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any, Literal

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin.config import MemoryReservation
from numaware.twin.gotext import quoted
from numaware.twin.settings import Settings
from numaware.workload.problem import Problem
from numaware.workload.requirements import quantity
from numaware.workload.yamlfile import Node

# Every field of v1beta1 from v1.20 to v1.36.
_NAMES = """
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS clusterDNS
    clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles containerLogMaxSize
    containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint contentType cpuCFSQuota
    cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff
    enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
    enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery enforceNodeAllocatable
    eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod evictionMinimumReclaim
    evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod failCgroupV1 failSwapOn featureGates
    fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency imageGCHighThresholdPercent
    imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy
    imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS
    kubeReserved kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging makeIPTablesUtilChains
    maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy memoryReservationPolicy memorySwap
    memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds nodeStatusMaxImages
    nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit podsPerCore
    port preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved readOnlyPort
    registerNode registerWithTaints registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf
    rotateCertificates runOnce runtimeRequestTimeout seccompDefault serializeImagePulls serverTLSBootstrap
    showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
    shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
    streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved systemReservedCgroup tlsCertFile
    tlsCipherSuites tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy
    topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir volumeStatsAggPeriod
"""
KNOWN = frozenset(_NAMES.split())
# The release that brought a field the managers read; an older kubelet ignores it.
_SINCE = {
    "topologyManagerScope": 20,
    "memoryManagerPolicy": 21,
    "reservedMemory": 21,
    "cpuManagerPolicyOptions": 22,
    "topologyManagerPolicyOptions": 26,
    "mergeDefaultEvictionSettings": 33,
}
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_INT32 = 1 << 31
# What a field holds: text, a map of text, a map of booleans, a boolean, or reservations by NUMA node.
Kind = Literal["text", "texts", "gates", "boolean", "reservations"]
# Unknown fields told one by one; a file with more of them is something else.
MAX_UNKNOWN = 50


def decode(node: Node, source: str, minor: int) -> tuple[Settings, list[Problem]]:
    """The settings of one KubeletConfiguration, and a note on each field that will have no effect."""
    values: dict[str, Any] = {}
    unknown = [name for name in node.mapping if name not in KNOWN and name not in ("kind", "apiVersion")]
    notes = [_unknown(name, node.mapping[name].line) for name in unknown[:MAX_UNKNOWN]]
    if len(unknown) > MAX_UNKNOWN:
        more = Sentence("and {count} more unknown fields", count=len(unknown) - MAX_UNKNOWN)
        notes.append(Problem("note", "", more, node.line))
    for name, child in node.mapping.items():
        if _SINCE.get(name, 0) > minor:
            text = Sentence(
                "is ignored: a kubelet of v1.{minor} does not know it (v1.{since} brought it)",
                minor=minor,
                since=_SINCE[name],
            )
            notes.append(Problem("note", name, text, child.line, "newer-field"))
        elif name in _FIELDS and child.value is not None:
            field, read = _FIELDS[name]
            try:
                values[field] = read(child, name)
            except _WrongTypeError as error:
                where = f"{source}:{error.line}"
                raise InputError(where, str(error), hint=error.hint, line=error.line) from None
    return Settings(**values), notes


class _WrongTypeError(ValueError):
    """A value that the kubelet's decoder does not take."""

    def __init__(self, node: Node, problem: str, hint: str = "") -> None:
        self.line = node.line
        self.hint = hint
        super().__init__(problem)


def _unknown(name: str, line: int) -> Problem:
    near = next(iter(difflib.get_close_matches(name[:80], sorted(KNOWN), n=1, cutoff=0.8)), "")
    shown = printable(name, 80)
    text = Sentence("unknown field {field}: the kubelet logs a warning and ignores it", field=quoted(shown))
    if near:
        text = Sentence("{problem}; did you mean {near}?", problem=text, near=near)
    return Problem("note", shown, text, line, near=near)


def _cannot(node: Node, field: str, wanted: str) -> _WrongTypeError:
    quotable = wanted == "string" and node.kind in ("number", "bool")
    return _WrongTypeError(
        node,
        f"json: cannot unmarshal {node.kind} into Go struct field KubeletConfiguration.{field} of type {wanted}",
        hint="put the value in quotes" if quotable else "",
    )


def _text(node: Node, field: str) -> str:
    if node.text is None:
        raise _cannot(node, field, "string")
    return node.text


def _boolean(node: Node, field: str) -> bool:
    if not isinstance(node.value, bool):
        raise _cannot(node, field, "bool")
    return node.value


def _duration(node: Node, field: str) -> str:
    text = _text(node, field)
    if not _DURATION.fullmatch(text):
        raise _WrongTypeError(node, f"{field}: time: invalid duration {quoted(printable(text, 60))}")
    return text


def _texts(node: Node, field: str) -> object:
    members = _members(node, field, "map[string]string")
    # KUBELET: a null in a map of text is the empty text.
    return tuple(
        sorted((key, "" if value.value is None else _text(value, field)) for key, value in members.items())
    )


def _gates(node: Node, field: str) -> object:
    members = _members(node, field, "map[string]bool")
    return tuple(
        sorted((key, value.value is not None and _boolean(value, field)) for key, value in members.items())
    )


def _members(node: Node, field: str, wanted: str) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise _cannot(node, field, wanted)
    return node.value


def _reservations(node: Node, field: str) -> object:
    if not isinstance(node.value, list):
        raise _cannot(node, field, "[]v1beta1.MemoryReservation")
    return tuple(_reservation(item, field) for item in node.items)


def _reservation(node: Node, field: str) -> MemoryReservation:
    _members(node, field, "v1beta1.MemoryReservation")
    given = node.get("numaNode")
    number = 0 if given.value is None else given.value
    if isinstance(number, bool) or not isinstance(number, int) or not -_INT32 <= number < _INT32:
        raise _cannot(given, f"{field}.numaNode", "int32")
    limits = node.get("limits")
    members = {} if limits.value is None else _members(limits, f"{field}.limits", "v1.ResourceList")
    amounts = []
    for name, value in sorted(members.items()):
        try:
            amounts.append((name, quantity(value)))
        except ValueError as error:
            raise _WrongTypeError(value, f"{field}: {error}") from None
    return MemoryReservation(number, tuple(amounts))


_FIELDS: dict[str, tuple[str, Callable[[Node, str], object]]] = {
    "topologyManagerPolicy": ("topology_policy", _text),
    "topologyManagerScope": ("topology_scope", _text),
    "topologyManagerPolicyOptions": ("topology_options", _texts),
    "cpuManagerPolicy": ("cpu_policy", _text),
    "cpuManagerPolicyOptions": ("cpu_options", _texts),
    "cpuManagerReconcilePeriod": ("cpu_reconcile_period", _duration),
    "memoryManagerPolicy": ("memory_policy", _text),
    "reservedMemory": ("reserved_memory", _reservations),
    "reservedSystemCPUs": ("reserved_cpus", _text),
    "kubeReserved": ("kube_reserved", _texts),
    "systemReserved": ("system_reserved", _texts),
    "kubeReservedCgroup": ("kube_reserved_cgroup", _text),
    "systemReservedCgroup": ("system_reserved_cgroup", _text),
    "evictionHard": ("eviction_hard", _texts),
    "mergeDefaultEvictionSettings": ("merge_default_eviction", _boolean),
    "featureGates": ("feature_gates", _gates),
}

# Field of the file -> setting, for who edits files.
SETTING_OF = {name: setting for name, (setting, _) in _FIELDS.items()}
_KINDS: dict[Callable[[Node, str], object], Kind] = {
    _text: "text",
    _duration: "text",
    _texts: "texts",
    _gates: "gates",
    _boolean: "boolean",
    _reservations: "reservations",
}
KIND_OF = {name: _KINDS[read] for name, (_, read) in _FIELDS.items()}
