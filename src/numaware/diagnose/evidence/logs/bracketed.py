"""Messages of 1.20 and before: sentences that begin with the manager's name in brackets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from numaware.diagnose.evidence.logs.hints import hint, hint_list, hints_by_resource
from numaware.diagnose.evidence.logs.record import Record
from numaware.diagnose.evidence.logs.seen import PodName, Seen, What, cpu_list, numa_of_cpus, number, pod_name

_LONGEST = 1 << 15


def read(record: Record) -> Seen | None:
    """What an old record says, or None."""
    for pattern, shape in _TEXTS:
        match = pattern.match(record.message[:_LONGEST])
        if match:
            return shape(record, match)
    return None


_POD = r"([^\s',]{1,600})"
_CONTAINER = r"([^\s',)]{1,253})"


def _text_hints(record: Record, match: re.Match[str]) -> Seen | None:
    found = hints_by_resource(match[3])
    return None if found is None else Seen("hints", record, pod_name(match[1]), match[2] or "", hints=found)


def _text_cpu_hints(record: Record, match: re.Match[str]) -> Seen | None:
    found = hint_list(match[3])
    return (
        None
        if found is None
        else Seen("hints", record, pod_name(match[1]), match[2] or "", hints={"cpu": found})
    )


def _text_hinted(what: What) -> _Shape:
    def shape(record: Record, match: re.Match[str]) -> Seen | None:
        groups = match.groupdict()
        found = hint(match["hint"])
        if found is None:
            return None
        return Seen(what, record, pod_name(groups.get("pod")), groups.get("container") or "", hint=found)

    return shape


def _text_affinities(record: Record, match: re.Match[str]) -> Seen | None:
    """1.16 and 1.17 told the affinities of all containers at once, by the pod's uid."""
    first = re.match(r"([\w.-]{1,253}):(\{[^{}]{1,120}\})", match[2])
    found = hint(first[2]) if first else None
    if first is None or found is None:
        return None
    return Seen("admitted", record, PodName(uid=match[1]), first[1], hint=found)


def _text(what: What, **groups: str) -> _Shape:
    """A message whose named groups go into fields of `Seen`."""

    def shape(record: Record, match: re.Match[str]) -> Seen:
        values: dict[str, Any] = {}
        for group, field in groups.items():
            text = match[group]
            if field == "pod":
                values[field] = pod_name(text)
            elif field == "number":
                values[field] = number(text)
            elif field == "uid":
                values["pod"] = PodName(uid=text)
            elif field == "cpus":
                values[field] = cpu_list(text)
            else:
                values[field] = text or ""
        return Seen(what, record, **values)

    return shape


def _text_facts(**groups: str) -> _Shape:
    return lambda record, match: Seen(
        "policy", record, facts={name: match[group] for name, group in groups.items()}
    )


def _text_topology(record: Record, match: re.Match[str]) -> Seen | None:
    numa = numa_of_cpus(match[1])
    return Seen("policy", record, facts={"numaOfCpus": numa}) if numa else None


def _text_event(record: Record, match: re.Match[str]) -> Seen:
    return Seen(
        "refused",
        record,
        PodName(match["namespace"], match["name"], match["uid"]),
        reason=match["reason"],
        message=match["message"],
    )


def _text_added(record: Record, match: re.Match[str]) -> Seen | None:
    names = re.findall(r'"?([\w.-]{1,253}_[\w.-]{1,253}\([\w-]{1,80}\))', match[1])
    return Seen("arrived", record, pod_name(names[0])) if len(names) == 1 else None


_Shape = Callable[[Record, re.Match[str]], Seen | None]

