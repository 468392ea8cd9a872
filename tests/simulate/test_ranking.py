"""Remembering changes no choice: every decision equals one made by asking every node anew."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.schedule.cluster import Cluster
from numaware.schedule.peers import kai
from numaware.schedule.room import gpu_resource
from numaware.simulate.clusters import ClusterSpec, NodeSpec, build
from numaware.simulate.fgd import GradientDescent, Typical
from numaware.simulate.peers import Kai, Koordinator, SchedulerPlugins, Volcano
from numaware.simulate.policies import POLICIES, Setting
from numaware.simulate.random_source import random_source
from numaware.simulate.ranking import Ranking, Rule
from numaware.simulate.totals import BestFit, NodeTotals
from numaware.simulate.views import topology_of
from numaware.workload.pod import Pod
from support.lab_worlds import cluster, guaranteed
from support.twin_nodes import GPU, config, machine

KINDS = [
    guaranteed("x", 1),
    guaranteed("x", 3),
    guaranteed("x", 5, gpu=1),
    guaranteed("x", 2, gpu=2),
    guaranteed("x", 1, share=300),
    guaranteed("x", 2, share=700),
]
RULES = ("kube-scheduler", "best-fit", "fgd", "scheduler-plugins", "volcano", "kai", "koordinator")


def rule(name: str, nodes: Cluster) -> Rule:
    found: dict[str, Rule] = {
        "kube-scheduler": NodeTotals(),
        "best-fit": BestFit(nodes),
        "fgd": GradientDescent(Typical(KINDS, GPU)),
        "scheduler-plugins": SchedulerPlugins(nodes),
        "volcano": Volcano(nodes),
        "kai": Kai(nodes),
        "koordinator": Koordinator(),
    }
    return found[name]


def named(pod: Pod, number: int) -> Pod:
    return Pod(f"p{number}", uid=f"p{number}", containers=pod.containers)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=12)
@given(
    steps=st.lists(st.tuples(st.integers(0, len(KINDS) - 1), st.booleans()), max_size=30),
    policy=st.sampled_from(["none", "restricted", "single-numa-node"]),
    seed=st.integers(0, 3),
)
def test_a_choice_is_the_best_of_all_nodes_asked_anew(
    name: str, steps: list[tuple[int, bool]], policy: str, seed: int
) -> None:
    nodes = build(cluster(4, policy, gpus=4))
    chosen_by = rule(name, nodes)
    order = list(range(4))
    random_source(seed, "ties").shuffle(order)
    ties = dict(zip((member.name for member in nodes), order, strict=True))
    ranking = Ranking(nodes, chosen_by, ties)
    placed: list[str] = []
    for number, (kind, leaves) in enumerate(steps):
        pod = named(KINDS[kind], number)
        choice = ranking.decide(pod, number * 1000)
        # The same rule with the same knowledge, but no memory of earlier answers.
        fresh = Ranking(nodes, chosen_by, ties).decide(pod, 0)
        assert (choice.node, choice.share) == (fresh.node, fresh.share)
        assert choice.reasons == fresh.reasons
        if choice.node is not None and ranking.bind(choice).admitted:
            placed.append(pod.uid)
        if leaves and placed:
            ranking.release(placed.pop(0))


WIDE = tuple(guaranteed("x", cpus) for cpus in (1, 3, 5, 7, 9, 11))


@settings(max_examples=40)
@given(
    steps=st.lists(st.integers(0, len(WIDE) - 1), max_size=25),
    bare=st.integers(0, 2),
    policy=st.sampled_from(["best-effort", "restricted"]),
)
def test_kai_takes_the_node_with_most_points_of_all(steps: list[int], bare: int, policy: str) -> None:
    """Points of spans 3 and 4 lie closer than those for being full, so what the whole cluster looks like decides."""
    devices = {GPU: {"gpu-0": (0,)}}
    nodes = build(
        ClusterSpec(
            "mixed",
            tuple(
                NodeSpec(
                    f"n{number}",
                    machine(4, 3 + number % 3, devices=devices if number >= bare else None),
                    config(policy),
                )
                for number in range(5)
            ),
        )
    )
    ranking = POLICIES["kai"](Setting(nodes, (), 1))
    for number, kind in enumerate(steps):
        pod = named(WIDE[kind], number)
        free = {member.name: member.allocatable["cpu"] - member.load.used.get("cpu", 0) for member in nodes}
        points = {}
        for member in nodes:
            placement = kai.place(topology_of(member.node), pod, ignored=frozenset({"memory"}))
            if placement.admitted and free[member.name] >= 1000 * (1, 3, 5, 7, 9, 11)[kind]:
                points[member.name] = (
                    kai.numa_score(placement, 4)
                    + kai.type_score(wants_gpus=False, has_gpus=gpu_resource(member.node) is not None)
                    + kai.packing_score(free[member.name], min(free.values()), max(free.values()))
                )
        choice = ranking.decide(pod, 0)
        assert choice.node == min(points, key=lambda name: (-points[name], name), default=None)
        if choice.node is not None:
            ranking.bind(choice)
