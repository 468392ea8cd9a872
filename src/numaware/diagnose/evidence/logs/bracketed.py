"""Messages of 1.20 and before: sentences that begin with the manager's name in brackets.

`messages` hands every unstructured record here. A row says what a sentence tells, and the names of its groups say which
field of `Seen` each part is for; policy, scope, version, reserved CPUs and the CPU topology are facts about the kubelet.
"""

from __future__ import annotations

import re
from typing import Any

from numaware.diagnose.evidence.logs.record import Record
from numaware.diagnose.evidence.logs.seen import PodName, Seen, What, numa_of_cpus, pod_name, read_field

_LONGEST = 1 << 15


def read(record: Record) -> Seen | None:
    """What an old record says, or None."""
    for what, pattern in _PATTERNS:
        match = pattern.match(record.message[:_LONGEST])
        if match:
            return _seen(what, record, match.groupdict())
    return None


def _seen(what: What, record: Record, groups: dict[str, str | None]) -> Seen | None:
    values: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for name, text in groups.items():
        if name in ("policy", "scope", "reserved", "version"):
            facts[name] = text
        elif name == "topology":
            facts["numaOfCpus"] = numa_of_cpus(text)
        elif name in ("namespace", "name", "uid"):
            values["pod"] = values.get("pod", PodName())._replace(**{name: text})
        elif name == "pod":
            values["pod"] = pod_name(text)
        else:
            field, value = read_field(name, text)
            if value is None:
                return None
            values[field] = value
    if facts.get("numaOfCpus") == {}:
        return None
    if what == "started":
        values["resource"] = "CPU manager"
    return Seen(what, record, facts=facts, **values)


_TOPOLOGY = r"\[topologymanager\] "
_CPU = r"\[cpumanager\] "
_DEVICE = r"\[devicemanager\] "
_POD = r"(?P<pod>[^\s',]{1,600})"
_CONTAINER = r"(?P<container>[^\s',)]{1,253})"
_RESOURCE = r"(?P<resource>[^'\"]{1,317})"
_HINT = r"(?P<hint>\{[^{}]{1,120}\})"
_CPUS = r'"(?P<cpus>[\d,-]{1,4000})"'
_POLICY = r"(?P<policy>[\w-]{1,40})"
_UID = r"(?P<uid>[\w-]{0,80})"
_NAME = r"(?P<container>[\w.-]{1,253})"
_NUMBER = r"(?P<number>\d{1,9})"
_REST = r"(?P<message>.*)"
_SCOPE = r"(?P<scope>[\w-]{1,40})"
_SENTENCES: dict[What, tuple[str, ...]] = {
    "begin": (_TOPOLOGY + "Topology Admit Handler",),
    "hints": (
        _TOPOLOGY + rf"TopologyHints for pod '{_POD}'(?:, container '{_CONTAINER}')?: (?P<hints>map\[.*\])",
        _CPU
        + rf"TopologyHints generated for pod '{_POD}'(?:, container '{_CONTAINER}')? ?: (?P<cpu_hints>\[.*\])",
    ),
    "no-preference": (
        _TOPOLOGY
        + rf"Hint Provider has no preference for NUMA affinity with (?:any resource|resource '{_RESOURCE}')",
    ),
    "impossible": (
        _TOPOLOGY + rf"Hint Provider has no possible NUMA affinities for resource '{_RESOURCE}'",
        _DEVICE
        + rf"Unable to generate topology hints: requested number of devices unavailable for '{_RESOURCE}'",
    ),
    "no-topology": (_DEVICE + rf"Resource '{_RESOURCE}' does not have a topology preference",),
    "merged": (
        _TOPOLOGY + rf"(?:Container|Pod)TopologyHint: {_HINT}",
        _TOPOLOGY + rf"Best TopologyHint for \(pod: {_POD}(?: container: {_CONTAINER})?\): {_HINT}",
    ),
    "admitted": (
        _TOPOLOGY + rf"Topology Affinity for \(pod: {_POD} container: {_CONTAINER}\): {_HINT}",
        # 1.16 and 1.17 told the affinities of all containers at once, by the pod's uid.
        _TOPOLOGY + rf"Topology Affinity for Pod: {_UID} are map\[{_NAME}:{_HINT}.*\]",
        _CPU + rf"Pod {_POD}, Container {_CONTAINER} Topology Affinity is: {_HINT}",
    ),
    "allocate": (_CPU + rf"static policy: Allocate \(pod: {_POD}, container: {_CONTAINER}\)",),
    "cpus-wanted": (_CPU + rf"allocateCpus: \(numCPUs: {_NUMBER}",),
    "cpus-given": (
        _CPU + rf"allocateCPUs: returning {_CPUS}",
        _CPU + rf"updated desired cpuset \(pod: {_UID}, container: {_NAME}, cpuset: {_CPUS}\)",
    ),
    "refused": (
        _CPU + rf"unable to allocate {_NUMBER} CPUs \(pod: {_POD}, container: {_CONTAINER}, error: {_REST}\)",
        (
            r'Event\(v1\.ObjectReference\{Kind:"Pod", Namespace:"(?P<namespace>[^"]{0,253})", Name:"(?P<name>[^"]{0,253})", '
            rf'UID:"{_UID}"[^}}]{{0,400}}\}}\): type: \'Warning\' reason: \'(?P<reason>\w{{1,120}})\' {_REST}'
        ),
        rf"Predicate failed on Pod: {_POD}, for reason: {_REST}",
        rf"Failed to admit pod {_POD} - {_REST}",
    ),
    # At start the kubelet is told all of its pods at once; those are not made anew.
    "arrived": (r'SyncLoop \(ADD, "api"\): "(?P<pod>[\w.-]{1,253}_[\w.-]{1,253}\([\w-]{1,80}\))"',),
    "policy": (
        _TOPOLOGY + rf"Creating topology manager with {_POLICY} policy per {_SCOPE} scope",
        _TOPOLOGY + rf"(?:Creating topology manager|Initializing Topology Manager) with {_POLICY} policy",
        _CPU + r"detected CPU topology: (?P<topology>.*)",
        _CPU + r'reserved \d{1,9} CPUs \("(?P<reserved>[\d,-]{1,4000})"\)',
        rf'FLAG: --topology-manager-policy="{_POLICY}"',
        rf'FLAG: --topology-manager-scope="{_SCOPE}"',
        r"Starting (?:k3s|rke2)(?: agent| server)? (?P<version>v\d\.\d{1,2}\.\d{1,3})",
    ),
    "started": (_CPU + rf"starting with {_POLICY} policy",),
    "plugin-lost": (
        rf"ListAndWatch ended unexpectedly for device plugin (?P<resource>\S{{1,317}}) with error {_REST}",
    ),
    "plugin-here": (rf'Got registration request from device plugin with resource name "{_RESOURCE}"',),
}
_PATTERNS = tuple((what, re.compile(one)) for what, sentences in _SENTENCES.items() for one in sentences)
