"""The members that may take a pod at all, sorted into classes, and the best of them for each kind of pod.

A bind moves one member from one class to another. A board (one kind of pod) holds classes, not members, best score
first; it only ever looks at a class once, when the class first has a member. So a decision costs the few classes that
appeared since the last one of its kind, whatever the number of members.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.evaluation import Evaluation, Evaluator
from numaware.schedule.kinds import Kind
from numaware.workload.pod import Pod

# Appearances of classes kept for boards that have not read them; then all boards start again.
_MOST_NEWS = 1 << 17


class _Board:
    """Classes that fit one kind of pod, as a heap of (-score, class), and how far it has read the pool's news."""

    __slots__ = ("heap", "read")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []
        self.read = 0


class Pool:
    """The members of a cluster that nothing about the node itself keeps from taking a pod, by class.

    `reason` says what would. Lags behind what happens on the members until it is asked.
    """

    def __init__(
        self, cluster: Cluster, evaluator: Evaluator, reason: Callable[[Member], str | None]
    ) -> None:
        self.cluster = cluster
        self.evaluator = evaluator
        # Why the other members are not in the pool, and how many each.
        self.outside: Counter[str] = Counter()
        self._reason = reason
        self._reasons: dict[str, str] = {}
        self._number: dict[str, int] = {}
        # Class -> names of its members, lowest first; those that have moved on are dropped when they surface.
        self._members: dict[int, list[str]] = {}
        self._sizes: Counter[int] = Counter()
        # Classes in the order in which they came to have members.
        self._news: list[int] = []
        self._boards: dict[Kind, _Board] = {}
        self._seen = cluster.serial
        for member in cluster:
            self._consider(member)

    def reconsider(self, name: str) -> None:
        """A member is new, gone, or described anew."""
        before = self._reasons.pop(name, None)
        if before is not None:
            self.outside[before] -= 1
        number = self._number.pop(name, None)
        if number is not None:
            self._sizes[number] -= 1
        member = self.cluster.by_name.get(name)
        if member is not None:
            self._consider(member)

    def best(self, pod: Pod, kind: Kind) -> tuple[Member, Evaluation] | None:
        """The best member for the pod: highest score, then first by name."""
        self._catch_up()
        if len(self._news) > _MOST_NEWS:
            self.forget_scores()
        board = self._boards.get(kind)
        if board is None:
            board = self._boards[kind] = _Board()
        for number in self._news[board.read :]:
            first = self._first(number)
            if first is not None:
                found = self.evaluator.evaluate(number, first, pod, kind)
                if not found.reasons:
                    heapq.heappush(board.heap, (-found.score, number))
        board.read = len(self._news)
        return self._top(board, pod, kind)

    def reasons(self, pod: Pod, kind: Kind) -> Counter[str]:
        """Why members refuse the pod, and how many each."""
        self._catch_up()
        counts: Counter[str] = Counter()
        for number, size in self._sizes.items():
            first = self._first(number)
            if size and first is not None:
                for reason in set(self.evaluator.evaluate(number, first, pod, kind).reasons):
                    counts[reason] += size
        return counts

    def answers(self, pod: Pod, kind: Kind, names: Iterable[str]) -> Iterator[tuple[str, Evaluation | None]]:
        """What each of these members says, None where there is no such member."""
        self._catch_up()
        number_of, evaluate, members = self._number.get, self.evaluator.evaluate, self.cluster.by_name
        for name in names:
            number = number_of(name)
            yield name, None if number is None else evaluate(number, members[name], pod, kind)

    def forget_scores(self) -> None:
        """The scores have changed: boards start again from the classes there are."""
        self._boards.clear()
        self._news = sorted(number for number, size in self._sizes.items() if size)

    def _top(self, board: _Board, pod: Pod, kind: Kind) -> tuple[Member, Evaluation] | None:
        """The first by name among the classes that share the best score."""
        tied: list[tuple[int, int]] = []
        best: tuple[str, int] | None = None
        while board.heap and (not tied or board.heap[0][0] == tied[0][0]):
            entry = heapq.heappop(board.heap)
            if tied and entry == tied[-1]:
                continue
            first = self._first(entry[1])
            if first is None:
                continue
            tied.append(entry)
            if best is None or first.name < best[0]:
                best = first.name, entry[1]
        for entry in tied:
            heapq.heappush(board.heap, entry)
        if best is None:
            return None
        member = self.cluster.by_name[best[0]]
        return member, self.evaluator.evaluate(best[1], member, pod, kind)

    def _catch_up(self) -> None:
        serial = self.cluster.serial
        if self._seen != serial:
            for name in self.cluster.changed_since(self._seen):
                if name in self._number:
                    self._enter(self.cluster.by_name[name])
            self._seen = serial

    def _consider(self, member: Member) -> None:
        """Let a member in, or keep in mind what speaks against it."""
        reason = self._reason(member)
        if reason is None:
            self._enter(member)
        else:
            self._reasons[member.name] = reason
            self.outside[reason] += 1

    def _enter(self, member: Member) -> None:
        """Sort a member into its class."""
        name = member.name
        number = self.evaluator.number_of(member)
        before = self._number.get(name)
        if before == number:
            return
        if before is not None:
            self._sizes[before] -= 1
        self._number[name] = number
        if not self._sizes[number]:
            self._news.append(number)
        self._sizes[number] += 1
        heapq.heappush(self._members.setdefault(number, []), name)

    def _first(self, number: int) -> Member | None:
        names = self._members.get(number)
        while names:
            if self._number.get(names[0]) == number:
                return self.cluster.by_name[names[0]]
            heapq.heappop(names)
        return None
