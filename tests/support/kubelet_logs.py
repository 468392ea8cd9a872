"""Logs as kubelets of several releases write them, made up line by line: the same story in every spelling."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numaware.twin.topology.hints import Hint

Hints = dict[str, list[Hint]]


@dataclass
class Story:
    """One admission: what each provider hinted, what came of it."""

    name: str = "web-0"
    namespace: str = "shop"
    uid: str = "0f8fad5b-d9cb-469f-a165-70867728950e"
    container: str = "app"
    hints: Hints = field(default_factory=dict)
    merged: Hint | None = None
    admitted: bool = False
    wanted: int | None = None
    given: str = ""
    reason: str = ""
    message: str = ""
    node: str = "node7"
    second: int = 0


@dataclass(frozen=True)
class Era:
    """How kubelets of some releases write."""

    name: str
    lines: Callable[[Story], Iterator[tuple[str, str]]]
    as_json: bool = False


def old_hint(hint: Hint) -> str:
    mask = "<nil>" if hint.mask is None else f"{hint.mask:b}".zfill(2)
    return f"{{{mask} {str(hint.preferred).lower()}}}"


def plus_hint(hint: Hint) -> str:
    mask = "<nil>" if hint.mask is None else f"{hint.mask:b}".zfill(2)
    return f"{{NUMANodeAffinity:{mask} Preferred:{str(hint.preferred).lower()}}}"


def json_hint(hint: Hint) -> dict[str, Any]:
    return {"NUMANodeAffinity": hint.mask, "Preferred": hint.preferred}


def _bracketed(story: Story) -> Iterator[tuple[str, str]]:
    pod = f"{story.name}_{story.namespace}({story.uid})"
    about = f"(pod: {pod} container: {story.container})"
    yield "topology_manager.go:187", "[topologymanager] Topology Admit Handler"
    for resource, hints in story.hints.items():
        listed = " ".join(map(old_hint, hints))
        if resource == "cpu":
            generated = f"[cpumanager] TopologyHints generated for pod '{pod}', container '{story.container}': [{listed}]"
            yield "policy_static.go:379", generated
        told = f"[topologymanager] TopologyHints for pod '{pod}', container '{story.container}': map[{resource}:[{listed}]]"
        yield "scope_container.go:80", told
        if not hints:
            told = (
                f"[topologymanager] Hint Provider has no possible NUMA affinities for resource '{resource}'"
            )
            yield "policy.go:84", told
    if story.merged:
        yield "scope_container.go:88", f"[topologymanager] ContainerTopologyHint: {old_hint(story.merged)}"
        yield (
            "scope_container.go:53",
            f"[topologymanager] Best TopologyHint for {about}: {old_hint(story.merged)}",
        )
    if story.admitted and story.merged:
        yield (
            "scope_container.go:63",
            f"[topologymanager] Topology Affinity for {about}: {old_hint(story.merged)}",
        )
    if story.wanted is not None:
        yield (
            "policy_static.go:221",
            f"[cpumanager] static policy: Allocate (pod: {pod}, container: {story.container})",
        )
        yield "policy_static.go:259", f"[cpumanager] allocateCpus: (numCPUs: {story.wanted}, socket: <nil>)"
    if story.given:
        yield "policy_static.go:294", f'[cpumanager] allocateCPUs: returning "{story.given}"'
        desired = f'(pod: {story.uid}, container: {story.container}, cpuset: "{story.given}")'
        yield "state_mem.go:80", f"[cpumanager] updated desired cpuset {desired}"
    if story.reason:
        reference = (
            f'Kind:"Pod", Namespace:"{story.namespace}", Name:"{story.name}", UID:"{story.uid}", '
            'APIVersion:"v1", ResourceVersion:"1", FieldPath:""'
        )
        told = f"Event(v1.ObjectReference{{{reference}}}): type: 'Warning' reason: '{story.reason}' {story.message}"
        yield "event.go:291", told


def _structured(
    show: Callable[[Hint], str],
    many: Callable[[str, Sequence[Hint]], str],
    listed: Callable[[Sequence[Hint]], str],
) -> Callable[[Story], Iterator[tuple[str, str]]]:
    def lines(story: Story) -> Iterator[tuple[str, str]]:
        about = f'pod="{story.namespace}/{story.name}" containerName="{story.container}"'
        yield (
            "topology_manager.go:215",
            f'"Topology Admit Handler" podUID="{story.uid}" podNamespace="{story.namespace}" podName="{story.name}"',
        )
        for resource, hints in story.hints.items():
            if resource == "cpu":
                yield "policy_static.go:522", f'"TopologyHints generated" {about} cpuHints={listed(hints)}'
            yield "scope_container.go:75", f'"TopologyHints" hints={many(resource, hints)} {about}'
            if not hints:
                told = "Hint Provider has no possible NUMA affinities for resource"
                yield "policy.go:85", f'"{told}" resource="{resource}"'
        if story.merged:
            yield "scope_container.go:83", f'"ContainerTopologyHint" bestHint={show(story.merged)}'
            yield "scope_container.go:50", f'"Best TopologyHint" bestHint={show(story.merged)} {about}'
        if story.admitted and story.merged:
            yield "scope_container.go:58", f'"Topology Affinity" bestHint={show(story.merged)} {about}'
        if story.wanted is not None:
            yield "policy_static.go:296", f'"Static policy: Allocate" {about}'
            yield "policy_static.go:385", f'"AllocateCPUs" numCPUs={story.wanted} socket="11"'
        if story.given:
            yield "policy_static.go:417", f'"AllocateCPUs" result="{story.given}"'
            desired = f'podUID="{story.uid}" containerName="{story.container}" cpuSet="{story.given}"'
            yield "state_mem.go:80", f'"Updated desired CPUSet" {desired}'
        if story.reason:
            told = (
                f'"Event occurred" object="{story.namespace}/{story.name}" fieldPath="" kind="Pod" apiVersion="v1" '
                f'type="Warning" reason="{story.reason}" message={json.dumps(story.message)}'
            )
            yield "event.go:307", told

    return lines


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _json_lines(story: Story) -> Iterator[tuple[str, str]]:
    """klog's JSON format, with the caller in place of the source."""
    pod = {"name": story.name, "namespace": story.namespace}
    about = {"pod": pod, "containerName": story.container}
    messages: list[tuple[str, dict[str, Any]]] = [("Topology manager admission check", {"pod": pod})]
    for resource, hints in story.hints.items():
        messages.append(
            ("TopologyHints", {"hints": {resource: [json_hint(hint) for hint in hints]}, **about})
        )
    if story.merged:
        messages.append(("ContainerTopologyHint", {"bestHint": json_hint(story.merged), **about}))
    if story.admitted and story.merged:
        messages.append(("Topology Affinity", {"bestHint": json_hint(story.merged), **about}))
    if story.wanted is not None:
        messages.append(("Static policy: Allocate", {"podUID": story.uid, **about}))
        messages.append(
            ("AllocateCPUs", {"numCPUs": story.wanted, "socket": None, "podUID": story.uid, **about})
        )
    if story.given:
        messages.append(("AllocateCPUs", {"result": story.given, "podUID": story.uid, **about}))
    if story.reason:
        fields = {
            "object": pod,
            "kind": "Pod",
            "type": "Warning",
            "reason": story.reason,
            "message": story.message,
        }
        messages.append(("Event occurred", fields))
    for message, fields in messages:
        caller = "topologymanager/scope_container.go:95"
        yield (
            caller,
            _compact(
                {"ts": 1.7e12 + story.second * 1000, "caller": caller, "msg": message, "v": 0, **fields}
            ),
        )


