"""Recreation loops: a controller makes a refused pod anew, the scheduler sends it to the same place, and so on.

Pods of a StatefulSet keep their name and change their uid; pods of a ReplicaSet, a Job or a DaemonSet share the name up
to its generated end. What counts is different pods refused for the same reason, or a refused pod seen to be replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from numaware.diagnose.evidence import log_evidence
from numaware.diagnose.evidence.bundle import Attempt
from numaware.diagnose.evidence.logs.journal import Arrivals, Case, NodeLog, stem
from numaware.diagnose.evidence.logs.seen import PodName
from numaware.diagnose.finding import Evidence, Finding, Message, Subject, finding
from numaware.diagnose.rules import storms

_MOST_UIDS = 4_096
_YEAR = 366 * 86_400
_ORDINAL = re.compile(r"(.+)-\d{1,6}\Z")
_TEMPLATE_HASH = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}\Z")


@dataclass
class Loop:
    """Refusals of one controller's pods for one reason."""

    namespace: str
    stem: str
    code: str
    reason: str = ""
    names: set[str] = field(default_factory=set)
    uids: set[str] = field(default_factory=set)
    nameless: int = 0
    nodes: set[str] = field(default_factory=set)
    times: list[float] = field(default_factory=list)
    stamp: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    controller: str = ""
    replaced: int = 0

    @property
    def count(self) -> int:
        return max(len(self.uids), len(self.names), self.nameless)

    @property
    def generated(self) -> bool:
        return any(name != self.stem for name in self.names)

    def saw(self, seconds: float | None, stamp: str) -> None:
        if seconds is not None:
            self.times = [min([*self.times[:1], seconds]), max([*self.times[-1:], seconds])]
        self.stamp = min(self.stamp, stamp) if self.stamp and stamp else self.stamp or stamp


def loop_findings(
    cases: Iterable[tuple[NodeLog, Case]], attempts: Iterable[Attempt], logs: Iterable[NodeLog]
) -> list[Finding]:
    """The loops in all that was refused."""
    loops: dict[tuple[str, str, str], Loop] = {}
    for _, case in cases:
        _add_case(loops, case)
    for attempt in attempts:
        _add_attempt(loops, attempt)
    kept = list(logs)
    for loop in loops.values():
        for log in kept:
            _replaced(loop, log)
    return [_finding(loop) for loop in loops.values() if _is_loop(loop)]


def _loop(loops: dict[tuple[str, str, str], Loop], pod: PodName, code: str, reason: str, node: str) -> Loop:
    """The loop that a refused pod belongs to, with what every refusal tells it."""
    key = (pod.namespace, stem(pod.name), code)
    loop = loops.setdefault(key, Loop(*key))
    loop.reason = loop.reason or reason
    loop.names.add(pod.name)
    loop.nodes.add(node)
    return loop


def _add_case(loops: dict[tuple[str, str, str], Loop], case: Case) -> None:
    admission = case.first
    if admission.verdict is None or not admission.pod.name:
        return
    loop = _loop(loops, admission.pod, admission.verdict.code, admission.reason, admission.node)
    loop.uids |= case.uids
    loop.nameless += case.count if not case.uids else 0
    loop.saw(admission.seconds, admission.stamp)
    loop.saw(case.last_seconds, case.last_stamp)
    refused = [seen for seen in admission.evidence if seen.what == "refused"][:1]
    loop.evidence += [log_evidence.line(seen, seen.reason, Message("refused")) for seen in refused]


def _add_attempt(loops: dict[tuple[str, str, str], Loop], attempt: Attempt) -> None:
    if not attempt.pod.name:
        return
    loop = _loop(loops, attempt.pod, attempt.meaning.code, attempt.reason, attempt.node)
    if attempt.pod.uid and len(loop.uids) < _MOST_UIDS:
        loop.uids.add(attempt.pod.uid)
    elif not attempt.pod.uid:
        # A table shows each event once for each pod; the number in it counts repetitions of the same pod's.
        loop.nameless += 1
    loop.saw(attempt.seconds, attempt.stamp)
    loop.controller = loop.controller or attempt.controller
    if len(loop.evidence) < 6:
        loop.evidence.append(attempt.evidence)


def _replaced(loop: Loop, log: NodeLog) -> None:
    """Pods of the loop's name that came again, or took another's place, on a kubelet that wrote a log."""
    for name in sorted(loop.names):
        key = (loop.namespace, name)
        gone = log.recreated.get(key)
        if gone is not None:
            loop.uids |= gone.uids
            loop.replaced += gone.count
            _witness(loop, gone)
        came = log.arrivals.get(key)
        if came is not None and came.count > 1:
            loop.replaced = max(loop.replaced, came.count - 1)
            _witness(loop, came, only_last=True)


def _witness(loop: Loop, seen: Arrivals, *, only_last: bool = False) -> None:
    for at in (seen.first, seen.last):
        loop.saw(at, seen.stamp)
    lines = seen.evidence[-1:] if only_last else seen.evidence[:2]
    loop.evidence += [log_evidence.line(one, one.record.message, Message("again")) for one in lines]


def _is_loop(loop: Loop) -> bool:
    """A pod of the same name that came again proves a loop; fewer pods of generated names than make a storm do not.

    They may be one controller's replicas, each refused once. Times do not count: a log may tell none.
    """
    return loop.replaced > 0 or loop.count >= (storms.LEAST if loop.generated else 2)


def _finding(loop: Loop) -> Finding:
    count = max(loop.count, loop.replaced + 1)
    seconds = None
    if len(loop.times) == 2 and loop.times[1] > loop.times[0]:
        seconds = round((loop.times[1] - loop.times[0]) % _YEAR, 3)
    kind, _, controller = (loop.controller or _guess(loop)).partition("/")
    nodes = sorted(filter(None, loop.nodes))
    name = loop.stem if loop.generated else min(loop.names)
    period = round(seconds / (count - 1), 3) if seconds and count > 1 else None
    evidence = sorted(
        {(one.file, one.line): one for one in loop.evidence}.values(), key=lambda one: (one.file, one.line)
    )
    return finding(
        "admission-loop",
        Subject("Pod", loop.namespace, name, "", nodes[0] if len(nodes) == 1 else ""),
        {
            "count": count,
            "reason": loop.reason or loop.code,
            "refusal": loop.code,
            "seconds": seconds,
            "period": period,
            "perMinute": round(60 / period, 1) if period else None,
            "since": loop.stamp or None,
            "uids": sorted(loop.uids)[:8] or None,
            "names": sorted(loop.names)[:8] if loop.generated else None,
            "nodes": nodes or None,
            "controllerKind": kind.lower() or None,
            "controller": controller or None,
            "fewerReplicas": _fewer(loop) if controller else None,
        },
        evidence,
        confidence="certain" if loop.replaced or len(loop.uids) > 1 else "likely",
    )


def _guess(loop: Loop) -> str:
    """The controller by the form of the name: an ordinal is a StatefulSet's, a hash and five letters a Deployment's."""
    if loop.generated:
        hashed = _TEMPLATE_HASH.match(loop.stem)
        return f"Deployment/{hashed[1]}" if hashed else ""
    ordinal = _ORDINAL.match(loop.stem)
    return f"StatefulSet/{ordinal[1]}" if ordinal else ""


def _fewer(loop: Loop) -> int:
    """How many replicas leave the refused pods out: a StatefulSet counts up to the pod, others have none to spare."""
    ordinal = _ORDINAL.match(loop.stem)
    return 0 if loop.generated or not ordinal else int(loop.stem[ordinal.end(1) + 1 :])
