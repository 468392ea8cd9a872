"""Pods that no node takes: which news could help them, and what is said on them meanwhile.

`scheduler.py` tells of every refusal and of every change, and asks who may be tried again. The answer is exact: a group of
pods (`queue.py`) is woken if one of the nodes that changed would take it now. What keeps the group off says which nodes
need not even be asked (`schedule/cures.py`): a pod that waits for a label does not care who comes and goes. Rules about
other pods may open any node, so where a pod's own counters have changed all nodes are asked; they have a stamp for that.

To put a refusal into words takes longer than to decide, so nobody waits for it: groups are worded when there is nothing to
decide, each once, and again when the cluster has changed since. Words that came out the same are not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from numaware.diagnose.texts import say
from numaware.schedule.cures import Cure, cures
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.message import nearest_miss, refusal
from numaware.serve.queue import Queue, group_of
from numaware.workload.pod import Pod

# Seconds after which words are looked at again if anything has changed, and after which words are due while pods keep coming.
_SECONDS_TO_REVISE = 10.0
_SECONDS_UNSAID = 1.0
# Wording takes at most one part in so many of the time.
_PARTS = 20
# Refusals of groups that are not stuck any more, kept before they are forgotten.
_MOST_SPARE = 64


class _Refusal:
    """Why a group has no node: the news it waits for, the counters that its rules looked at, and what was said of it."""

    __slots__ = ("cures", "decision", "serial", "stamp", "words")

    def __init__(self, decision: Decision, serial: int, stamp: tuple[int, ...]) -> None:
        self.decision = decision
        # Which state of the cluster the decision is about.
        self.serial = serial
        self.cures = cures(reason for reason, _ in decision.reasons)
        self.stamp = stamp
        self.words = ""

    @property
    def waits_for_itself(self) -> bool:
        """Whether nothing but a change of the pod can help."""
        waits: frozenset[Cure] = frozenset({"pod"})
        return self.cures == waits


class Worded(NamedTuple):
    """A group and what is to be said of it; no words if a node would take it after all."""

    group: Hashable
    words: str


class StuckPods:
    """The groups of `queue` that are stuck, by what keeps them off the nodes of `engine`."""

    def __init__(self, engine: Engine, queue: Queue, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._queue = queue
        self._clock = clock
        self._refusals: dict[Hashable, _Refusal] = {}
        # Nodes that news has come of since the groups were last looked at, and how often nodes had been described then.
        self._changed: set[str] = set()
        self._described = engine.cluster.described
        # Whether pods were placed since then, or begin to leave: that helps only whom rules keep near to others, or apart.
        self._others = False
        # Groups without words, and those that have some, with the time of either; the oldest first.
        self._unsaid: dict[Hashable, float] = {}
        self._said: dict[Hashable, float] = {}
        self._rests_until = 0.0

    # Who is tried again

    def refused(self, decision: Decision, *, silent: bool = False) -> str:
        """No node takes the pod; what is already known to be said of it, if that is still so. `silent`: nothing is."""
        group, serial = group_of(decision.pod), self._engine.cluster.serial
        known = self._refusals.get(group)
        if known is not None and known.serial == serial and known.words:
            return known.words
        refusal = self._refusals[group] = _Refusal(decision, serial, self._engine.rules_stamp(decision.pod))
        refusal.words = known.words if known is not None else ""
        # What is said of it is true until its turn to be looked at comes, or nearly so.
        if not silent and group not in self._said:
            self._unsaid.setdefault(group, self._clock())
        if len(self._refusals) > 2 * len(self._queue.stuck_groups()) + _MOST_SPARE:
            stuck = {*self._queue.stuck_groups(), group}
            self._refusals = {group: each for group, each in self._refusals.items() if group in stuck}
        return ""

    def nodes_changed(self, names: Iterable[str]) -> None:
        """Something about these nodes is not as it was."""
        self._changed.update(names)

    def others_changed(self) -> None:
        """The scheduler itself has placed a pod, or one is being deleted; no node has more room by that."""
        self._others = True

    def wake(self) -> None:
        """Have those tried again that what has changed since the last time can help."""
        if not self._changed and not self._others:
            return
        cluster = self._engine.cluster
        changed = [name for name in sorted(self._changed) if name in cluster.by_name]
        described = cluster.described_since(self._described)
        named = changed if described is None else [name for name in described if name in cluster.by_name]
        self._changed.clear()
        self._others = False
        self._described = cluster.described
        self._queue.wake(lambda pod: self._helps(pod, changed, named), self._clock())

    def _helps(self, pod: Pod, changed: list[str], described: list[str]) -> bool:
        """Whether a node would take the pod now, of those that could have come to."""
        known = self._refusals.get(group_of(pod))
        if known is None:
            return True
        if known.waits_for_itself:
            return False
        stamp = self._engine.rules_stamp(pod)
        if stamp != known.stamp:
            names = None
        elif "node" in known.cures:
            names = changed
        else:
            names = described
        if names == []:
            return False
        answers = {id(answer): answer for answer in self._engine.ask(pod, names)}.values()
        if any(answer.admitted for answer in answers):
            return True
        # What keeps it off may be something else by now, and something else may help.
        known.stamp = stamp
        known.cures |= cures(reason for answer in answers for reason in answer.reasons)
        return False

    # What is said of them

    def next_words(self, *, busy: bool) -> Worded | None:
        """The group whose turn it is to be worded, if one's is: nobody's who can wait while there is something to decide."""
        now = self._clock()
        group = self._due(now, busy=busy)
        if group is None:
            return None
        self._unsaid.pop(group, None)
        self._said.pop(group, None)
        words = self._words(group)
        if words:
            self._said[group] = now
        self._rests_until = now + _PARTS * (self._clock() - now)
        return Worded(group, words)

    def words_at(self) -> float | None:
        """When words are to be looked at again, None if nothing has changed."""
        for group, at in self._said.items():
            known = self._refusals.get(group)
            if known is not None and known.serial != self._engine.cluster.serial:
                return max(self._rests_until, at + _SECONDS_TO_REVISE)
        return None

    def _due(self, now: float, *, busy: bool) -> Hashable | None:
        stuck = self._queue.stuck_groups()
        for group, since in list(self._unsaid.items()):
            if group not in stuck:
                del self._unsaid[group]
            elif busy and (now - since < _SECONDS_UNSAID or now < self._rests_until):
                return None
            else:
                return group
        if busy or now < self._rests_until:
            return None
        for group, at in list(self._said.items()):
            known = self._refusals.get(group)
            if group not in stuck or known is None:
                del self._said[group]
            elif now - at < _SECONDS_TO_REVISE:
                return None
            elif known.serial != self._engine.cluster.serial:
                return group
        return None

    def _words(self, group: Hashable) -> str:
        known, cluster = self._refusals[group], self._engine.cluster
        if known.serial != cluster.serial:
            known.decision = self._engine.decide(next(iter(self._queue.stuck_pods(group))))
            known.serial = cluster.serial
            known.cures |= cures(reason for reason, _ in known.decision.reasons)
        decision = known.decision
        if decision.node is None:
            known.words = say(refusal(decision, len(cluster), nearest_miss(self._engine, decision.pod)))
        else:
            known.words = ""
        return known.words
