"""The pods of one component of a cluster, and what is wrong with them: for all checks of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numaware.diagnose.doctor.check import trouble
from numaware.diagnose.finding import Finding, Severity
from numaware.machine.words import printable

# Names that are told of many.
MOST = 12


class Component(NamedTuple):
    """The pods of one component: how many there are, how many are ready, and which versions run."""

    name: str
    pods: int
    ready: int
    versions: tuple[str, ...]
    nodes: frozenset[str] = frozenset()


def unready(component: Component) -> Iterator[Finding]:
    if component.ready < component.pods:
        facts = {"component": printable(component.name, 80), "ready": component.ready, "pods": component.pods}
        severity: Severity = "warning" if component.ready else "error"
        yield about("component-not-ready", facts, severity=severity)


def about(
    code: str, facts: Mapping[str, Any], variant: str = "", severity: Severity | None = None
) -> Finding:
    return trouble(code, "cluster", facts, kind="Cluster", variant=variant, severity=severity)


def node_facts(names: Sequence[str], **more: str) -> dict[str, Any]:
    """The first of them by name, and how many there are."""
    return {**more, "nodes": list(names[:MOST]), "count": len(names)}
