"""Pods that are made, refused, and made again: hold the template off the node, find the loop, tell its owner.

A controller answers every refused pod with a new one, as fast as it can. A template (an owner and the shape of its
pods) that a node has refused is therefore held off that node until the node's state is another, and an owner whose pods
are refused several times within seconds is reported with the way out. Time is whatever the caller counts in seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from typing import Any

import msgspec

from numaware.diagnose.explain.explanation import explain
from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.machine.words import count
from numaware.schedule.cluster import Member
from numaware.schedule.partial_node import class_of
from numaware.workload.pod import Pod

HELD = Reason("held-back")

# Templates and owners that are remembered; the oldest go first.
_MOST = 4096
_MOST_FIXES = 3

Template = tuple[str, tuple[object, ...]]


class Storm(msgspec.Struct, frozen=True):
    """A loop of create and refuse: whose, where, how often, why (the most frequent reason), and what would end it."""

    owner: str
    nodes: tuple[str, ...]
    count: int
    since: int
    last: int
    reason: str
    fix: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line for an event on the owner."""
        where = (
            f"{self.nodes[0]} and {count(len(self.nodes) - 1, 'other node')}"
            if self.nodes[1:]
            else self.nodes[0]
        )
        told = f"{count(self.count, 'pod')} of {self.owner} refused by {where} within {self.last - self.since} s: {self.reason}"
        return f"{told}. Any of these would help: {'; '.join(self.fix)}" if self.fix else told


class _Trouble:
    """The refusals of one owner since they began to come close to each other."""

    __slots__ = ("count", "fix", "last", "nodes", "reasons", "since", "times")

    def __init__(self, now: int, loop: int) -> None:
        self.since = self.last = now
        self.count = 0
        self.times: deque[int] = deque(maxlen=loop)
        self.nodes: set[str] = set()
        self.reasons: Counter[str] = Counter()
        self.fix: tuple[str, ...] | None = None

    def storm(self, owner: str) -> Storm:
        reason = min(self.reasons.items(), key=lambda pair: (-pair[1], pair[0]))[0]
        return Storm(
            owner, tuple(sorted(self.nodes)), self.count, self.since, self.last, reason, self.fix or ()
        )


class StormGuard:
    """Remembers refusals. An owner storms when `loop` of its pods are refused within `window` seconds."""

    def __init__(self, *, loop: int = 3, window: int = 10) -> None:
        self.loop = loop
        self.window = window
        self._held: dict[Template, dict[str, Hashable]] = {}
        self._troubles: dict[str, _Trouble] = {}

    def refused(self, pod: Pod, member: Member, reason: str, now: int) -> Storm | None:
        """The kubelet of `member` refused the pod; the storm if this is what makes it one.

        To be called when the cluster already knows that the pod is gone: the state of now is what the hold is tied to.
        """
        template = template_of(pod)
        # Taken out and put back, so that the oldest stand first.
        nodes = self._held.pop(template, {})
        nodes[member.name] = class_of(member.node)
        self._held[template] = nodes
        owner = owner_of(pod)
        trouble = self._troubles.pop(owner, None)
        if trouble is None or now - trouble.last > self.window:
            trouble = _Trouble(now, self.loop)
        self._troubles[owner] = trouble
        _trim(self._held)
        _trim(self._troubles)
        trouble.last = now
        trouble.count += 1
        trouble.times.append(now)
        trouble.nodes.add(member.name)
        trouble.reasons[reason] += 1
        if trouble.fix is not None or not self._loops(trouble):
            return None
        trouble.fix = _fix(pod, member)
        return trouble.storm(owner)

    def storms(self, now: int) -> tuple[Storm, ...]:
        """The loops that go on at the moment, by owner."""
        return tuple(
            trouble.storm(owner)
            for owner, trouble in sorted(self._troubles.items())
            if trouble.fix is not None and now - trouble.last <= self.window
        )

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

    def _loops(self, trouble: _Trouble) -> bool:
        return len(trouble.times) == self.loop and trouble.times[-1] - trouble.times[0] <= self.window


def _trim(memory: dict[Any, Any]) -> None:
    if len(memory) > _MOST:
        del memory[next(iter(memory))]


def template_of(pod: Pod) -> Template:
    """Who makes such pods, and what they ask for."""
    return owner_of(pod), pod.shape


def owner_of(pod: Pod) -> str:
    """The controller that makes the pod, as people name it; a pod without one answers for itself."""
    owners = sorted(pod.scheduling.owners, key=lambda owner: not owner.controller)
    kind, name = (owners[0].kind, owners[0].name) if owners else ("Pod", pod.name)
    return f"{kind} {pod.namespace}/{name}"


def _fix(pod: Pod, member: Member) -> tuple[str, ...]:
    explanation = explain(member.name, member.node, pod)
    if explanation.admitted:
        return (f"compare what is known of {member.name} with its kubelet's own state: by it the pod fits",)
    return tuple(say(change.text) for change in explanation.changes[:_MOST_FIXES])
