"""Pods that no node takes: which news could help them, and what is said on them meanwhile.

`scheduler.py` tells of every refusal and of every change, and asks who may be tried again. The answer is exact: a group of
pods (`queue.py`) is woken if one of the nodes that changed would take it now. What keeps the group off says which nodes
need not even be asked (`schedule/cures.py`): a pod that waits for a label does not care who comes and goes. Rules about
other pods may open any node, so where a pod's own counters have changed all nodes are asked; they have a stamp for that.

For the most important of them room is kept (`schedule/held_room.py`): on one node each, on few nodes in all, and never for
long, so that a pod for which nobody makes room does not cost the others theirs for ever.

To put a refusal into words takes longer than to decide, so nobody waits for it: groups are worded when there is nothing to
decide, each once, and again when the cluster has changed since. Words that came out the same are not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from numaware.diagnose.finding import Message
from numaware.diagnose.reason import Code
from numaware.diagnose.texts import say
from numaware.schedule.cures import Cure, cures
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.held_room import Hold, is_open, priority_of, room_for
from numaware.schedule.message import nearest_miss, refusal, room_wanted
from numaware.serve.queue import Queue, group_of
from numaware.workload.pod import Pod

# Seconds after which words are looked at again if anything has changed, and after which words are due while pods keep coming.
_SECONDS_TO_REVISE = 10.0
_SECONDS_UNSAID = 1.0
# Wording takes at most one part in so many of the time.
_PARTS = 20
# Nodes on which room is kept: so many, and no more than a tenth of all. After so many seconds nothing is kept for as long.
_MOST_HOLDS = 8
_PART_HELD = 10
_SECONDS_HELD = 300.0
# Refusals of groups that are not stuck any more, kept before they are forgotten.
_MOST_SPARE = 64


class _Refusal:
    """Why a group has no node: the news it waits for, the counters that its rules looked at, and what was said of it."""

    __slots__ = ("cures", "decision", "serial", "stamp", "worded", "words")

    def __init__(self, decision: Decision, serial: int, stamp: tuple[int, ...]) -> None:
        self.decision = decision
        # Which state of the cluster the decision is about.
        self.serial = serial
        self.cures = cures(reason for reason, _ in decision.reasons)
        self.stamp = stamp
        self.words = ""
        # Which state of the cluster the words are about.
        self.worded = -1

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
        # Groups of which news of volumes has come since then: that may help them on any node.
        self._volumes: set[Hashable] = set()
        # Groups without words, and those that have some, with the time of either; the oldest first.
        self._unsaid: dict[Hashable, float] = {}
        self._said: dict[Hashable, float] = {}
        self._rests_until = 0.0
        # Groups for which room is kept, with the uid of the pod it is for and since when; and until when others get none.
        self._kept: dict[Hashable, tuple[str, float]] = {}
        self._keeps_none: dict[Hashable, float] = {}

    # Who is tried again

    def refused(self, decision: Decision, *, silent: bool = False) -> str:
        """No node takes the pod; what is already known to be said of it, if that is still so. `silent`: nothing is."""
        group, serial = group_of(decision.pod), self._engine.cluster.serial
        known = self._refusals.get(group)
        if known is not None and known.worded == serial and known.words:
            # Of a group that nobody was left of, its words were not looked at any more.
            self._said.setdefault(group, self._clock())
            return known.words
        fresh = self._refusals[group] = _Refusal(decision, serial, self._engine.rules_stamp(decision.pod))
        if known is not None:
            fresh.words, fresh.worded = known.words, known.worded
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

    def volumes_changed(self, uids: Iterable[str]) -> None:
        """Something about the volumes of these pods is not as it was."""
        self._volumes.update(one.group for uid in uids if (one := self._queue.waiting.get(uid)))

    def wake(self) -> None:
        """Have those tried again that what has changed since the last time can help."""
        self._let_go()
        if not self._changed and not self._others and not self._volumes:
            return
        cluster = self._engine.cluster
        changed = [name for name in sorted(self._changed) if name in cluster.by_name]
        described = cluster.described_since(self._described)
        named = changed if described is None else [name for name in described if name in cluster.by_name]
        self._described = cluster.described
        self._queue.wake(lambda pod: self._helps(pod, changed, named), self._clock())
        self._changed.clear()
        self._volumes.clear()
        self._others = False

    def _helps(self, pod: Pod, changed: list[str], described: list[str]) -> bool:
        """Whether a node would take the pod now, of those that could have come to."""
        group = group_of(pod)
        known = self._refusals.get(group)
        if known is None:
            return True
        if known.waits_for_itself:
            return False
        stamp = self._engine.rules_stamp(pod)
        # A volume that somebody lets go of may have kept the pod off nodes other than his; nobody does who comes.
        let_go = bool(changed) and bool(pod.scheduling.claims or pod.scheduling.disks)
        if stamp != known.stamp or let_go or group in self._volumes:
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
        reasons = {reason for answer in answers for reason in answer.reasons}
        known.cures |= cures(reasons)
        if names is None and reasons != {reason for reason, _ in known.decision.reasons}:
            # No node need have changed for that: a claim may have.
            known.serial = known.worded = -1
        return False

    def codes(self, group: Hashable) -> frozenset[Code]:
        """What kept the group off the nodes when that was last looked at."""
        known = self._refusals.get(group)
        return (
            frozenset() if known is None else frozenset(reason.code for reason, _ in known.decision.reasons)
        )

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
        """When words are to be looked at again, or room is not to be kept any longer; None if nothing has changed."""
        times = [since + _SECONDS_HELD for _, since in self._kept.values()]
        for group, at in self._said.items():
            known = self._refusals.get(group)
            if known is not None and known.worded != self._engine.cluster.serial:
                times.append(max(self._rests_until, at + _SECONDS_TO_REVISE))
                break
        return min(times, default=None)

    def _due(self, now: float, *, busy: bool) -> Hashable | None:
        stuck = self._queue.stuck_groups()
        self._unsaid = {group: since for group, since in self._unsaid.items() if group in stuck}
        if self._unsaid:
            # The most important first: room may have to be kept for it.
            group = max(self._unsaid, key=lambda each: priority_of(self._refusals[each].decision.pod))
            waits = busy and (now - self._unsaid[group] < _SECONDS_UNSAID or now < self._rests_until)
            return None if waits else group
        if busy or now < self._rests_until:
            return None
        for group, at in list(self._said.items()):
            known = self._refusals.get(group)
            if group not in stuck or known is None:
                del self._said[group]
            elif now - at < _SECONDS_TO_REVISE:
                return None
            elif known.worded != self._engine.cluster.serial:
                return group
        return None

    def _words(self, group: Hashable) -> str:
        known, cluster = self._refusals[group], self._engine.cluster
        if known.serial != cluster.serial:
            known.decision = self._engine.decide(next(iter(self._queue.stuck_pods(group))))
            known.serial = cluster.serial
            known.cures |= cures(reason for reason, _ in known.decision.reasons)
        decision = known.decision
        known.words, known.worded = "", cluster.serial
        if decision.node is None:
            nearest = nearest_miss(self._engine, decision.pod)
            known.words = say(refusal(decision, len(cluster), nearest, self._keep_room(group, decision)))
        return known.words

    # Room that is kept for them

    def _keep_room(self, group: Hashable, decision: Decision) -> Message | None:
        """Keep room where pods of lower priority are all that is in the way; what is to be said of that."""
        held, cluster, now = self._engine.held, self._engine.cluster, self._clock()
        uid, _ = self._kept.get(group, ("", now))
        hold = held.holds.get(uid)
        if hold is None or hold.node not in cluster.by_name or not is_open(hold, cluster.by_name[hold.node]):
            self._forget(group)
            answers = self._engine.ask(decision.pod)
            rank = priority_of(decision.pod)
            taken = {other.node for other in held.holds.values() if priority_of(other.pod) >= rank}
            hold = room_for(decision.pod, cluster.members, answers, taken)
            if hold is None:
                return None
            if self._keeps_none.get(group, now) <= now and self._has_turn(hold):
                held.hold(hold)
                self._kept[group] = decision.pod.uid, now
        return room_wanted(hold, cluster.by_name[hold.node], kept=group in self._kept)

    def _has_turn(self, hold: Hold) -> bool:
        """Whether room may be kept: the less important give way, who is on the same node and, of too many, the least."""
        holds, rank = self._engine.held.holds, priority_of(hold.pod)
        most = min(_MOST_HOLDS, max(1, len(self._engine.cluster) // _PART_HELD))
        kept = {group: holds[uid] for group, (uid, _) in self._kept.items() if uid in holds}
        lower = [group for group, other in kept.items() if priority_of(other.pod) < rank]
        for group in sorted(
            lower, key=lambda each: (kept[each].node != hold.node, priority_of(kept[each].pod))
        ):
            if kept[group].node == hold.node or len(holds) >= most:
                self._forget(group)
                if known := self._refusals.get(group):
                    # It says that room is kept for it.
                    known.worded = -1
        return len(holds) < most

    def _let_go(self) -> None:
        """Of the room of pods that have found a node, are gone, or have had it for too long."""
        for group, (uid, since) in list(self._kept.items()):
            one = self._queue.waiting.get(uid)
            if one is None or one.sent or one.group != group:
                self._forget(group)
            elif self._clock() - since >= _SECONDS_HELD:
                self._forget(group)
                self._keeps_none[group] = self._clock() + _SECONDS_HELD
        if len(self._keeps_none) > _MOST_SPARE:
            self._keeps_none = {group: at for group, at in self._keeps_none.items() if at > self._clock()}

    def _forget(self, group: Hashable) -> None:
        uid, _ = self._kept.pop(group, ("", 0.0))
        hold = self._engine.held.let_go(uid) if uid else None
        if hold is not None:
            self._changed.add(hold.node)