ERAS = (
    Era("1.20", _bracketed),
    Era(
        "1.22",
        _structured(
            plus_hint,
            lambda resource, hints: f"map[{resource}:[{' '.join(map(plus_hint, hints))}]]",
            lambda hints: f"[{' '.join(map(plus_hint, hints))}]",
        ),
    ),
    Era(
        "1.27",
        _structured(
            lambda hint: _compact(json_hint(hint)),
            lambda resource, hints: _compact({resource: [json_hint(hint) for hint in hints]}),
            lambda hints: _compact([json_hint(hint) for hint in hints]),
        ),
    ),
    Era("1.35-json", _json_lines, as_json=True),
)


def header(level: str, second: int, source: str) -> str:
    minute, rest = divmod(second, 60)
    return f"{level}0815 {10 + minute // 60:02}:{minute % 60:02}:{rest:02}.410301  102192 {source}] "


def written(era: Era, story: Story) -> list[str]:
    """The lines of an admission, with klog's header unless the whole line is JSON."""
    return [
        text if era.as_json else header("I", story.second, source) + text for source, text in era.lines(story)
    ]


def journald(line: str, node: str = "node7") -> str:
    return f"Aug 15 10:00:00 {node} kubelet[102192]: {line}"


WRAPPERS: dict[str, Callable[[str], str]] = {
    "bare": lambda line: line,
    "journald": journald,
    "journald-iso": lambda line: f"2024-08-15T10:00:00+0800 node7 kubelet[102192]: {line}",
    "journald-json": lambda line: _compact(
        {"_HOSTNAME": "node7", "SYSLOG_IDENTIFIER": "kubelet", "MESSAGE": line}
    ),
    "program": lambda line: f"kubelet[102192]: {line}",
    "microk8s": lambda line: f"Apr 01 05:33:40 node7 microk8s.daemon-kubelet[3596]: {line}",
    "container": lambda line: f"2024-08-15T10:00:00.410301Z stderr F {line}",
    "docker": lambda line: _compact({"log": f"{line}\n", "stream": "stderr", "time": "2024-08-15T10:00:00Z"}),
    "export": lambda line: _compact(
        {"insertId": "x", "jsonPayload": {"MESSAGE": line, "_HOSTNAME": "node7"}}
    ),
}

