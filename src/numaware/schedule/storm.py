"""Hold a template that a node has refused off that node until the node's state is another or time is over, and report storms.

A template is an owner and the shape of its pods. Who hears of a kubelet's refusal (`serve/prediction_audit.py`) tells the
guard; the engine asks it which nodes are closed to a pod. What counts as a storm is defined in `diagnose/rules/storms.py`; the
guard adds the way out.

A kubelet may refuse for what no report shows, and stop without a word: after a restart it still counts the devices of a pod
that has just been deleted. So no hold is for ever; each refusal of the template doubles how long its next hold lasts, which
keeps a loop that nothing ends down to a pod an hour and node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from msgspec.structs import replace

from numaware.diagnose.explain.explanation import explain
from numaware.diagnose.reason import Reason
from numaware.diagnose.rules.storms import Storm, StormDetector
from numaware.diagnose.texts import say
from numaware.schedule.cluster import Member
from numaware.schedule.partial_node import PartialNode, class_of
from numaware.workload.pod import Pod

HELD = Reason("held-back")

# Templates that are remembered; the oldest go first.
_MOST = 4096
_MOST_FIXES = 3
# Milliseconds of a template's first hold, and of its longest.
_FIRST_HOLD = 30_000
_LONGEST_HOLD = 3_600_000

Template = tuple[str, tuple[object, ...]]


class _Hold(NamedTuple):
    """The state of the node that refused, and when the hold is over in any case."""

    state: Hashable
    until: int


class _Refusals:
    """Of one template: how often it was refused, and the nodes that it is held off."""

    __slots__ = ("count", "holds")

    def __init__(self) -> None:
        self.count = 0
        self.holds: dict[str, _Hold] = {}


class StormGuard:
    """Remembers refusals; times are milliseconds of whatever clock the caller goes by."""

    def __init__(self) -> None:
        self._refusals: dict[Template, _Refusals] = {}
        self._detector = StormDetector()
        # Owners of storms of which no way out could be told yet.
        self._unexplained: set[str] = set()

    def refused(self, pod: Pod, member: Member, reason: str, now: int) -> Storm | None:
        """The kubelet of `member` refused the pod; the storm if this is what makes it one.

        To be called when the cluster already knows that the pod is gone: the state of now is what the hold is tied to.
        """
        template = template_of(pod)
        # Taken out and put back, so that the oldest stand first.
        refusals = self._refusals.pop(template, None) or _Refusals()
        lasts = min(_FIRST_HOLD << min(refusals.count, 16), _LONGEST_HOLD)
        refusals.count += 1
        refusals.holds[member.name] = _Hold(class_of(member.node), now + lasts)
        self._refusals[template] = refusals
        if len(self._refusals) > _MOST:
            del self._refusals[next(iter(self._refusals))]
        return self._storm(pod, member, reason, now)

    def _storm(self, pod: Pod, member: Member, reason: str, now: int) -> Storm | None:
        """A storm that has begun; once more with the way out, where the node that refused first was not known well enough."""
        owner = owner_of(pod)
        began = self._detector.refused(owner, member.name, reason, now)
        storm = began or (self._detector.ongoing(owner) if owner in self._unexplained else None)
        if storm is None:
            self._unexplained.discard(owner)
            return None
        if isinstance(member.node, PartialNode):
            # What would help one of the twins that it may be need not help it.
            if len(self._unexplained) >= _MOST:
                self._unexplained.clear()
            self._unexplained.add(owner)
            return began
        self._unexplained.discard(owner)
        return replace(storm, fix=_fix(pod, member))

    def has_storm(self, pod: Pod) -> bool:
        """Whether the pod's owner has a storm that was told of before."""
        return self._detector.ongoing(owner_of(pod)) is not None

    def lift(self, now: int) -> set[str]:
        """End the holds whose time is over; the nodes that are open again to somebody."""
        lifted: set[str] = set()
        for refusals in self._refusals.values():
            over = [name for name, hold in refusals.holds.items() if hold.until <= now]
            lifted.update(over)
            for name in over:
                del refusals.holds[name]
        return lifted

    def concerns(self, pod: Pod) -> bool:
        """Whether pods like this one are held off any node, so that nodes have to be asked one by one."""
        return bool(self._holds(pod))

    def reason(self, pod: Pod, member: Member) -> Reason | None:
        """Why the pod is held off the node, None if it is not."""
        holds = self._holds(pod)
        hold = holds.get(member.name)
        if hold is None:
            return None
        if hold.state == class_of(member.node):
            return HELD
        del holds[member.name]
        return None

    def _holds(self, pod: Pod) -> dict[str, _Hold]:
        refusals = self._refusals.get(template_of(pod)) if self._refusals else None
        return {} if refusals is None else refusals.holds


def template_of(pod: Pod) -> Template:
    """Who makes such pods, and what they ask for."""
    return owner_of(pod), pod.shape


def owner_of(pod: Pod) -> str:
    """The controller that makes the pod, as people name it; a pod without one answers for itself."""
    owners = sorted(pod.scheduling.owners, key=lambda owner: not owner.controller)
    kind, name = (owners[0].kind, owners[0].name) if owners else ("Pod", pod.name)
    return f"{kind} {pod.namespace}/{name}"


def _fix(pod: Pod, member: Member) -> tuple[str, ...]:
    explanation = explain(member.name, member.node, pod, totals=False)
    if explanation.admitted:
        return (f"compare what is known of {member.name} with its kubelet's own state: by it the pod fits",)
    return tuple(say(change.text) for change in explanation.changes[:_MOST_FIXES])
