"""Laws of a cluster that changes: an engine that lived through it decides as one that finds everything as it is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.need import need_of
from numaware.schedule.node_facts import NodeFacts, pod_requests
from numaware.schedule.partial_node import partial_node
from numaware.schedule.pod_kinds import owns_something
from numaware.schedule.stranding import Mix
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from property.strategies_cluster import Made, clusters, facts, templates
from support.published_counts import published
from support.twin_nodes import GPU

NAMES = [f"n{number}" for number in range(8)]


class Put(NamedTuple):
    """A node is new or known anew: described anew, with a twin of its own, with the pods it had or without them."""

    facts: NodeFacts
    node: Node | None
    keeps: bool


class Drop(NamedTuple):
    name: str


class Arrive(NamedTuple):
    template: int


class Leave(NamedTuple):
    turn: int


class Place(NamedTuple):
    """Somebody else has put a pod on a node; with a turn, one that was there already, told again or somewhere else."""

    template: int
    name: str
    turn: int | None


Step = Put | Drop | Arrive | Leave | Place


class Story(NamedTuple):
    made: Made
    kinds: list[Pod]
    steps: list[Step]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    made = draw(clusters(most=4))
    kinds = draw(templates(made))
    nodes = [node for _, node in made]
    any_name, any_kind = st.sampled_from(NAMES), st.integers(0, len(kinds) - 1)

    @st.composite
    def puts(draw: st.DrawFn) -> Put:
        node = draw(st.sampled_from(nodes))
        told = draw(facts(draw(any_name), node))
        match draw(st.sampled_from(["known", "known", "by counts", "kept"])):
            case "known":
                return Put(told, node, draw(st.booleans()))
            case "by counts":
                return Put(told, partial_node(published(node, devices=True)), draw(st.booleans()))
            case _:
                return Put(told, None, keeps=True)

    step = st.one_of(
        puts(),
        st.builds(Drop, any_name),
        st.builds(Arrive, any_kind),
        st.builds(Arrive, any_kind),
        st.builds(Leave, st.integers(0, 5)),
        st.builds(Place, any_kind, any_name, st.sampled_from([None, None, 0, 3])),
    )
    return Story(made, kinds, draw(st.lists(step, min_size=3, max_size=14)))


class Life:
    """An engine that lives through a story."""

    def __init__(self, story: Story, *, cached: bool) -> None:
        self.kinds = story.kinds
        self.mix = Mix(Counter(need_of(pod, GPU) for pod in story.kinds))
        self.cached = cached
        self.engine = Engine(Cluster(story.made), mix=self.mix, cached=cached)
        self.count = 0

    def step(self, step: Step) -> None:
        engine, cluster = self.engine, self.engine.cluster
        there = sorted(cluster.where)
        match step:
            case Put(facts, node, keeps):
                if node is not None and keeps and facts.name in cluster.by_name:
                    node = _hosting(node, cluster.by_name[facts.name].pods.values())
                if node is not None or facts.name in cluster.by_name:
                    engine.cluster.put(facts, node)
            case Drop(name):
                if name in cluster.by_name:
                    engine.cluster.drop(name)
            case Arrive(template):
                decision = engine.decide(self._pod(template))
                if decision.node is not None:
                    assert engine.bind(decision).admitted
            case Leave(turn):
                if there:
                    engine.cluster.release(there[turn % len(there)])
            case Place(template, name, turn):
                if name in cluster.by_name:
                    pod = self._pod(template)
                    uid = there[turn % len(there)] if there and turn is not None else pod.uid
                    engine.cluster.place(replace(pod, uid=uid), name)

    def _pod(self, template: int) -> Pod:
        self.count += 1
        return replace(self.kinds[template], uid=f"u{self.count:03}")

    def afresh(self) -> Engine:
        """An engine that finds everything as it is now."""
        now = self.engine.cluster
        cluster = Cluster((member.facts, member.node) for member in now)
        for member in cluster:
            # Twins do not know who shares a GPU, nor whose place is not known.
            member.load = now.by_name[member.name].load
        return Engine(cluster, mix=self.mix, cached=self.cached)


def _hosting(node: Node, pods: Iterable[Pod]) -> Node:
    """A twin with as many of the pods on it as it takes."""
    for pod in pods:
        try:
            node = node.admit(pod).node
        except KubeletPanic:
            continue
    return node


@settings(max_examples=120)
@given(stories())
def test_an_engine_decides_as_one_built_afresh_whatever_became_of_its_nodes(story: Story) -> None:
    lives = [Life(story, cached=cached) for cached in (True, False)]
    for step in story.steps:
        found = []
        for life in lives:
            life.step(step)
            fresh = life.afresh()
            assert list(fresh.cluster.by_name) == [member.name for member in life.engine.cluster]
            for kind in story.kinds:
                decision = life.engine.decide(kind)
                assert decision == fresh.decide(kind)
                found.append(decision)
        assert found[: len(story.kinds)] == found[len(story.kinds) :]


@settings(max_examples=60)
@given(stories())
def test_the_books_agree_with_the_pods_that_are_there(story: Story) -> None:
    life = Life(story, cached=True)
    cluster = life.engine.cluster
    for step in story.steps:
        life.step(step)
        assert cluster.where == {uid: member for member in cluster for uid in member.pods}
        for member in cluster:
            total: Counter[str] = Counter()
            for pod in member.pods.values():
                total.update(dict(pod_requests(pod)))
            assert {name: amount for name, amount in member.load.used.items() if amount} == total
            assert member.load.astray <= member.pods.keys()


@settings(max_examples=60)
@given(stories())
def test_nothing_of_its_own_is_given_to_a_pod_beside_one_that_is_astray(story: Story) -> None:
    life = Life(story, cached=True)
    for step in story.steps:
        life.step(step)
        for kind in filter(owns_something, story.kinds):
            decision = life.engine.decide(kind)
            assert decision.node is None or not life.engine.cluster.by_name[decision.node].load.astray
