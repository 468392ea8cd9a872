"""The lab's loop: pods come, a scheduler chooses, kubelets judge, controllers make refused pods anew.

`run.py` plays a trace with it to its end and measures; the console's lab moves it along with the clock on the wall. Both
read off what happened, step by step. The rules of the lab's world:

- A pod that a kubelet refuses is Failed; its owner makes a new one a second later, up to `recreations` times. So a
  scheduler that does not learn from a refusal shows a storm here as it would in a cluster.
- A pod that fits nowhere waits, and is tried again, oldest first, when something was freed, until it has waited longer than
  `patience`. Pods of a kind that has just failed are not tried again in the same round. A scheduler whose knowledge lags
  behind tries them every five minutes, too, as kube-scheduler does.
- A drained node takes no more pods and its pods are made anew elsewhere; a lost one is gone with its pods, which are
  made anew as well, until it returns empty.
- Kubelets are twins that hear nothing of what the scheduler expects: a scheduler that is wrong is refused, or sees the pod
  get something else than it foresaw.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Decision
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.simulate.policies import Policy
from numaware.simulate.traces import SECOND, Arrival, FinishEvent, NodeEvent
from numaware.twin.node import Node, Verdict
from numaware.workload.pod import Pod

_FLUSH_EVERY = 300 * SECOND


class Pending(NamedTuple):
    """A pod on its way: who owns it, when it came, how long it will stay, how often a kubelet has refused it."""

    pod: Pod
    owner: str
    since: int
    lifetime: int | None
    refused: int = 0


class Stay(NamedTuple):
    """A pod on a node."""

    pending: Pending
    node: str


class Arrived(NamedTuple):
    """A pod of the trace came for the first time."""

    pod: Pod


class Waits(NamedTuple):
    """The scheduler found no node; `again` if it had found none before either."""

    pending: Pending
    decision: Decision
    again: bool


class Admission(NamedTuple):
    """What the kubelet of a node, which was as `before`, said to a pod that a scheduler sent there."""

    pending: Pending
    node: str
    verdict: Verdict
    decision: Decision
    before: Node

    def foreseen(self) -> Node:
        """The node with the pod on it as the decision has it, whatever the kubelet then did."""
        return self.before.take(self.decision.pod, self.decision.hints)


class Left(NamedTuple):
    """A pod is gone from its node: it was done, or it has to move."""

    stay: Stay
    done: bool


class GaveUp(NamedTuple):
    """Nobody waits for the pod any longer."""

    pending: Pending


Happening = Arrived | Waits | Admission | Left | GaveUp


class _Flush(NamedTuple):
    """Time to try those who wait once more."""


class _Again(NamedTuple):
    """A node may take pods that it did not take before."""


_What = Arrival | Pending | Stay | NodeEvent | FinishEvent | _Flush | _Again


class _Event(NamedTuple):
    """What happens next; at one moment what ends comes before what begins, and first come is first served."""

    time: int
    rank: int
    order: int
    what: _What


_LEAVES, _CHANGES, _ARRIVES, _COMES = range(4)


class LabLoop:
    """A cluster in which pods live; the same arguments lead the same life. `policy` may be replaced between two steps."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        arrivals: Iterable[Arrival],
        events: Iterable[NodeEvent | FinishEvent] = (),
        *,
        recreations: int,
        patience: int | None = None,
        now: int = 0,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.now = now
        self.waiting: dict[str, Pending] = {}
        self.running: dict[str, Stay] = {}
        # Decisions made, and the seconds they took.
        self.decisions, self.spent = 0, 0.0
        self._recreations = recreations
        self._patience = patience
        self._agenda: list[_Event] = []
        self._pushed = 0
        self._news: list[Happening] = []
        self._flushing = False
        self._arrivals = iter(arrivals)
        self._more_to_come = True
        self._next_arrival()
        for event in events:
            self._at(event.time, _CHANGES, event)

    def advance(self, until: int) -> Iterator[Happening]:
        """Let everything happen that is due by then; `now` is the moment of what is told."""
        while self._agenda and self._agenda[0].time <= until:
            yield from self.step() or ()
        self.now = max(self.now, until)

    def describe(self, facts: NodeFacts) -> None:
        """A node is other than before; whatever runs there stays, and who waits is tried again if it takes pods."""
        self.policy.describe(facts)
        if not facts.unschedulable:
            self._at(self.now, _COMES, _Again())

    def drain(self, node: str) -> None:
        """Its pods move at once, and none come until it is described anew."""
        self._at(self.now, _CHANGES, NodeEvent(self.now, "drain", node))

    def step(self) -> list[Happening] | None:
        """The next thing on the agenda with all that follows from it at once; None when all is over."""
        if not self._agenda:
            return None
        self.now, _, _, what = heapq.heappop(self._agenda)
        match what:
            case Arrival():
                self._next_arrival()
                self._news.append(Arrived(what.pod))
                self._try(Pending(what.pod, what.owner, self.now, what.lifetime))
            case Pending():
                self._try(what)
            case Stay():
                self._leave(what)
            case NodeEvent():
                self._change(what)
            case FinishEvent():
                self._finish(what)
            case _Flush():
                self._flush()
            case _Again():
                self._try_again()
        news, self._news = self._news, []
        return news

    def _next_arrival(self) -> None:
        arrival = next(self._arrivals, None)
        if arrival is None:
            self._more_to_come = False
        else:
            self._at(arrival.time, _ARRIVES, arrival)

    def _at(self, moment: int, rank: int, what: _What) -> None:
        heapq.heappush(self._agenda, _Event(moment, rank, self._pushed, what))
        self._pushed += 1

    # Pods

    def _try(self, pending: Pending) -> bool:
        """One decision and, if there is a node, one admission; whether the pod was placed."""
        pod = pending.pod
        started = time.perf_counter()
        decision = self.policy.decide(pod, self.now)
        admission = self._bind(pending, decision)
        self.spent += time.perf_counter() - started
        self.decisions += 1
        again = self.waiting.pop(pod.uid, None) is not None
        if admission is None:
            self.waiting[pod.uid] = pending
            if self.policy.lags and not self._flushing:
                self._flushing = True
                self._at(self.now + _FLUSH_EVERY, _COMES, _Flush())
            self._news.append(Waits(pending, decision, again))
            return False
        self._news.append(admission)
        if admission.verdict.admitted:
            stay = self.running[pod.uid] = Stay(pending, admission.node)
            if pending.lifetime is not None:
                self._at(self.now + pending.lifetime, _LEAVES, stay)
        elif pending.refused < self._recreations:
            self._at(self.now + SECOND, _COMES, pending._replace(refused=pending.refused + 1))
        return admission.verdict.admitted

    def _bind(self, pending: Pending, decision: Decision) -> Admission | None:
        if decision.node is None:
            return None
        before = self.cluster.by_name[decision.node].node
        return Admission(pending, decision.node, self.policy.bind(decision), decision, before)

    def _leave(self, stay: Stay) -> None:
        """The pod is done, unless it had to move meanwhile."""
        if self.running.get(stay.pending.pod.uid) is stay:
            self._remove(stay, done=True)
            self._try_again()

    def _finish(self, event: FinishEvent) -> None:
        for stay in [stay for stay in self.running.values() if _named(stay.pending.owner, event.owner)]:
            self._remove(stay, done=True)
        for pending in [one for one in self.waiting.values() if _named(one.owner, event.owner)]:
            self._give_up(pending)
        # Nor is a refused one made anew by an owner that is done.
        self._agenda = [
            one
            for one in self._agenda
            if not (isinstance(one.what, Pending) and _named(one.what.owner, event.owner))
        ]
        heapq.heapify(self._agenda)
        self._try_again()

    def _remove(self, stay: Stay, *, done: bool) -> None:
        uid = stay.pending.pod.uid
        del self.running[uid]
        self.policy.release(uid)
        self._news.append(Left(stay, done))

    def _give_up(self, pending: Pending) -> None:
        del self.waiting[pending.pod.uid]
        self._news.append(GaveUp(pending))

    def _try_again(self) -> bool:
        """Something was freed: those who wait, oldest first; whether one of them was placed."""
        failed: set[tuple[Kind, object]] = set()
        placed = False
        for pending in list(self.waiting.values()):
            kind = kind_of(pending.pod), pending.pod.scheduling
            if self._patience is not None and self.now - pending.since > self._patience:
                self._give_up(pending)
            elif kind not in failed:
                if self._try(pending):
                    placed = True
                else:
                    failed.add(kind)
        return placed

    def _flush(self) -> None:
        """Go on as long as it helps, or there are pods to come."""
        self._flushing = self._try_again() or self._more_to_come
        if self.waiting and self._flushing:
            self._at(self.now + _FLUSH_EVERY, _COMES, _Flush())

    # Nodes

    def _change(self, event: NodeEvent) -> None:
        for stay in [stay for stay in self.running.values() if stay.node == event.node]:
            self._remove(stay, done=False)
            self._at(self.now + SECOND, _COMES, stay.pending._replace(since=self.now, refused=0))
        facts = self.cluster.by_name[event.node].facts
        self.policy.describe(msgspec.structs.replace(facts, unschedulable=event.action != "return"))
        self._try_again()


def _named(owner: str, name: str) -> bool:
    return name in (owner, owner.partition("/")[2])
