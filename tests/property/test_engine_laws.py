"""Laws of the engine: what it remembers changes nothing, undo undoes, and no kubelet refuses what it decided."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.schedule.cluster import Cluster, Load
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.partial_node import class_of
from numaware.schedule.stranding import Mix
from numaware.workload.pod import Pod
from property.strategies_cluster import Made, Move, clusters, moves, templates


class Story:
    """A cluster and what happens on it; several engines can live through the same."""

    def __init__(self, made: Made, kinds: list[Pod], steps: list[Move]) -> None:
        self.made = made
        self.kinds = kinds
        self.steps = steps

    def __repr__(self) -> str:
        return f"Story({[(facts, node.kubelet.config) for facts, node in self.made]}, {self.kinds}, {self.steps})"


@st.composite
def stories(draw: st.DrawFn) -> Story:
    made = draw(clusters())
    kinds = draw(templates(made))
    return Story(made, kinds, draw(moves(len(kinds))))


class Life:
    """One engine living through a story, one step at a time."""

    def __init__(self, engine: Engine, story: Story) -> None:
        self.engine = engine
        self.story = story
        self.placed: list[str] = []
        self.count = 0

    def step(self, move: Move) -> Decision | None:
        """Carry out one step; the decision if a pod arrived. Every decision must hold before the kubelet."""
        if move.leaves is not None:
            if self.placed:
                self.engine.cluster.release(self.placed.pop(move.leaves % len(self.placed)))
            return None
        pod = replace(self.story.kinds[move.template], uid=f"u{self.count}")
        self.count += 1
        decision = self.engine.decide(pod)
        if decision.node is not None:
            verdict = self.engine.bind(decision)
            assert verdict.admitted, verdict.message
            self.placed.append(pod.uid)
        return decision

    def live(self) -> list[Decision | None]:
        return [self.step(move) for move in self.story.steps]


def seen(cluster: Cluster) -> list[object]:
    """All that a later decision can depend on."""
    return [
        (member.name, class_of(member.node), _nonzero(member.load), sorted(member.pods)) for member in cluster
    ]


def _nonzero(load: Load) -> object:
    used = {name: amount for name, amount in load.used.items() if amount}
    return used, dict(load.shares), dict(load.sharers)


@settings(max_examples=150)
@given(stories())
def test_remembering_changes_no_decision_and_no_kubelet_refuses_one(story: Story) -> None:
    cached = Life(Engine(Cluster(story.made)), story)
    plain = Life(Engine(Cluster(story.made), cached=False), story)
    for move in story.steps:
        assert cached.step(move) == plain.step(move)
        assert seen(cached.engine.cluster) == seen(plain.engine.cluster)


@settings(max_examples=60)
@given(stories(), st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_given_does_not_matter(story: Story, random: Random) -> None:
    shuffled = list(story.made)
    random.shuffle(shuffled)
    assert Life(Engine(Cluster(story.made)), story).live() == Life(Engine(Cluster(shuffled)), story).live()


@settings(max_examples=100)
@given(stories(), stories())
def test_what_is_undone_never_happened(story: Story, tried: Story) -> None:
    """Two engines with one mix of pods in mind; one of them tries something in between and takes it back."""
    mix = Mix()
    straight, detour = (Life(Engine(Cluster(story.made), mix=mix), story) for _ in range(2))
    half = len(story.steps) // 2
    for move in story.steps[:half]:
        assert straight.step(move) == detour.step(move)
    before = seen(detour.engine.cluster)
    where = dict(detour.engine.cluster.where)
    mark = detour.engine.cluster.mark()
    trial = Life(detour.engine, Story(story.made, tried.kinds, tried.steps))
    trial.placed, trial.count = list(detour.placed), 1000
    trial.live()
    detour.engine.cluster.undo(mark)
    assert seen(detour.engine.cluster) == before
    assert detour.engine.cluster.where == where
    for move in story.steps[half:]:
        assert straight.step(move) == detour.step(move)
