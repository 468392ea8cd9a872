"""One kind of pod on one kind of node: does it fit, where would it go, how good is that.

The answer depends on the node's class only, so it is worked out once per class and kind of pod. With 5,000 nodes in a
few hundred classes, almost every question has been answered before. What the twin says is kept apart from the score:
the first never changes, the second does when the engine learns which pods come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Protocol

from numaware.diagnose.reason import Reason
from numaware.schedule.answer import Answer, refused
from numaware.schedule.certain_fit import certain_fit
from numaware.schedule.cluster import Load, Member, plus
from numaware.schedule.evaluation_cache import REFUSED, Bound, EvaluationCache, Fit
from numaware.schedule.filters.node_resources import capacity_reasons
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.partial_node import PartialNode, UnknownVerdict, class_of
from numaware.schedule.pod_footprint import PodFootprint, footprint
from numaware.schedule.pod_kinds import Kind, owns_something
from numaware.schedule.profile import Profile
from numaware.schedule.room import Room, Site, room
from numaware.schedule.score import Outcome, ScoreInput
from numaware.schedule.score_bounds import score_bounds
from numaware.schedule.shares import NO_SHARE, choices, shared_nodes, shares_class, with_shared
from numaware.schedule.standing import Standing
from numaware.schedule.stranding import Mix
from numaware.schedule.stranding_bound import stranding_bound
from numaware.twin.account import numa_nodes
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node, Verdict
from numaware.twin.topology.hints import Hint
from numaware.workload.demand import Amounts, is_memory
from numaware.workload.pod import Pod

# Classes, fits and promises kept before everything is forgotten; at most about 1 KB each.
_MOST_ANSWERS = 1 << 19
ASTRAY = Reason("pods-astray")


class SomeClass(Protocol):
    """A class of members, and the name of one of them."""

    @property
    def number(self) -> int: ...

    @property
    def first(self) -> str: ...


class Evaluator:
    """Answers with a memory. `cached=False` remembers nothing, to prove that remembering changes nothing."""

    def __init__(self, profile: Profile, *, cached: bool = True) -> None:
        self.profile = profile
        self.mix = Mix()
        self.cached = cached
        self._numbers: dict[Hashable, int] = {}
        # Member -> its number, of which load and facts, and the number of what such a node can allocate at all.
        self._numbered: dict[str, tuple[int, Load, NodeFacts, int]] = {}
        # What nodes can allocate -> its number; and by that number the resources, but for pods.
        self._capacities: dict[Amounts, int] = {}
        self._resources: list[tuple[str, ...]] = []
        self._standings: dict[int, Standing] = {}
        self._answers: dict[Kind, EvaluationCache] = {}
        # How many fits and promises there are, or were.
        self._kept = 0
        self._hints: dict[tuple[Hint, ...], tuple[Hint, ...]] = {}
        # The last admission that was worked out: most pods that lead to a new fit are bound by it at once.
        self._last: tuple[Load, Pod, Verdict] | None = None

    def learn(self, mix: Mix) -> None:
        """Score by another mix of pods from now on."""
        self.mix = mix
        for answers in self._answers.values():
            answers.whole.clear()
            answers.promises.clear()
            answers.bounds.clear()
            answers.bounds_of.clear()

    @property
    def full(self) -> bool:
        """Whether so many classes were seen that it is time to start afresh."""
        return self._kept + len(self._numbers) > _MOST_ANSWERS

    def machines(self, members: Iterable[Member]) -> dict[tuple[Site, Room], int]:
        """How many machines of which kind have how much free; members of one class are looked at once."""
        counts: Counter[int] = Counter()
        some: dict[int, Member] = {}
        for member in members:
            number = self.number_of(member)
            counts[number] += 1
            some[number] = member
        machines: Counter[tuple[Site, Room]] = Counter()
        for number, count in counts.items():
            standing = self._standings.get(number) or self._new_standing(number, some[number])
            machines[standing.site, standing.room] += count
        return machines

    def emptied(self) -> Evaluator:
        """The same evaluator without a memory of the past."""
        fresh = Evaluator(self.profile, cached=self.cached)
        fresh.learn(self.mix)
        return fresh

    def number_of(self, member: Member) -> int:
        """The number of the member's class; members with one number are interchangeable."""
        known = self._numbered.get(member.name)
        if known is None or known[2] is not member.facts:
            capacity = self._capacity(member.facts.allocatable)
        elif known[1] is not member.load:
            capacity = known[3]
        else:
            return known[0]
        number = self._worked_out(member, capacity)
        if self.cached:
            self._numbered[member.name] = number, member.load, member.facts, capacity
        return number

    def _capacity(self, allocatable: Amounts) -> int:
        number = self._capacities.setdefault(allocatable, len(self._capacities))
        if number == len(self._resources):
            # Scores look at CPUs and memory even where there are none.
            names = {"cpu", "memory", *dict(allocatable)} - {"pods"}
            self._resources.append(tuple(sorted(names)))
        return number

    def follow(self, member: Member, before: Load, kind: Kind, hints: tuple[Hint, ...]) -> None:
        """A pod was bound to a member that had `before` on it: a bind leads from one class to one other, always.

        Only the number of pods could make a difference: see `_worked_out`.
        """
        known = self._numbered.get(member.name)
        answers = self._answers.get(kind)
        if known is None or known[1] is not before or answers is None or not _takes_more(member):
            return
        number = known[0]
        fit = answers.fits.get(number)
        if fit is None or fit.hints is not hints or _shares(fit):
            return
        after = answers.moves.get(number)
        if after is None:
            answers.moves[number] = self.number_of(member)
        else:
            self._numbered[member.name] = after, member.load, member.facts, known[3]

    def verdict(self, load: Load, pod: Pod) -> Verdict | None:
        """What the kubelet says to this very pod, if that is what was asked last."""
        last = self._last
        return last[2] if last is not None and last[0] is load and last[1] is pod else None

    def forget(self, name: str) -> None:
        """The member is gone."""
        self._numbered.pop(name, None)

    def _worked_out(self, member: Member, capacity: int) -> int:
        load = member.load
        node, used, shares, astray = load.node, load.used, load.shares, load.astray
        key = (
            class_of(node),
            capacity,
            # What no pod can have here does not matter. Of the number of pods all that counts is room for one more: two small
            # ones are as good as a large one.
            *map(used.get, self._resources[capacity]),
            _takes_more(member),
            shares_class(node, shares) if shares else (),
            bool(astray),
        )
        return self._numbers.setdefault(key, len(self._numbers))

    def offers(
        self, answers: EvaluationCache, classes: Iterable[SomeClass], members: Mapping[str, Member], pod: Pod
    ) -> list[tuple[int, str, int]]:
        """What classes promise that do not refuse: minus the promise, the name of a member, the number of the class.

        A promise is at least as much as the score, and the score itself if nothing is gained by not knowing it. Most
        classes are never the best, and what they promise is enough to see that.
        """
        promises, bounds, standings = answers.promises, answers.bounds, self._standings
        offers = []
        for some in classes:
            number, name = some.number, some.first
            promise = promises.get(number)
            if promise is None:
                standing = standings.get(number) or self._new_standing(number, members[name])
                bound = bounds.get(standing.kubelet) or self._bound(answers, standing, members[name], pod)
                promise = bound(standing)
                self._kept += 1
                if promise == REFUSED:
                    answers.refused.add(number)
                    continue
                if promise is None:
                    answer = self.evaluated(answers, number, members[name], pod)
                    if answer.reasons:
                        continue
                    promise = answer.score
                promises[number] = promise
            offers.append((-promise, name, number))
        return offers

    def _bound(self, answers: EvaluationCache, standing: Standing, member: Member, pod: Pod) -> Bound:
        """How promises of nodes with such a kubelet are found, remembered until there is another mix."""
        wanted = _footprint(answers, member.node, pod)
        bound = answers.bounds_of.get(wanted)
        if bound is None:
            bound = _nothing_certain if wanted is None else partial(self._worth, answers.kind, wanted)
            if wanted is not None and answers.only_strands and self.mix.by_gpus and not wanted.others:
                bound = stranding_bound(wanted, self.mix, bound)
            answers.bounds_of[wanted] = bound
        answers.bounds[standing.kubelet] = bound
        return bound

    def _worth(self, kind: Kind, wanted: PodFootprint, standing: Standing) -> int | None:
        """What the best that may come of it is worth, None if that cannot be told."""
        bounds = score_bounds(standing, wanted, self.mix)
        if bounds is None:
            return None
        return max([self._weigh(bound, kind) for bound in bounds], default=REFUSED)

    def evaluate(self, number: int, member: Member, pod: Pod, kind: Kind) -> Answer:
        """The answer of class `number` to a kind of pod; `member` and `pod` stand for all of theirs."""
        answers = self.about(kind)
        return answers.whole.get(number) or self.evaluated(answers, number, member, pod)

    def evaluated(self, answers: EvaluationCache, number: int, member: Member, pod: Pod) -> Answer:
        """The same, to be asked only where `answers` has not found it yet."""
        fit = self.fit(answers, number, member, pod)
        if fit.reasons:
            # An object of its own for each class: by that others tell classes apart.
            refusal = answers.whole[number] = refused(*fit.reasons)
            return refusal
        score, share, numa = REFUSED, None, 0
        for way, nodes, outcome in fit.ways:
            worth = self._weigh(outcome, answers.kind)
            if worth > score:
                score, share, numa = worth, way, nodes
        answers.promises[number] = score
        answer = answers.whole[number] = Answer(score, fit.hints, share, (), numa)
        return answer

    def fit(self, answers: EvaluationCache, number: int, member: Member, pod: Pod) -> Fit:
        """What such a node says to the pod, whatever that is worth."""
        fit = answers.fits.get(number)
        if fit is None:
            fit = answers.fits[number] = self._fit(answers, number, member, pod)
            self._kept += 1
            if fit.reasons:
                answers.refused.add(number)
        return fit

    def about(self, kind: Kind) -> EvaluationCache:
        """What is known about a kind of pod; nothing, for those who remember nothing."""
        answers = self._answers.get(kind)
        if answers is None:
            only_strands = self.profile.only_strands(kind.workload)
            answers = EvaluationCache(kind, only_strands=only_strands)
            if self.cached:
                self._answers[kind] = answers
        return answers

    def _weigh(self, placement: ScoreInput, kind: Kind) -> int:
        return self.profile.weigh(kind.workload, placement, self.mix)

    def _fit(self, answers: EvaluationCache, number: int, member: Member, pod: Pod) -> Fit:
        load = member.load
        node, used, shares, astray = load.node, load.used, load.shares, load.astray
        requests = answers.kind.requests
        short = capacity_reasons(requests, member.allocatable, used)
        if short:
            return Fit((), (), short)
        if astray and owns_something(pod):
            return Fit((), (), (ASTRAY,))
        standing = self._standings.get(number) or self._new_standing(number, member)
        wanted = _footprint(answers, node, pod)
        if wanted is not None and self.cached and not isinstance(node, PartialNode):
            fit = certain_fit(standing, wanted, node, shares, pod)
            if fit is not None:
                return fit
        try:
            verdict = node.admit(pod)
        except KubeletPanic as crash:
            return Fit((), (), (Reason("kubelet-crash", (str(crash),)),))
        if not verdict.admitted:
            return Fit((), (), (kubelet_reason(node, verdict),))
        if self.cached:
            self._last = member.load, pod, verdict
        total, own = plus(used, requests), numa_nodes(verdict.node, pod.uid)
        ways = []
        for share, after in choices(verdict.node, shares, pod):
            # A device that goes into shared use is still free to the twin that admitted the pod.
            left = room(with_shared(verdict.node, after), after, member.allocatable, total)
            nodes = own | shared_nodes(verdict.node, shares, share)
            ways.append((share, nodes, Outcome(standing.site, standing.room, left)))
        if not ways:
            return Fit((), (), (NO_SHARE,))
        hints = self._hints.setdefault(verdict.hints, verdict.hints)
        return Fit(hints, tuple(ways), ())

    def _new_standing(self, number: int, member: Member) -> Standing:
        standing = Standing(member)
        if self.cached:
            self._standings[number] = standing
        return standing


