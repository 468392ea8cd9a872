"""What cannot be answered from pods and nodes alone: it is said to be so, never guessed."""

from __future__ import annotations

from numaware.machine.words import count, printable
from numaware.workload.scheduling import Scheduling

_SHOWN = 3


def cannot_judge(scheduling: Scheduling) -> str:
    """Why nobody can say here where the pod fits; empty if that can be said."""
    open_questions = []
    if scheduling.claims:
        open_questions.append(f"{_named(scheduling.claims, 'volume claim')} to be bound")
    if scheduling.resource_claims:
        open_questions.append(f"{_named(scheduling.resource_claims, 'resource claim')} (DRA) to be allocated")
    if not open_questions:
        return ""
    return f"cannot be judged: the pod waits for {' and '.join(open_questions)}, and those decide about the node too"


def _named(names: tuple[str, ...], noun: str) -> str:
    shown = ", ".join(printable(name, 80) for name in names[:_SHOWN])
    return f"{count(len(names), noun)} ({shown}{', …' if len(names) > _SHOWN else ''})"
