"""Which pods a placement leaves room for: seen, expected, scarce."""

from __future__ import annotations

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.need import Need
from numaware.schedule.outlook import outlook
from numaware.schedule.profile import DEFAULT_PROFILE
from numaware.schedule.room import SHARE_RESOURCE, WHOLE
from numaware.schedule.stranding import Mix
from numaware.twin.node import Node
from numaware.workload.pod import Container
from support.small_clusters import cluster_of, gpu_node
from support.twin_nodes import GI, GPU, admitted, config, machine, pod, pod_of, sized

SMALL = Need(1, GI, 1, WHOLE)
EIGHT_CPUS = Need(8, GI, 1, WHOLE)


def mix_of(cluster: Cluster, seen: dict[Need, int]) -> Mix:
    return outlook(seen, Evaluator(DEFAULT_PROFILE).machines(cluster))


def weight(mix: Mix, need: Need) -> int:
    return dict(mix.kinds).get(need, 0)


def test_a_new_cluster_expects_jobs_for_whole_machines_for_half_of_one_and_for_one_gpu() -> None:
    mix = mix_of(cluster_of(gpu_node(), gpu_node()), {})
    assert mix.by_gpus
    # For all of a machine twice: for nine tenths of it, and for all that an idle one has.
    assert sorted(need.gpus for need, _ in mix.kinds) == [1, 2, 4, 4]
    assert max(need.cpus for need, _ in mix.kinds) == 15


def test_a_job_for_a_whole_machine_asks_for_what_the_idlest_one_has() -> None:
    """Where something runs on every node, nobody expects a job to have more than what that leaves."""
    idlest = admitted(gpu_node(cpus=32), pod("agent-0", 2))
    busy = admitted(gpu_node(cpus=32), pod("agent-1", 2), pod("x", 3))
    mix = mix_of(cluster_of(idlest, busy), {})
    assert max(need.cpus for need, count in mix.kinds if count) == 2 * 32 - 1 - 2


def test_jobs_for_whole_machines_count_by_the_gpus_of_such_machines() -> None:
    """Before anybody asked: many machines of a shape speak for many jobs of that shape, few of another for few."""
    mix = mix_of(cluster_of(*[gpu_node(cpus=8)] * 9, gpu_node(cpus=16)), {})
    weights = {need.cpus: count for need, count in mix.kinds if need.gpus == 4}
    usual, rare = 15, 31
    # By scarcity alone it would be a hundred to one.
    assert weights[rare] < 12 * weights[usual]


def test_small_pods_that_come_first_leave_large_nodes_to_jobs_that_come_later() -> None:
    """Parts of as many GPUs as the small machines have, then jobs for all of a large one."""
    small = Node.fresh(machine(1, 16, devices={GPU: {"g0": (0,), "g1": (0,)}}), config("restricted"))
    engine = Engine(cluster_of(*[small] * 20, *[gpu_node() for _ in range(10)]))
    for number in range(40):
        amounts = sized({"cpu": 2, "memory": GI, SHARE_RESOURCE: 800})
        decision = engine.decide(pod_of(f"s{number}", Container("app", amounts, amounts)))
        assert engine.bind(decision).admitted
    for number in range(10):
        assert engine.bind(engine.decide(pod(f"job{number}", 12, gpu=4))).admitted


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
