"""Pods that wait for a node: whose turn it is, who has to wait a little, and who waits for something to change.

Highest priority first, then first come. A pod that no node takes is stuck until an event can help it; which events can is
asked of the engine (`wake`), so a pod is not tried again just because something happened somewhere. Pods that ask for
the same are one group, and only the first of a group is tried: if it finds a place the next one follows, if not the
others would not have either. A pod whose bind failed waits longer each time. Time is whatever the caller counts in seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Literal

from numaware.workload.pod import Pod

# As kube-scheduler: one second after the first failure, never more than ten.
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 10.0
# However certain we are that nothing has changed, look again after this long.
_LONGEST_STUCK = 300.0

State = Literal["ready", "taken", "later", "stuck"]


class Waiting:
    """One pod in the queue."""

    __slots__ = ("attempts", "changed", "group", "order", "pod", "since", "state", "ticket")

    def __init__(self, pod: Pod, order: int, now: float) -> None:
        self.pod = pod
        self.group = group_of(pod)
        self.order = order
        self.attempts = 0
        self.since = now
        self.state: State = "taken"
        # Whether the pod asks for something else than when it was taken.
        self.changed = False
        # Entries of heaps that carry an older ticket no longer count.
        self.ticket = 0


def group_of(pod: Pod) -> Hashable:
    """Pods of one group get one answer from any cluster."""
    return pod.shape, pod.overhead, pod.namespace, pod.scheduling


class Queue:
    """All pods that wait, by uid."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self._ready: list[tuple[int, int, str, int]] = []
        self._later: list[tuple[float, str, int]] = []
        self._stuck: dict[Hashable, dict[str, Waiting]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, pod: Pod, now: float) -> None:
        """A pod wants a node; one that is known and asks for something else now is tried again."""
        known = self.waiting.get(pod.uid)
        if known is not None and group_of(pod) == known.group:
            known.pod = pod
            return
        if known is None:
            known = self.waiting[pod.uid] = Waiting(pod, self._arrivals, now)
            self._arrivals += 1
            self._make_ready(known)
            return
        self._leave(known)
        known.pod, known.group = pod, group_of(pod)
        if known.state == "taken":
            known.changed = True
        else:
            self._make_ready(known)

    def drop(self, uid: str) -> None:
        """The pod needs no node any more."""
        one = self.waiting.pop(uid, None)
        if one is not None:
            self._leave(one)
            one.ticket += 1

    def take(self, now: float) -> Pod | None:
        """The pod whose turn it is. It stays in the queue, as taken, until `placed`, `failed`, `refused` or `drop`."""
        while self._later and self._later[0][0] <= now:
            _, uid, ticket = heapq.heappop(self._later)
            one = self.waiting.get(uid)
            if one is not None and one.ticket == ticket:
                self._leave(one)
                self._make_ready(one)
        while self._ready:
            *_, uid, ticket = heapq.heappop(self._ready)
            one = self.waiting.get(uid)
            if one is not None and one.ticket == ticket:
                one.state = "taken"
                return one.pod
        return None

    def placed(self, uid: str) -> None:
        """A node was found: whoever is stuck with the same wish may have one too."""
        one = self.waiting.get(uid)
        if one is not None:
            self._wake_first(one.group)

    def failed(self, uid: str, now: float) -> None:
        """The decision was good but could not be carried out: try again, a little later each time."""
        one = self._taken(uid)
        if one is not None:
            one.attempts += 1
            self._sleep(one, now + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(one.attempts - 1, 8)), "later")

    def refused(self, uid: str, now: float) -> None:
        """No node takes the pod: it is stuck until an event can help."""
        one = self._taken(uid)
        if one is not None:
            self._stuck.setdefault(one.group, {})[uid] = one
            self._sleep(one, now + _LONGEST_STUCK, "stuck")

    def wake(self, helps: Callable[[Pod], bool]) -> None:
        """Something has changed: try again where `helps` says so of the first pod of a group."""
        for group, members in list(self._stuck.items()):
            if helps(next(iter(members.values())).pod):
                self._wake_first(group)

    def next_at(self) -> float | None:
        """When a pod that waits will be ready, if one is."""
        while self._later:
            when, uid, ticket = self._later[0]
            one = self.waiting.get(uid)
            if one is not None and one.ticket == ticket:
                return when
            heapq.heappop(self._later)
        return None

    def _taken(self, uid: str) -> Waiting | None:
        """The pod that comes back, unless it has changed in the meantime: then it is simply tried again."""
        one = self.waiting.get(uid)
        if one is None or one.state != "taken":
            return None
        if one.changed:
            one.changed = False
            self._make_ready(one)
            return None
        return one

    def _wake_first(self, group: Hashable) -> None:
        members = self._stuck.get(group)
        if members:
            first = min(members.values(), key=_turn)
            self._leave(first)
            self._make_ready(first)

    def _make_ready(self, one: Waiting) -> None:
        one.state = "ready"
        one.ticket += 1
        heapq.heappush(self._ready, (*_turn(one), one.pod.uid, one.ticket))

    def _sleep(self, one: Waiting, until: float, state: State) -> None:
        one.state = state
        one.ticket += 1
        heapq.heappush(self._later, (until, one.pod.uid, one.ticket))

    def _leave(self, one: Waiting) -> None:
        members = self._stuck.get(one.group)
        if members is not None and members.pop(one.pod.uid, None) is not None and not members:
            del self._stuck[one.group]


def _turn(one: Waiting) -> tuple[int, int]:
    return -(one.pod.scheduling.priority or 0), one.order
