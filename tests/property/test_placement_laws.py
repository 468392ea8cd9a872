"""What a placement owes a pod, whatever the scores say: it is aligned as well as any node could have it."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.pod_kinds import workload_class
from numaware.schedule.profile import SHIPPED, Profile, shipped
from numaware.simulate.measure import numa_nodes
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from property.test_engine_laws import Life, Story, stories

ALIGNING = [profile for profile in map(shipped, SHIPPED) if profile.align_first]


def width(cluster: Cluster, pod: Pod, name: str, engine: Engine) -> int:
    """On how many NUMA nodes a pod lies if it goes to a node, at least one; nothing stays.

    Its share of a GPU is the one that the engine would give it.
    """
    mark = cluster.mark()
    [answer] = engine.ask(pod, [name])
    assert cluster.bind(pod, name, answer.share).admitted
    count = numa_nodes(cluster.by_name[name], pod).bit_count()
    cluster.undo(mark)
    return max(1, count)


@settings(max_examples=120)
@given(stories(), st.sampled_from(ALIGNING))
def test_no_exclusive_pod_lies_on_more_numa_nodes_than_the_best_node_would_give_it(
    story: Story, profile: Profile
) -> None:
    """Every decision against every node, each tried by itself."""
    life = Life(Engine(Cluster(story.made), profile), story)
    cluster = life.engine.cluster
    for move in story.steps:
        if move.leaves is None:
            pod = replace(story.kinds[move.template], uid="tried")
            decision = life.engine.decide(pod)
            if decision.node is not None and workload_class(pod) != "low":
                fitting = [
                    member.name
                    for member, answer in zip(cluster, life.engine.ask(pod), strict=True)
                    if answer.admitted
                ]
                best = min(width(cluster, pod, name, life.engine) for name in fitting)
                assert width(cluster, pod, decision.node, life.engine) == best
        life.step(move)


@settings(max_examples=80)
@given(stories(), st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_does_not_matter(story: Story, chance: Random) -> None:
    shuffled = [*story.made]
    chance.shuffle(shuffled)
    one, other = (Life(Engine(Cluster(made)), story) for made in (story.made, shuffled))
    for move in story.steps:
        before, after = one.step(move), other.step(move)
        assert (before and before.node) == (after and after.node)


@settings(max_examples=80)
@given(stories())
def test_an_idle_node_more_makes_no_pod_lie_on_more_numa_nodes(story: Story) -> None:
    life = Life(Engine(Cluster(story.made)), story)
    for move in story.steps:
        life.step(move)
    cluster = life.engine.cluster
    facts, node = story.made[0]
    for pod in story.kinds:
        trying = replace(pod, uid="tried")
        if workload_class(trying) == "low":
            continue
        decision = Engine(cluster).decide(trying)
        if decision.node is None:
            continue
        before = width(cluster, trying, decision.node, Engine(cluster))
        larger = Cluster(
            [
                *((member.facts, member.node) for member in cluster),
                (replace(facts, name="zz-idle"), Node.fresh(node.kubelet.hardware, node.kubelet.config)),
            ]
        )
        engine = Engine(larger)
        again = engine.decide(trying)
        if not any(member.load.shares for member in cluster):
            assert again.node is not None
            assert width(larger, trying, again.node, engine) <= before
