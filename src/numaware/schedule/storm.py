"""Hold a template that a node has refused off that node until the node's state is another, and report storms.

A template is an owner and the shape of its pods. Who hears of a kubelet's refusal (`serve/prediction_audit.py`) tells the
guard; the engine asks it which nodes are closed to a pod. What counts as a storm is defined in `diagnose/rules/storms.py`; the
guard adds the way out.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from numaware.diagnose.explain.explanation import explain
from numaware.diagnose.reason import Reason
from numaware.diagnose.rules.storms import Storm, StormDetector
from numaware.diagnose.texts import say
from numaware.schedule.cluster import Member
from numaware.schedule.partial_node import class_of
from numaware.workload.pod import Pod

HELD = Reason("held-back")

# Templates that are remembered; the oldest go first.
_MOST = 4096
_MOST_FIXES = 3

Template = tuple[str, tuple[object, ...]]


class StormGuard:
    """Remembers refusals; times are milliseconds of whatever clock the caller goes by."""

    def __init__(self) -> None:
        self._held: dict[Template, dict[str, Hashable]] = {}
        self._detector = StormDetector()

    def refused(self, pod: Pod, member: Member, reason: str, now: int) -> Storm | None:
        """The kubelet of `member` refused the pod; the storm if this is what makes it one.

        To be called when the cluster already knows that the pod is gone: the state of now is what the hold is tied to.
        """
        template = template_of(pod)
        # Taken out and put back, so that the oldest stand first.
        nodes = self._held.pop(template, {})
        nodes[member.name] = class_of(member.node)
        self._held[template] = nodes
        if len(self._held) > _MOST:
            del self._held[next(iter(self._held))]
        storm = self._detector.refused(owner_of(pod), member.name, reason, now)
        return None if storm is None else replace(storm, fix=_fix(pod, member))

    def concerns(self, pod: Pod) -> bool:
        """Whether pods like this one were refused anywhere, so that nodes have to be asked one by one."""
        return bool(self._held) and template_of(pod) in self._held

    def reason(self, pod: Pod, member: Member) -> Reason | None:
        """Why the pod is held off the node, None if it is not."""
        nodes = self._held.get(template_of(pod), {}) if self._held else {}
        if member.name not in nodes:
            return None
        if nodes[member.name] == class_of(member.node):
            return HELD
        del nodes[member.name]
        if not nodes:
            del self._held[template_of(pod)]
        return None


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
