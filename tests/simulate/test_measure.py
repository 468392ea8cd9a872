"""What the lab counts, by hand."""

from __future__ import annotations

from numaware.schedule.room import WHOLE
from numaware.schedule.shares import Share
from numaware.simulate.clusters import build
from numaware.simulate.measure import Meter, numa_nodes, percent
from numaware.simulate.run import run
from numaware.twin.account import fewest_nodes_for
from support.lab_worlds import cluster, guaranteed, trace


def test_a_pod_is_on_the_numa_nodes_of_its_cpus_devices_and_shared_gpu() -> None:
    nodes = build(cluster(1, "none", gpus=4))
    member = nodes.members[0]
    first, second = guaranteed("first", 7), guaranteed("second", 2, gpu=1)
    nodes.bind(first, "n0")
    assert numa_nodes(member, first) == 0b01
    # A kubelet without a topology policy gives the first GPU, which is beside the NUMA node that is full.
    nodes.bind(second, "n0")
    assert numa_nodes(member, second) == 0b11
    shared = guaranteed("shared", 0, share=300)
    nodes.bind(shared, "n0", share=Share(1, WHOLE))
    assert numa_nodes(member, shared) == 0b10


def test_a_pod_that_owns_nothing_is_on_no_numa_node() -> None:
    nodes = build(cluster(1, "none"))
    pod = guaranteed("plain", 0)
    nodes.bind(pod, "n0")
    assert numa_nodes(nodes.members[0], pod) == 0


def test_the_fewest_numa_nodes_follow_from_the_empty_machine() -> None:
    node = build(cluster(1, gpus=4)).members[0].node
    assert fewest_nodes_for(node, guaranteed("a", 8)) == 1
    assert fewest_nodes_for(node, guaranteed("b", 9)) == 2
    assert fewest_nodes_for(node, guaranteed("c", 1, gpu=3)) == 2


def test_a_pod_that_needs_two_numa_nodes_is_aligned_on_two_but_crosses() -> None:
    result = run(cluster(1, "best-effort"), trace(guaranteed("wide", 12)), "numaware", 1)
    assert result.run.aligned_percent == 100.0
    assert result.run.cross_numa_pods == 1
    split = trace(guaranteed("a", 4), guaranteed("b", 5), guaranteed("c", 5))
    result = run(cluster(1, "best-effort"), split, "kube-scheduler", 1)
    assert result.run.cross_numa_pods == 1
    assert result.run.aligned_percent == percent(2, 3)


def test_capacity_is_stranded_that_no_pod_of_the_trace_can_use() -> None:
    """A pod takes most CPUs of a NUMA node, so the second GPU beside it is of no use.

    The smaller kind fits once on each NUMA node, the larger only where no CPU is reserved: 2 and 3 of 4 GPUs stay idle.
    """
    nodes = build(cluster(1, gpus=4))
    pods = [guaranteed("a", 7, gpu=1), guaranteed("b", 8, gpu=1)]
    meter = Meter(nodes, pods)
    assert meter.stranded() == percent(5, 8)
    for pod in pods:
        nodes.bind(pod, "n0")
    assert meter.stranded() == 50.0
