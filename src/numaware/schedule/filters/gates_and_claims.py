"""What keeps a pod off every node: gates, claims and words that nobody here can judge. It is said to be so, never guessed."""

from __future__ import annotations

from numaware.diagnose.reason import Code, Reason
from numaware.machine.words import printable
from numaware.schedule.pod_kinds import CLASS_ANNOTATION, CLASSES
from numaware.workload.scheduling import Scheduling

GATED = Reason("scheduling-gates")
_SHOWN = 3


def waiting_reason(scheduling: Scheduling, *, knows_volumes: bool = False) -> Reason | None:
    """What the pod waits for: its gates, a reader who knows it all, claims that nobody here can judge, a class that exists."""
    if scheduling.gates:
        return GATED
    if scheduling.unread:
        return Reason("pod-unreadable", (printable(scheduling.unread, 300),))
    named = scheduling.annotation(CLASS_ANNOTATION)
    if named and named not in CLASSES:
        return Reason("workload-class", (printable(named, 60),))
    if scheduling.group:
        return Reason("pod-group", (printable(scheduling.group, 80),))
    if scheduling.resource_claims:
        names = tuple(claim.name for claim in scheduling.resource_claims)
        return Reason("allocations", (_claims("resource-claims", names),))
    if scheduling.claims and not knows_volumes:
        return Reason("claims", (_claims("volume-claims", scheduling.claims),))
    return None


def dra_reason(resources: tuple[str, ...]) -> Reason:
    """What the pod waits for on a node where DRA serves these resources: a claim that kube-scheduler makes and allocates."""
    return Reason("dra-resources", (tuple(printable(name, 80) for name in resources),))


def _claims(code: Code, names: tuple[str, ...]) -> tuple[Reason, ...]:
    shown = [printable(name, 80) for name in names[:_SHOWN]]
    return (Reason(code, (len(names), (*shown, *["…"][: len(names) > _SHOWN]))),)