def _nothing_certain(_standing: Standing) -> None:
    """The bound where even the pod's GPUs are uncertain."""


def _footprint(answers: EvaluationCache, node: Node, pod: Pod) -> PodFootprint | None:
    """What a pod of the kind takes of such a node; `pod` stands for all of them."""
    number = node.kubelet.number
    try:
        return answers.footprints[number]
    except KeyError:
        taken = answers.footprints[number] = footprint(node, pod)
        return taken


def _shares(fit: Fit) -> bool:
    """Whether the pod gets a part of a GPU."""
    return bool(fit.ways) and fit.ways[0][0] is not None


def _takes_more(member: Member) -> bool:
    return member.load.used.get("pods", 0) < member.allocatable.get("pods", 0)


def kubelet_reason(node: Node, verdict: Verdict) -> Reason:
    """A kubelet's refusal as a reason that counts over many nodes: no numbers of one node in it."""
    if isinstance(verdict, UnknownVerdict) and verdict.outcome is not None:
        return verdict.outcome
    if verdict.reason == "TopologyAffinityError":
        return Reason("numa-alignment", (node.kubelet.config.topology_policy,))
    if verdict.reason == "SMTAlignmentError":
        return Reason("smt-alignment")
    if is_memory(verdict.resource):
        return Reason("numa-memory")
    return Reason("exclusive-cpus" if verdict.resource == "cpu" else "devices")
