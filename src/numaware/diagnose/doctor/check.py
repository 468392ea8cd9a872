"""One thing looked at on a node or a cluster, and how it was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from numaware.diagnose.finding import Evidence, Finding, Message, Severity, Subject, finding

Status = Literal["error", "warning", "unknown", "ok"]

# The order in which people want to read them.
STATUSES: tuple[Status, ...] = ("error", "warning", "unknown", "ok")


class Check(NamedTuple):
    """What was looked at (`name` is stable), how it is, what was seen there, and what was found."""

    name: str
    status: Status
    seen: Message
    findings: tuple[Finding, ...] = ()


def checked(name: str, seen: Message, findings: Iterable[Finding] = ()) -> Check:
    """A check whose findings say how it is: without any it is in order."""
    kept = tuple(findings)
    severities = {one.severity for one in kept}
    status: Status = "error" if "error" in severities else "warning" if "warning" in severities else "ok"
    return Check(name, status, seen, kept)


def trouble(
    code: str,
    path: str,
    facts: Mapping[str, Any] | None = None,
    *,
    kind: str = "Node",
    variant: str = "",
    severity: Severity | None = None,
) -> Finding:
    """A finding about the node, or a part of it, with the file or folder that shows it."""
    return finding(code, Subject(kind), facts, [Evidence(path)], variant=variant, severity=severity)


def unknown(name: str, seen: Message) -> Check:
    """A check that could not be made."""
    return Check(name, "unknown", seen)


def worst_first(checks: Sequence[Check]) -> list[Check]:
    """By status, those of one status in the order in which they were made."""
    return sorted(checks, key=lambda check: STATUSES.index(check.status))
