"""The law behind asking only the best classes: no node is ever worth more to a pod than it promised."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.evaluation_cache import REFUSED, EvaluationCache
from numaware.schedule.need import need_of
from numaware.schedule.pod_kinds import kind_of
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.schedule.score import SCORES
from numaware.schedule.stranding import Mix
from property.test_engine_laws import Life, Story, stories
from support.twin_nodes import GPU

EVERYTHING = tuple((name, 1) for name in sorted(SCORES))
PROFILES = (
    DEFAULT_PROFILE,
    Profile(EVERYTHING, EVERYTHING, EVERYTHING),
    *(Profile(((name, 1),), ((name, 1),), ((name, 1),)) for name in ("spare-gpus", "stranding")),
)


@settings(max_examples=150)
@given(stories(), st.sampled_from(PROFILES), st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_no_node_is_worth_more_than_it_promised(story: Story, profile: Profile, counts: list[int]) -> None:
    """On every node, after every step, for every pod of the story, by a mix of those pods in any proportion."""
    life = Life(Engine(Cluster(story.made)), story)
    seen = Counter(
        {need_of(pod, GPU): count for pod, count in zip(story.kinds, counts, strict=False) if count}
    )
    mix = Mix(seen)
    for move in story.steps:
        life.step(move)
        evaluator, plain = Evaluator(profile), Evaluator(profile, cached=False)
        evaluator.learn(mix)
        plain.learn(mix)
        for member in life.engine.cluster:
            number = evaluator.number_of(member)
            for pod in story.kinds:
                kind = kind_of(pod)
                # One that remembers nothing asks the twin for everything.
                expected = plain.evaluate(number, member, pod, kind)
                score = REFUSED if expected.reasons else expected.score
                answers = evaluator.about(kind)
                offers = evaluator.offers(
                    answers, [SomeClass(number, member.name)], life.engine.cluster.by_name, pod
                )
                assert max([-offer for offer, _, _ in offers], default=REFUSED) >= score
                assert promised(answers, number) >= score
                assert evaluator.evaluate(number, member, pod, kind) == expected
                assert promised(answers, number) == score


class SomeClass(NamedTuple):
    """A class by one of its members."""

    number: int
    first: str


def promised(answers: EvaluationCache, number: int) -> int:
    return REFUSED if number in answers.refused else answers.promises[number]


@settings(max_examples=80)
@given(stories())
def test_classes_that_are_followed_are_those_that_are_worked_out(story: Story) -> None:
    """Binding leads from one class to one other: looked up or worked out, the same members are of one class."""
    cluster, evaluator = Cluster(story.made), Evaluator(DEFAULT_PROFILE)
    placed: list[str] = []
    for count, move in enumerate(story.steps):
        pod = replace(story.kinds[move.template], uid=f"u{count}")
        if move.leaves is not None and placed:
            cluster.release(placed.pop(move.leaves % len(placed)))
        for member in cluster:
            found = evaluator.evaluate(evaluator.number_of(member), member, pod, kind_of(pod))
            if found.reasons:
                continue
            before = member.load
            assert cluster.bind(pod, member.name, found.share).admitted
            evaluator.follow(member, before, kind_of(pod), found.hints)
            placed.append(pod.uid)
            break
        fresh = Evaluator(DEFAULT_PROFILE)
        pairs = {(evaluator.number_of(member), fresh.number_of(member)) for member in cluster}
        assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