_TOPOLOGY = r"\[topologymanager\] "
_CPU = r"\[cpumanager\] "
_TEXTS: tuple[tuple[re.Pattern[str], _Shape], ...] = tuple(
    (re.compile(pattern), shape)
    for pattern, shape in (
        (_TOPOLOGY + "Topology Admit Handler", _text("begin")),
        (
            _TOPOLOGY + rf"TopologyHints for pod '{_POD}'(?:, container '{_CONTAINER}')?: (map\[.*\])",
            _text_hints,
        ),
        (
            _CPU + rf"TopologyHints generated for pod '{_POD}'(?:, container '{_CONTAINER}')? ?: (\[.*\])",
            _text_cpu_hints,
        ),
        (
            _TOPOLOGY
            + r"Hint Provider has no preference for NUMA affinity with (?:any resource|resource '(?P<r>[^']{1,317})')",
            _text("no-preference", r="resource"),
        ),
        (
            _TOPOLOGY + r"Hint Provider has no possible NUMA affinities for resource '(?P<r>[^']{1,317})'",
            _text("impossible", r="resource"),
        ),
        (
            (
                r"\[devicemanager\] Unable to generate topology hints: requested number of devices unavailable for "
                r"'(?P<r>[^']{1,317})'"
            ),
            _text("impossible", r="resource"),
        ),
        (
            r"\[devicemanager\] Resource '(?P<r>[^']{1,317})' does not have a topology preference",
            _text("no-topology", r="resource"),
        ),
        (_TOPOLOGY + r"(?:Container|Pod)TopologyHint: (?P<hint>\{[^{}]{1,120}\})", _text_hinted("merged")),
        (
            _TOPOLOGY
            + rf"Best TopologyHint for \(pod: (?P<pod>{_POD})(?: container: (?P<container>{_CONTAINER}))?\): "
            r"(?P<hint>\{[^{}]{1,120}\})",
            _text_hinted("merged"),
        ),
        (
            _TOPOLOGY
            + rf"Topology Affinity for \(pod: (?P<pod>{_POD}) container: (?P<container>{_CONTAINER})\): "
            r"(?P<hint>\{[^{}]{1,120}\})",
            _text_hinted("admitted"),
        ),
        (_TOPOLOGY + r"Topology Affinity for Pod: ([\w-]{1,80}) are map\[(.*)\]", _text_affinities),
        (
            _CPU + rf"static policy: Allocate \(pod: (?P<p>{_POD}), container: (?P<c>{_CONTAINER})\)",
            _text("allocate", p="pod", c="container"),
        ),
        (
            _CPU + rf"Pod (?P<pod>{_POD}), Container (?P<container>{_CONTAINER}) Topology Affinity is: "
            r"(?P<hint>\{[^{}]{1,120}\})",
            _text_hinted("admitted"),
        ),
        (_CPU + r"allocateCpus: \(numCPUs: (?P<n>\d{1,9})", _text("cpus-wanted", n="number")),
        (_CPU + r'allocateCPUs: returning "(?P<s>[\d,-]{1,4000})"', _text("cpus-given", s="cpus")),
        (
            _CPU
            + r"updated desired cpuset \(pod: (?P<u>[\w-]{0,80}), container: (?P<c>[\w.-]{1,253}), cpuset: "
            r'"(?P<s>[\d,-]{1,4000})"\)',
            _text("cpus-given", u="uid", c="container", s="cpus"),
        ),
        (
            _CPU
            + rf"unable to allocate (?P<n>\d{{1,9}}) CPUs \(pod: (?P<p>{_POD}), container: (?P<c>{_CONTAINER}), "
            r"error: (?P<e>.*)\)",
            _text("refused", n="number", p="pod", c="container", e="message"),
        ),
        (
            (
                r'Event\(v1\.ObjectReference\{Kind:"Pod", Namespace:"(?P<namespace>[^"]{0,253})", Name:"(?P<name>[^"]{0,253})", '
                r"UID:\"(?P<uid>[^\"]{0,80})\"[^}]{0,400}\}\): type: 'Warning' reason: '(?P<reason>\w{1,120})' (?P<message>.*)"
            ),
            _text_event,
        ),
        (
            rf"Predicate failed on Pod: (?P<p>{_POD}), for reason: (?P<e>.*)",
            _text("refused", p="pod", e="message"),
        ),
        (rf"Failed to admit pod (?P<p>{_POD}) - (?P<e>.*)", _text("refused", p="pod", e="message")),
        (r'SyncLoop \(ADD, "api"\): "(.{1,4000})"', _text_added),
        (
            _TOPOLOGY
            + r"Creating topology manager with (?P<p>[\w-]{1,40}) policy per (?P<s>[\w-]{1,40}) scope",
            _text_facts(policy="p", scope="s"),
        ),
        (
            _TOPOLOGY
            + r"(?:Creating topology manager|Initializing Topology Manager) with (?P<p>[\w-]{1,40}) policy",
            _text_facts(policy="p"),
        ),
        (_CPU + r"detected CPU topology: (.*)", _text_topology),
        (_CPU + r'reserved \d{1,9} CPUs \("(?P<r>[\d,-]{1,4000})"\)', _text_facts(reserved="r")),
        (r'FLAG: --topology-manager-policy="(?P<p>[\w-]{1,40})"', _text_facts(policy="p")),
        (r'FLAG: --topology-manager-scope="(?P<s>[\w-]{1,40})"', _text_facts(scope="s")),
        (
            _CPU + r"starting with (?P<p>\w{1,20}) policy",
            lambda record, match: Seen(
                "started", record, resource="CPU manager", facts={"policy": match["p"]}
            ),
        ),
        (
            r"ListAndWatch ended unexpectedly for device plugin (?P<r>\S{1,317}) with error (?P<e>.*)",
            _text("plugin-lost", r="resource", e="message"),
        ),
        (
            r'Got registration request from device plugin with resource name "(?P<r>[^"]{1,317})"',
            _text("plugin-here", r="resource"),
        ),
    )
)
