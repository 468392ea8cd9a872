"""Admissions rebuilt from what a log says, line by line, in bounded memory.

The kubelet admits one pod at a time: hints, merge, verdict and allocation of a pod stand together, and lines that name
no pod belong to the one being admitted. Its verdict is also told later (an event, a status), then by name. Admissions
that went alike are counted, not kept: a pod that was refused a million times is one `Case`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from numaware.diagnose.evidence.logs.hints import HintLists
from numaware.diagnose.evidence.logs.seen import PodName, Seen
from numaware.diagnose.evidence.meaning import Meaning
from numaware.diagnose.evidence.refusal_messages import refusal
from numaware.diagnose.evidence.start_messages import start_failure
from numaware.twin.topology.hints import Hint

_MOST_OPEN = 256
_MOST_CASES = 4_096
_MOST_UIDS = 4_096
_MOST_EVIDENCE = 24
# The five letters at the end of generated names have no vowels and few digits, so that they spell nothing.
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\Z")


def stem(name: str) -> str:
    """What all pods of one controller have in common: the name itself, or the name before its generated end."""
    return _GENERATED.sub("", name)


@dataclass
class Part:
    """One container of an admission, or the whole pod in pod scope (no name).

    `judged` is whether the merged hint came before the policy: what is told of the container next is that it passed.
    """

    container: str
    hints: HintLists = field(default_factory=dict)
    impossible: set[str] = field(default_factory=set)
    merged: Hint | None = None
    judged: bool = False
    admitted: bool = False
    wanted: int | None = None
    given: str = ""


@dataclass
class Admission:
    """One attempt to admit a pod, as far as the log tells."""

    node: str
    pod: PodName
    parts: dict[str, Part] = field(default_factory=dict)
    verdict: Meaning | None = None
    reason: str = ""
    seconds: float | None = None
    stamp: str = ""
    structured: bool = False
    followed: bool = False
    evidence: list[Seen] = field(default_factory=list)

    def matches(self, pod: PodName) -> bool:
        """Whether a line about `pod` can be about this admission."""
        same_name = not pod.name or not self.pod.name or pod.name == self.pod.name
        same_space = not pod.namespace or not self.pod.namespace or pod.namespace == self.pod.namespace
        return same_name and same_space and (not pod.uid or not self.pod.uid or pod.uid == self.pod.uid)

    def learn(self, pod: PodName) -> None:
        """Take over what another line knows of the pod."""
        mine = self.pod
        self.pod = PodName(mine.namespace or pod.namespace, mine.name or pod.name, mine.uid or pod.uid)

    def signature(self) -> tuple[object, ...]:
        """What an admission came to, and by which hints; equal ones are counted as one case."""
        parts = tuple(
            (
                part.container,
                tuple((name, tuple(listed or ())) for name, listed in sorted(part.hints.items())),
                tuple(sorted(part.impossible)),
                part.merged,
                part.admitted,
                part.wanted,
            )
            for part in self.parts.values()
        )
        verdict = (self.verdict.code, self.verdict.variant) if self.verdict else None
        return (self.node, self.pod.namespace, stem(self.pod.name), parts, verdict)


@dataclass
class Case:
    """Admissions that went alike: the first of them, how many, and when."""

    first: Admission
    count: int = 0
    uids: set[str] = field(default_factory=set)
    last_seconds: float | None = None
    last_stamp: str = ""


@dataclass
class Arrivals:
    """How often the kubelet was handed a pod of one name, or of one controller."""

    count: int = 0
    uids: set[str] = field(default_factory=set)
    first: float | None = None
    last: float | None = None
    stamp: str = ""
    evidence: list[Seen] = field(default_factory=list)


@dataclass
class NodeLog:
    """What the log says about one kubelet."""

    node: str
    named: bool
    facts: dict[str, Any] = field(default_factory=dict)
    fact_lines: dict[str, Seen] = field(default_factory=dict)
    started: dict[str, Seen] = field(default_factory=dict)
    failures: dict[str, tuple[Meaning, Seen, int]] = field(default_factory=dict)
    lost_plugins: dict[str, Seen] = field(default_factory=dict)
    without_topology: dict[str, Seen] = field(default_factory=dict)
    arrivals: OrderedDict[tuple[str, str], Arrivals] = field(default_factory=OrderedDict)
    recreated: OrderedDict[tuple[str, str], Arrivals] = field(default_factory=OrderedDict)
    open: list[Admission] = field(default_factory=list)
    cases: OrderedDict[tuple[object, ...], Case] = field(default_factory=OrderedDict)


class Journal:
    """All kubelets of all logs that were read."""

    def __init__(self) -> None:
        self.nodes: OrderedDict[str, NodeLog] = OrderedDict()

    def add(self, seen: Seen) -> None:
        """Take in the next thing that happened."""
        record = seen.record
        log = self.nodes.setdefault(record.node or record.file, NodeLog(record.node, bool(record.node)))
        match seen.what:
            case "policy":
                for name, value in seen.facts.items():
                    log.facts[name] = value
                    log.fact_lines[name] = seen
            case "started":
                log.started[seen.resource] = seen
            case "failed":
                _fail(log, seen)
            case "plugin-lost":
                log.lost_plugins[seen.resource] = seen
            case "no-topology":
                if len(log.without_topology) < _MOST_CASES:
                    log.without_topology.setdefault(seen.resource, seen)
            case "plugin-here":
                log.lost_plugins.pop(seen.resource, None)
            case "arrived":
                _arrive(log.arrivals, seen)
            case "recreated":
                _arrive(log.recreated, seen)
            case "refused":
                _refuse(log, seen)
            case _:
                _step(log, seen)

    def close(self) -> None:
        """No more lines will come."""
        for log in self.nodes.values():
            while log.open:
                _fold(log, log.open.pop(0))

    def cases(self) -> Iterator[tuple[NodeLog, Case]]:
        for log in self.nodes.values():
            for case in log.cases.values():
                yield log, case


def _fail(log: NodeLog, seen: Seen) -> None:
    meaning = start_failure(seen.message)
    if meaning is None:
        return
    key = f"{meaning.code}/{meaning.variant}"
    _, first, count = log.failures.get(key, (meaning, seen, 0))
    log.failures[key] = (meaning, first, count + 1)


def _arrive(table: OrderedDict[tuple[str, str], Arrivals], seen: Seen) -> None:
    key = (seen.pod.namespace, seen.pod.name)
    arrivals = table.get(key)
    if arrivals is None:
        if len(table) >= _MOST_CASES:
            table.popitem(last=False)
        arrivals = table[key] = Arrivals()
    at = seen.record.seconds
    # The same arrival is told by two parts of the kubelet, a moment apart.
    if arrivals.last is None or at is None or at - arrivals.last > 0.05 or seen.what == "recreated":
        arrivals.count += 1
        if len(arrivals.evidence) < 3:
            arrivals.evidence.append(seen)
    if arrivals.first is None:
        arrivals.first, arrivals.stamp = at, seen.record.stamp
    arrivals.last = at if at is not None else arrivals.last
    for uid in (seen.pod.uid, seen.facts.get("old", "")):
        if uid and len(arrivals.uids) < _MOST_UIDS:
            arrivals.uids.add(uid)


def _refuse(log: NodeLog, seen: Seen) -> None:
    meaning = refusal(seen.message, seen.reason)
    if meaning is None:
        return
    admission = next((one for one in reversed(log.open) if one.matches(seen.pod) and _named(one, seen)), None)
    if admission is None or (admission.verdict and admission.verdict.code != meaning.code):
        admission = _open(log, seen)
    admission.learn(seen.pod)
    if admission.verdict is None or len(admission.verdict.facts) < len(meaning.facts):
        admission.verdict = meaning
    admission.reason = admission.reason or seen.reason
    if seen.number is not None and seen.container:
        _part(admission, seen.container).wanted = seen.number
    _keep(admission, seen)


def _named(admission: Admission, seen: Seen) -> bool:
    """A verdict goes to an admission of that very pod, or to one whose pod no line has named yet."""
    return bool(seen.pod.name or seen.pod.uid) or not admission.pod.name


def _step(log: NodeLog, seen: Seen) -> None:
    """A line of the admission that is going on, or the first of another."""
    current = log.open[-1] if log.open else None
    if (
        current is None
        or seen.what == "begin"
        or not current.matches(seen.pod)
        or _begins_again(current, seen)
    ):
        if seen.what in ("cpus-given", "cpus-wanted", "merged", "no-preference", "impossible") and not (
            seen.pod.name or seen.pod.uid
        ):
            if current is None:
                current = _open(log, seen)
        elif seen.what == "cpus-given" and not seen.pod.name:
            # State restored at start, or written for a pod of another time.
            current = next((one for one in reversed(log.open) if one.pod.uid == seen.pod.uid), None)
            if current is None:
                return
        else:
            current = _open(log, seen)
    current.learn(seen.pod)
    _keep(current, seen)
    if seen.what == "begin":
        return
    part = _part(current, seen.container)
    match seen.what:
        case "hints":
            part.hints.update(seen.hints)
        case "no-preference":
            if seen.resource:
                part.hints[seen.resource] = None
        case "impossible":
            part.impossible.add(seen.resource)
            part.hints[seen.resource] = []
        case "merged":
            part.merged = seen.hint
            part.judged = part.judged or "Best TopologyHint" in seen.record.message[:80]
        case "admitted":
            part.admitted = True
            part.merged = part.merged or seen.hint
        case "cpus-wanted":
            part.wanted = seen.number
        case "cpus-given":
            part.given = seen.cpus


def _begins_again(current: Admission, seen: Seen) -> bool:
    """New hints for a container that was already decided about: the pod is being admitted once more."""
    if seen.what not in ("hints", "allocate"):
        return False
    part = current.parts.get(seen.container)
    if part is None:
        return current.verdict is not None
    return bool(part.given) if seen.what == "allocate" else part.merged is not None


def _part(admission: Admission, container: str) -> Part:
    """The container a line is about; a line that names none is about the last one."""
    if not container and admission.parts:
        return next(reversed(admission.parts.values()))
    part = admission.parts.get(container)
    if part is None:
        nameless = admission.parts.get("")
        if nameless is not None and nameless.merged is None:
            del admission.parts[""]
            nameless.container = container
            part = nameless
        else:
            part = Part(container)
        admission.parts[container] = part
    return part


def _open(log: NodeLog, seen: Seen) -> Admission:
    record = seen.record
    admission = Admission(
        record.node, seen.pod, seconds=record.seconds, stamp=record.stamp, structured=record.structured
    )
    if log.open:
        log.open[-1].followed = True
    log.open.append(admission)
    if len(log.open) > _MOST_OPEN:
        _fold(log, log.open.pop(0))
    return admission


def _keep(admission: Admission, seen: Seen) -> None:
    if len(admission.evidence) < _MOST_EVIDENCE:
        admission.evidence.append(seen)


def _fold(log: NodeLog, admission: Admission) -> None:
    """Count the admission with those that went alike."""
    if not admission.parts and admission.verdict is None:
        return
    key = admission.signature()
    case = log.cases.get(key)
    if case is None:
        if len(log.cases) >= _MOST_CASES:
            return
        case = log.cases[key] = Case(admission)
    case.count += 1
    case.last_seconds, case.last_stamp = admission.seconds, admission.stamp
    if admission.pod.uid and len(case.uids) < _MOST_UIDS:
        case.uids.add(admission.pod.uid)
