"""What keeps a pod off every node: gates, and claims that nobody here can judge. It is said to be so, never guessed."""

from __future__ import annotations

from numaware.diagnose.reason import Code, Reason
from numaware.machine.words import printable
from numaware.workload.scheduling import Scheduling

GATED = Reason("scheduling-gates")
_SHOWN = 3


def waiting_reason(scheduling: Scheduling) -> Reason | None:
    """What the pod waits for: its gates, or claims that decide about the node as well; None if for nothing."""
    if scheduling.gates:
        return GATED
    if not (scheduling.claims or scheduling.resource_claims):
        return None
    claims = (
        *_claims("volume-claims", scheduling.claims),
        *_claims("resource-claims", scheduling.resource_claims),
    )
    return Reason("claims", (claims,))


def _claims(code: Code, names: tuple[str, ...]) -> tuple[Reason, ...]:
    shown = [printable(name, 80) for name in names[:_SHOWN]]
    return (Reason(code, (len(names), (*shown, *["…"][: len(names) > _SHOWN]))),) if names else ()
