"""Runtime pod affinity in the lab: what `simulate/talk.py` models is planned, and carried out while its switch is open.

A twin has no processes, so that a move is only written down: the pod counts as confined to that NUMA node from then on. When
the switch is closed everybody floats again, as an agent would give back what containers had.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from numaware.affinity.report import About, Move, NodeReport, report
from numaware.schedule.cluster import Cluster
from numaware.schedule.cluster import Member as Node
from numaware.simulate.talk import Talking, talking

SECOND = 1000
_EVERY = 10 * SECOND
_COOL_DOWN = 300 * SECOND
_MOST_MOVES = 20


class LabMover:
    """Where pods were moved to on every node, and when."""

    def __init__(self) -> None:
        self.open = False
        self._placed: dict[str, int] = {}
        self._moved_at: dict[str, int] = {}
        self._moves: dict[str, deque[Move]] = {}
        self._acted = 0
        # By node: the version of it that was looked at, and what was seen.
        self._seen: dict[str, tuple[int, Talking]] = {}

    def switch(self, *, on: bool) -> None:
        """With `on`, pods are moved from the next look on; without, nobody is where he was moved to any more."""
        self.open, self._acted = on, 0
        if not on:
            self._placed.clear()
            self._moved_at.clear()
        self._seen.clear()

    def act(self, cluster: Cluster, now: int) -> None:
        """Carry out the plan of every node, once in a while."""
        if not self.open or now - self._acted < _EVERY:
            return
        self._acted = now
        self._forget(cluster, now)
        for member in cluster:
            seen = self._look(member, now)
            moves = self._measured(member.name, seen)
            names = {one.uid: (one.namespace, one.name) for one in seen.members}
            for answer in seen.plan.moves:
                if answer.target is not None:
                    self._placed[answer.uid], self._moved_at[answer.uid] = answer.target, now
                    _, before, planned = _sums(seen, answer.uid)
                    move = Move(answer.uid, *names[answer.uid], now // SECOND, answer.target, answer.saving)
                    moves.append(replace(move, before=before, planned=planned))
            if seen.plan.moves:
                del self._seen[member.name]

    def reports(self, cluster: Cluster, now: int) -> tuple[NodeReport, ...]:
        """What agents would say of their nodes."""
        reports = []
        for member in cluster:
            seen = self._look(member, now)
            about = About(
                member.name, "modelled", self.open, now // SECOND, tuple(self._moves.get(member.name, ()))
            )
            reports.append(report(about, seen.zones, seen.members, seen.plan))
        return tuple(reports)

    def _look(self, member: Node, now: int) -> Talking:
        """A node that has not changed since is as it was."""
        known = self._seen.get(member.name)
        if known is None or known[0] != member.version:
            resting = {uid: max(0, at + _COOL_DOWN - now) // SECOND for uid, at in self._moved_at.items()}
            known = self._seen[member.name] = member.version, talking(member.node, self._placed, resting)
        return known[1]

    def _forget(self, cluster: Cluster, now: int) -> None:
        """Pods that are gone, and when those were moved who may be moved again."""
        self._placed = {uid: numa for uid, numa in self._placed.items() if uid in cluster.where}
        rested = {uid for uid, at in self._moved_at.items() if now - at >= _COOL_DOWN}
        self._moved_at = {uid: at for uid, at in self._moved_at.items() if uid not in rested}
        for uid in rested & cluster.where.keys():
            self._seen.pop(cluster.where[uid].name, None)

    def _measured(self, node: str, seen: Talking) -> deque[Move]:
        """The moves of a node; what became of those at the last look is known by now."""
        moves = self._moves.setdefault(node, deque(maxlen=_MOST_MOVES))
        for place, move in enumerate(moves):
            if move.after is None:
                said, across, _ = _sums(seen, move.uid)
                moves[place] = replace(move, measured=said - across, after=across)
        return moves


def _sums(seen: Talking, uid: str) -> tuple[int, int, int]:
    """What a pod says, and how much of it is between NUMA nodes, now and after the plan."""
    edges = [edge for edge in seen.plan.edges if uid in edge.pair]
    return (
        sum(edge.rate for edge in edges),
        sum(edge.before for edge in edges),
        sum(edge.after for edge in edges),
    )