# Lines that every log is full of, and that say nothing here.
NOISE = (
    'config.go:105] "Looking for sources, have seen" sources=["api","file"] seenSources={"api":{},"file":{}}',
    'generic.go:224] "GenericPLEG: Relisting"',
    'status_manager.go:833] "Sync pod status" podUID="5e71a8a1" statusUID="5e71a8a1" version=1',
    "request.go:629] Waited for 187.343394ms due to client-side throttling, not priority and fairness",
    'volume_manager.go:480] "All volumes are unmounted for pod" pod="shop/web-0"',
    'kubelet.go:2402] "SyncLoop RECONCILE" source="api" pods=["shop/web-0"]',
    "topology_manager.go:221] [topologymanager] RemoveContainer - Container ID: 361281aac25652d21c627b18bc71ebd7",
    'scope.go:122] "RemoveContainer" containerID="361281aac25652d21c627b18bc71ebd7"',
    'cpu_manager.go:473] "ReconcileState: updating container" pod="shop/web-0" containerName="app" cpuSet="2-3"',
    'pod_container_deletor.go:80] "Container not found in pod\'s containers" containerID="0a1b2c"',
    'reconciler.go:221] "operationExecutor.VerifyControllerAttachedVolume started for volume"',
    'prober.go:116] "Probe failed" probeType="Readiness" pod="shop/web-0" probeResult="failure" output="HTTP 503"',
)


def noisy(lines: Sequence[str], wrap: Callable[[str], str]) -> str:
    """The lines among others, wrapped alike."""
    told = []
    for number, line in enumerate(lines):
        told.append(header("I", 0, "x").removesuffix("x] ") + NOISE[number % len(NOISE)])
        told.append(line)
    return "".join(f"{wrap(line)}\n" for line in told)
