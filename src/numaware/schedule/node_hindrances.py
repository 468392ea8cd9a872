"""What keeps a pod off one very node, whatever state the node is in: its description, and what else is there."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.schedule.cluster import Member
from numaware.schedule.filters import InterPodRules, VolumeRules, beside_reason, static_reason, volcano_reason
from numaware.schedule.storm import StormGuard
from numaware.workload.pod import Pod


def node_reason(member: Member, pod: Pod, policy: str | None = None) -> Reason | None:
    """What about the node itself keeps the pod off, whatever runs there; `policy` instead of the one that it has."""
    facts = member.facts if policy is None else replace(member.facts, topology_policy=policy)
    return static_reason(pod.scheduling, facts) or volcano_reason(pod, facts)


class NodeHindrances(NamedTuple):
    """What depends on the very node and not on its state: ports, volumes, other pods, earlier refusals."""

    rules: InterPodRules | None
    volumes: VolumeRules | None
    guard: StormGuard | None

    def reasons(self, member: Member, pod: Pod) -> tuple[Reason, ...]:
        """Why not this member; nothing where it may."""
        reason = beside_reason(pod, member.name, member.pods.values(), None)
        if reason is None and self.volumes is not None:
            reasons = self.volumes.reasons(member.facts)
            if reasons:
                return reasons
        if reason is None and self.rules is not None:
            reason = self.rules.reason(member.name)
        if reason is None and self.guard is not None:
            reason = self.guard.reason(pod, member)
        return () if reason is None else (reason,)
