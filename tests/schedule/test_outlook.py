"""Which pods a placement leaves room for: seen, expected, scarce."""

from __future__ import annotations

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.need import Need
from numaware.schedule.outlook import outlook
from numaware.schedule.profile import DEFAULT_PROFILE
from numaware.schedule.room import WHOLE
from numaware.schedule.stranding import Mix
from numaware.twin.node import Node
from support.small_clusters import cluster_of, gpu_node
from support.twin_nodes import GI, pod

SMALL = Need(1, GI, 1, WHOLE)
EIGHT_CPUS = Need(8, GI, 1, WHOLE)


def mix_of(cluster: Cluster, seen: dict[Need, int]) -> Mix:
    return outlook(seen, Evaluator(DEFAULT_PROFILE).machines(cluster))


def weight(mix: Mix, need: Need) -> int:
    return dict(mix.kinds).get(need, 0)


def test_a_new_cluster_expects_jobs_for_whole_machines_for_half_of_one_and_for_one_gpu() -> None:
    mix = mix_of(cluster_of(gpu_node(), gpu_node()), {})
    assert mix.by_gpus
    assert sorted(need.gpus for need, _ in mix.kinds) == [1, 2, 4]


def test_what_was_seen_counts_more_than_what_nobody_asked_for() -> None:
    mix = mix_of(cluster_of(gpu_node(), gpu_node()), {SMALL: 100})
    assert weight(mix, SMALL) > mix.total // 2


def test_pods_without_gpus_have_no_say_where_machines_have_some() -> None:
    cpu_only = Need(4, GI, 0, WHOLE)
    assert weight(mix_of(cluster_of(gpu_node()), {cpu_only: 50}), cpu_only) == 0


def test_a_kind_counts_the_more_the_scarcer_its_room() -> None:
    """Eight CPUs beside each other are left on one node only; one CPU is free everywhere."""

    def ratio(*nodes: Node) -> float:
        mix = mix_of(cluster_of(*nodes), {SMALL: 10, EIGHT_CPUS: 10})
        return weight(mix, EIGHT_CPUS) / weight(mix, SMALL)

    busy = gpu_node().admit(pod("x", 5)).node.admit(pod("y", 5)).node
    assert ratio(gpu_node(), busy, busy) > ratio(gpu_node(), gpu_node(), gpu_node())


def test_a_kind_that_fits_nowhere_has_no_say() -> None:
    giant = Need(1000, GI, 1, WHOLE)
    assert weight(mix_of(cluster_of(gpu_node()), {giant: 1000}), giant) == 0


def test_small_pods_leave_a_whole_node_whole_before_any_large_job_was_seen() -> None:
    engine = Engine(cluster_of(gpu_node("restricted"), gpu_node("restricted"), gpu_node("restricted")))
    where = []
    for number in range(4):
        decision = engine.decide(pod(f"p{number}", 2, gpu=1))
        assert engine.bind(decision).admitted
        where.append(decision.node)
    assert len(set(where)) == 1
