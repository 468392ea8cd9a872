"""Pods that wait for a node: whose turn it is, who has to wait a little, and who waits for something to change.

Highest priority first, then first come. A pod that no node takes is stuck until news can help it; which can is known from
what keeps it off (`stuck_pods.py`), so a pod is not tried again just because something happened somewhere. Pods that ask
for the same are one group, and only the first of a group is tried: if it finds a place, or goes, the next one follows; if
not, the others would not have found one either. A pod whose bind failed, or that was woken in vain, waits longer each
time. Time is whatever the caller counts in seconds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, KeysView
from typing import Literal

from msgspec.structs import replace

from numaware.schedule.held_room import priority_of
from numaware.workload.pod import Pod
from numaware.workload.scheduling import PodClaim

# As kube-scheduler: one second after the first failure, never more than ten.
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 10.0
# However certain we are that nothing has changed, look again after this long.
LONGEST_STUCK = 300.0

State = Literal["ready", "taken", "later", "stuck"]
# The queues of kube-scheduler and what moves a pod into one of them, by its names where it has one for it.
KubeQueue = Literal["active", "backoff", "unschedulable", "gated"]
Cause = Literal[
    "PodAdd",
    "PodUpdate",
    "ScheduleAttemptFailure",
    "BackoffComplete",
    "UnschedulableTimeout",
    "NodeChange",
    "SamePodGone",
]


class Waiting:
    """One pod in the queue."""

    __slots__ = (
        "attempts",
        "changed",
        "failures",
        "group",
        "not_before",
        "order",
        "pod",
        "sent",
        "since",
        "state",
        "ticket",
        "woken",
    )

    def __init__(self, pod: Pod, order: int, now: float) -> None:
        self.pod = pod
        self.group = group_of(pod)
        self.order = order
        # How often it was taken, and how often in a row that came to nothing though it should have.
        self.attempts = self.failures = 0
        # When it came, or when its gates opened.
        self.since = now
        self.not_before = now
        self.state: State = "taken"
        # Whether news said that it would find a place when it was made ready.
        self.woken = False
        # Whether a node was found, so that the next of its group has had its turn.
        self.sent = False
        # Whether the pod asks for something else than when it was taken.
        self.changed = False
        # Entries of heaps that carry another ticket do not count any more; no two are ever alike.
        self.ticket = 0

    @property
    def queue(self) -> KubeQueue:
        """Where kube-scheduler would have it."""
        match self.state:
            case "ready" | "taken":
                return "active"
            case "later":
                return "backoff"
            case "stuck":
                return "gated" if self.pod.scheduling.gates else "unschedulable"


def group_of(pod: Pod) -> Hashable:
    """Pods of one group get one answer from any cluster.

    Claims of devices are told apart by what the pod calls them: those made by a template are each pod's own.
    """
    scheduling = pod.scheduling
    if scheduling.resource_claims:
        names = tuple(PodClaim(claim.name) for claim in scheduling.resource_claims)
        scheduling = replace(scheduling, resource_claims=names)
    return pod.shape, pod.overhead, pod.namespace, scheduling


class Queue:
    """All pods that wait, by uid. `entered` counts how many came into which of kube-scheduler's queues, and by what."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.entered: Counter[tuple[KubeQueue, Cause]] = Counter()
        self._ready: list[tuple[int, int, str, int]] = []
        self._later: list[tuple[float, str, int]] = []
        self._stuck: dict[Hashable, dict[str, Waiting]] = {}
        self._arrivals = self._tickets = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, pod: Pod, now: float) -> None:
        """A pod wants a node; one that is known and asks for something else now is tried again."""
        known = self.waiting.get(pod.uid)
        group = group_of(pod)
        if known is None:
            known = self.waiting[pod.uid] = Waiting(pod, self._arrivals, now)
            self._arrivals += 1
            self._make_ready(known, "PodAdd")
            return
        if group == known.group:
            known.pod = pod
            return
        self._leave(known, now)
        if known.pod.scheduling.gates and not pod.scheduling.gates:
            known.since = now
        known.pod, known.group = pod, group
        if known.state == "taken":
            known.changed = True
        else:
            self._make_ready(known, "PodUpdate")

    def drop(self, uid: str, now: float) -> None:
        """The pod needs no node any more."""
        one = self.waiting.pop(uid, None)
        if one is not None:
            self._leave(one, now)

    def take(self, now: float) -> Pod | None:
        """The pod whose turn it is. It stays in the queue, as taken, until `placed`, `failed`, `refused` or `drop`."""
        while self._later and self._later[0][0] <= now:
            _, uid, ticket = heapq.heappop(self._later)
            one = self.waiting.get(uid)
            if one is not None and one.ticket == ticket:
                cause: Cause = "UnschedulableTimeout" if one.state == "stuck" else "BackoffComplete"
                self._unstick(one)
                self._make_ready(one, cause)
        while self._ready:
            *_, uid, ticket = heapq.heappop(self._ready)
            one = self.waiting.get(uid)
            if one is not None and one.ticket == ticket:
                one.state = "taken"
                one.attempts += 1
                return one.pod
        return None

    @property
    def has_ready(self) -> bool:
        """Whether it may be somebody's turn."""
        return bool(self._ready)

    def placed(self, uid: str, now: float) -> None:
        """A node was found: whoever is stuck with the same wish may have one too."""
        one = self.waiting.get(uid)
        if one is not None:
            one.woken, one.sent = False, True
            self._wake_first(one.group, now, "SamePodGone")

    def failed(self, uid: str, now: float) -> None:
        """The decision was good but could not be carried out: try again, a little later each time."""
        one = self._taken(uid)
        if one is not None:
            self._sleep(one, self._back_off(one, now), "later")

    def refused(self, uid: str, now: float) -> bool:
        """No node takes the pod: it is stuck until news can help. Whether it is (else it has changed, and is tried again)."""
        one = self._taken(uid)
        if one is None:
            return False
        if one.woken:
            one.woken = False
            self._back_off(one, now)
        self._stuck.setdefault(one.group, {})[uid] = one
        self._sleep(one, now + LONGEST_STUCK, "stuck")
        return True

    def wake(self, helps: Callable[[Pod], bool], now: float) -> None:
        """Something has changed: try again where `helps` says so of the first pod of a group."""
        for group, members in list(self._stuck.items()):
            if helps(next(iter(members.values())).pod):
                self.wake_group(group, now)

    def wake_group(self, group: Hashable, now: float) -> None:
        """Try the first pod of a group again."""
        self._wake_first(group, now, "NodeChange")

    def stuck_groups(self) -> KeysView[Hashable]:
        """The groups of which a pod is stuck."""
        return self._stuck.keys()

    def stuck_pods(self, group: Hashable) -> Iterator[Pod]:
        """The pods of a group that are stuck."""
        return (one.pod for one in self._stuck.get(group, {}).values())

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
        one.sent = False
        if one.changed:
            one.changed = False
            self._make_ready(one, "PodUpdate")
            return None
        return one

    def _back_off(self, one: Waiting, now: float) -> float:
        """Until when the pod is not tried again, having come to nothing once more."""
        one.not_before = now + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(one.failures, 8))
        one.failures += 1
        return one.not_before

    def _wake_first(self, group: Hashable, now: float, cause: Cause) -> None:
        members = self._stuck.get(group)
        if not members:
            return
        first = min(members.values(), key=_turn)
        self._unstick(first)
        first.woken = cause == "NodeChange"
        if first.not_before > now:
            self._sleep(first, first.not_before, "later", cause)
        else:
            self._make_ready(first, cause)

    def _make_ready(self, one: Waiting, cause: Cause) -> None:
        one.state = "ready"
        one.ticket = self._ticket()
        self.entered["active", cause] += 1
        heapq.heappush(self._ready, (*_turn(one), one.pod.uid, one.ticket))

    def _sleep(
        self, one: Waiting, until: float, state: State, cause: Cause = "ScheduleAttemptFailure"
    ) -> None:
        one.state = state
        one.ticket = self._ticket()
        self.entered[one.queue, cause] += 1
        heapq.heappush(self._later, (until, one.pod.uid, one.ticket))

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _unstick(self, one: Waiting) -> None:
        members = self._stuck.get(one.group)
        if members is not None and members.pop(one.pod.uid, None) is not None and not members:
            del self._stuck[one.group]

    def _leave(self, one: Waiting, now: float) -> None:
        """The pod leaves its group. If it was to be tried for all of them, the next one takes its turn."""
        if one.state == "stuck":
            self._unstick(one)
        elif not one.sent:
            self._wake_first(one.group, now, "SamePodGone")


def _turn(one: Waiting) -> tuple[int, int]:
    return -priority_of(one.pod), one.order
