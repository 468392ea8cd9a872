"""The members that may take a pod at all, sorted into classes, and the best of them for each kind of pod.

A bind moves one member from one class to another. A board (one kind of pod) holds classes, not members, best score
first and each under the name of its first member; it looks at a class when the class comes to have a member, or one
with a lower name. So a decision costs the few classes that did so since the last one of its kind, whatever the number
of members.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from numaware.diagnose.reason import Reason
from numaware.schedule.answer import Answer, refused
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.evaluation_cache import EvaluationCache
from numaware.schedule.pod_kinds import Kind
from numaware.workload.pod import Pod

# Appearances of classes kept for boards that have not read them; then all boards start again.
_MOST_NEWS = 1 << 17
# Of a node that is not there.
NODE_UNKNOWN = refused(Reason("node-unknown"))


class _Board:
    """Classes that fit one kind of pod, as a heap of (-score, name of first member, class).

    `named` holds the name of each class's entry: never higher than that of its first member, put right when the entry
    surfaces. `read` is how far the board has read the pool's news.
    """

    __slots__ = ("answers", "heap", "named", "read")

    def __init__(self, answers: EvaluationCache) -> None:
        self.answers = answers
        self.heap: list[tuple[int, str, int]] = []
        self.named: dict[int, str] = {}
        self.read = 0


class _Class(msgspec.Struct, eq=False, gc=False):
    """The members of one class, at first one: the first by name, all names in a heap, and how many there are.

    Those that have moved on are dropped from the heap when they surface. `place` is where the pool's news tell of it.
    """

    number: int
    first: str
    names: list[str]
    place: int
    size: int = 1


class Pool:
    """The members of a cluster that nothing about the node itself keeps from taking a pod, by class.

    `reason` says what would. Lags behind what happens on the members until it is asked.
    """

    def __init__(
        self, cluster: Cluster, evaluator: Evaluator, reason: Callable[[Member], Reason | None]
    ) -> None:
        self.cluster = cluster
        self.evaluator = evaluator
        self._reason = reason
        # The answers of the members that are not in the pool; those with one reason share one.
        self._outside: dict[str, Answer] = {}
        self._refusals: dict[Reason, Answer] = {}
        self._refused: Counter[Reason] = Counter()
        self._number: dict[str, int] = {}
        # Only classes that have members.
        self._classes: dict[int, _Class] = {}
        # Classes in the order in which they came to have a first member, or another one with a lower name; None for news that
        # are no longer true, or were told again.
        self._news: list[_Class | None] = []
        self._boards: dict[Kind, _Board] = {}
        self._seen, self._described = cluster.serial, cluster.described
        for member in cluster:
            self._consider(member)

    def __contains__(self, name: str) -> bool:
        """Whether nothing about the node itself keeps the pod off, as of the last answers."""
        return name in self._number

    def best(self, pod: Pod, kind: Kind) -> tuple[Member, Answer] | None:
        """The best member for the pod: highest score, then first by name."""
        self._catch_up()
        if len(self._news) > _MOST_NEWS:
            self.forget_scores()
        board = self._boards.get(kind)
        if board is None:
            board = self._boards[kind] = _Board(self.evaluator.about(kind))
        if board.read < len(self._news):
            self._read(board, pod)
        heap, named, answers = board.heap, board.named, board.answers
        while heap:
            score, name, number = heap[0]
            some = self._classes.get(number)
            if some is not None and some.first == name == named.get(number):
                member = self.cluster.by_name[name]
                answer = answers.whole.get(number) or self.evaluator.evaluated(answers, number, member, pod)
                if answer.reasons:
                    heapq.heappop(heap)
                    del named[number]
                elif answer.score != -score:
                    heapq.heapreplace(heap, (-answer.score, name, number))
                else:
                    return member, answer
                continue
            heapq.heappop(heap)
            if named.get(number) != name:
                continue
            if some is None:
                del named[number]
            else:
                named[number] = some.first
                heapq.heappush(heap, (score, some.first, number))
        return None

    def peers(self, name: str, others: Iterable[str]) -> Iterator[str]:
        """The member and those of the others that are in the same state, as of the last answers."""
        number = self._number[name]
        yield name
        yield from (other for other in others if self._number.get(other) == number)

    def answers(
        self, pod: Pod, kind: Kind, names: Sequence[str], evaluator: Evaluator | None = None
    ) -> list[Answer]:
        """What each of these members says; each class is asked once, by another evaluator where one is given."""
        evaluator = evaluator or self.evaluator
        self._catch_up()
        numbers = [*map(self._number.get, names)]
        some_of = dict(zip(numbers, names, strict=True))
        known, by_name = evaluator.about(kind), self.cluster.by_name
        answers: dict[int | None, Answer] = {
            number: known.whole.get(number) or evaluator.evaluated(known, number, by_name[name], pod)
            for number, name in some_of.items()
            if number is not None
        }
        if None not in some_of:
            return [*map(answers.__getitem__, numbers)]
        return [
            answers[number] if number is not None else self._outside.get(name, NODE_UNKNOWN)
            for number, name in zip(numbers, names, strict=True)
        ]

    def refusals(self, pod: Pod, kind: Kind) -> Iterator[tuple[tuple[Reason, ...], int]]:
        """Why no member will have the pod, where none will, and how many say so: class by class, then those outside."""
        self._catch_up()
        known, by_name = self.evaluator.about(kind), self.cluster.by_name
        fits = known.fits
        for number, some in self._classes.items():
            fit = fits.get(number) or self.evaluator.fit(known, number, by_name[some.first], pod)
            yield fit.reasons, some.size
        for reason, number in self._refused.items():
            if number:
                yield (reason,), number

    def forget_scores(self) -> None:
        """The scores have changed: boards start again from the classes there are."""
        self._boards.clear()
        self._news = []
        for _, some in sorted(self._classes.items()):
            some.place = len(self._news)
            self._news.append(some)

    def _read(self, board: _Board, pod: Pod) -> None:
        """Take in the news since the board was last asked for."""
        named, refused = board.named, board.answers.refused
        news: list[_Class]
        if board.read:
            news = [
                some
                for some in self._news[board.read :]
                if some is not None
                and some.number not in refused
                and ((known := named.get(some.number)) is None or some.first < known)
            ]
        else:
            news = [some for some in self._classes.values() if some.number not in refused]
        board.read = len(self._news)
        entries = self.evaluator.offers(board.answers, news, self.cluster.by_name, pod)
        named.update([(number, name) for _, name, number in entries])
        if board.heap:
            for entry in entries:
                heapq.heappush(board.heap, entry)
        else:
            heapq.heapify(entries)
            board.heap = entries

    def _catch_up(self) -> None:
        cluster, numbers = self.cluster, self._number
        if self._seen == cluster.serial:
            return
        if self._described != cluster.described:
            for name in self._redescribed():
                self._reconsider(name)
            self._described = cluster.described
        for name in cluster.changed_since(self._seen):
            before = numbers.get(name)
            if before is not None:
                number = self.evaluator.number_of(cluster.by_name[name])
                if number != before:
                    numbers[name] = number
                    self._leave(before, name)
                    self._enter(number, name)
        self._seen = cluster.serial

    def _redescribed(self) -> Iterable[str]:
        names = self.cluster.described_since(self._described)
        return {*self._number, *self._outside, *self.cluster.by_name} if names is None else names

    def _reconsider(self, name: str) -> None:
        """A member is new, gone, or described anew."""
        if outside := self._outside.pop(name, None):
            self._refused.subtract(outside.reasons)
        number = self._number.pop(name, None)
        if number is not None:
            self._leave(number, name)
        member = self.cluster.by_name.get(name)
        if member is not None:
            self._consider(member)

    def _consider(self, member: Member) -> None:
        """Let a member in, or keep in mind what speaks against it."""
        reason = self._reason(member)
        if reason is None:
            number = self._number[member.name] = self.evaluator.number_of(member)
            self._enter(number, member.name)
        else:
            self._outside[member.name] = self._refusals.setdefault(reason, refused(reason))
            self._refused[reason] += 1

    def _enter(self, number: int, name: str) -> None:
        """A member is of a class from now on."""
        some, news = self._classes.get(number), self._news
        if some is None:
            some = self._classes[number] = _Class(number, name, [name], len(news))
            news.append(some)
            return
        if name < some.first:
            news[some.place] = None
            some.first = name
            some.place = len(news)
            news.append(some)
        some.size += 1
        heapq.heappush(some.names, name)
        if len(some.names) > 4 * some.size + 8:
            some.names = sorted({name for name in some.names if self._number.get(name) == number})

    def _leave(self, number: int, name: str) -> None:
        """A member is no longer of a class."""
        some = self._classes[number]
        some.size -= 1
        if not some.size:
            self._news[some.place] = None
            del self._classes[number]
        elif some.first == name:
            names = some.names
            while self._number.get(names[0]) != number:
                heapq.heappop(names)
            some.first = names[0]
