"""Lists of a production cluster, laid out on NUMA nodes by one stated rule."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.simulate import openb
from numaware.simulate.clusters import build
from numaware.twin.account import free_cpus
from numaware.workload.pod import NANO, Pod, amount
from numaware.workload.qos import qos_class
from support.lab_worlds import SHARE, csv

NODES = "sn,cpu_milli,memory_mib,gpu,model"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def pods(*rows: str, whole_cpus: bool = True) -> list[Pod]:
    return [one.pod for one in openb.pods(csv(PODS, *rows), "pods.csv", whole_cpus=whole_cpus).pods]


@pytest.mark.parametrize(
    ("row", "cpus", "gpus"),
    [
        ("n,96000,393216,8,G2", [48, 48], [4, 4]),
        ("n,104000,524288,2,T4", [52, 52], [1, 1]),
        ("n,32000,131072,4,V100M16", [16, 16], [2, 2]),
        ("n,16000,122880,2,P100", [16], [2]),
        ("n,65000,1000,5,X", [33, 32], [3, 2]),
        ("n,63999,1001,0,", [63], []),
    ],
)
def test_large_nodes_have_two_numa_nodes_and_the_rest_goes_to_the_lower(
    row: str, cpus: list[int], gpus: list[int]
) -> None:
    [spec] = openb.nodes(csv(NODES, row), "nodes.csv", openb.kubelet("none")).nodes
    assert [len(numa.cpus) for numa in spec.hardware.numa] == cpus
    found = [device.numa[0] for resource in spec.hardware.resources for device in resource.devices]
    assert [found.count(node) for node in range(len(gpus))] == gpus


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_pods_find_exactly_the_capacity_of_the_list_whatever_is_reserved(policy: str) -> None:
    spec = openb.nodes(csv(NODES, "n,96000,393217,8,G2"), "nodes.csv", openb.kubelet(policy, "pod"))
    [member] = build(spec)
    assert member.allocatable["cpu"] == 96_000
    assert member.allocatable["memory"] == 393_217 << 20
    assert member.allocatable["nvidia.com/gpu"] == 8
    assert dict(member.facts.labels)[openb.MODEL_LABEL] == "G2"
    cpus, memory = member.node.kubelet.cpus, member.node.kubelet.memory
    if policy == "none":
        assert cpus is None
        assert memory is None
    else:
        assert cpus is not None
        assert free_cpus(member.node).bit_count() == 96
        assert sum(part.free[0] for part in member.node.state.memory.nodes) == 393_217 << 20


def test_pods_of_class_ls_are_guaranteed_and_ask_pinning_kubelets_for_whole_cpus() -> None:
    [pod] = pods("p,8200,1024,1,1000,,LS,Running,0,1,0")
    assert qos_class(pod) == "Guaranteed"
    assert amount(pod.containers[0].limits, "cpu") == 9 * NANO
    assert amount(pod.containers[0].limits, "nvidia.com/gpu") == NANO
    [exact] = pods("p,8200,1024,1,1000,,LS,Running,0,1,0", whole_cpus=False)
    assert amount(exact.containers[0].limits, "cpu") == 8200 * NANO // 1000


def test_other_pods_are_burstable_and_keep_their_fractions() -> None:
    for qos in ("BE", "Burstable"):
        [pod] = pods(f"p,8200,1024,1,1000,,{qos},Running,0,1,0")
        assert qos_class(pod) == "Burstable"
        assert amount(pod.containers[0].requests, "cpu") == 8200 * NANO // 1000
        assert dict(pod.containers[0].limits) == {"nvidia.com/gpu": NANO}


def test_a_part_of_a_gpu_is_a_share() -> None:
    [pod] = pods("p,1000,1024,1,460,,LS,Running,0,1,0")
    assert amount(pod.containers[0].limits, SHARE) == 460 * NANO
    assert amount(pod.containers[0].limits, "nvidia.com/gpu") == 0


def test_a_gpu_spec_is_a_required_affinity_to_nodes_of_these_models() -> None:
    [pod] = pods("p,1000,1024,1,1000,V100M32|V100M16,LS,Running,0,1,0")
    [term] = pod.scheduling.node.required or ()
    assert term.matches("n", {openb.MODEL_LABEL: "V100M16"})
    assert not term.matches("n", {openb.MODEL_LABEL: "T4"})
    assert not term.matches("n", {})


def test_a_list_without_classes_is_taken_as_ls() -> None:
    data = csv("name,cpu_milli,memory_mib,num_gpu,gpu_milli", "p,2000,1024,0,0")
    [one] = openb.pods(data, "pods.csv", whole_cpus=True).pods
    assert qos_class(one.pod) == "Guaranteed"


def test_a_timed_trace_comes_and_goes_as_its_columns_say() -> None:
    data = csv(PODS, "a,1000,10,0,0,,LS,Running,100,160,110", "b,1000,10,0,0,,LS,Pending,120,150,")
    first, second = openb.pods(data, "pods.csv", whole_cpus=True, timed=True).pods
    assert (first.time, first.lifetime) == (100_000, 50_000)
    assert (second.time, second.lifetime) == (120_000, 30_000)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "pods.csv:1: has no column name"),
        (csv("name,cpu_milli", "p,1"), "pods.csv:1: has no column memory_mib"),
        (csv(PODS), "pods.csv: lists no pods"),
        (csv(PODS, "p,one,1,0,0,,LS,R,0,1,0"), "pods.csv:2: cpu_milli is 'one', not a whole number"),
        (csv(PODS, "p,-1,1,0,0,,LS,R,0,1,0"), "pods.csv:2: cpu_milli is '-1'"),
        (csv(PODS, "p,1,1,2,500,,LS,R,0,1,0"), "pods.csv:2: 2 GPUs with gpu_milli 500"),
        (csv(PODS, "p,1,1,0,500,,LS,R,0,1,0"), "pods.csv:2: 0 GPUs with gpu_milli 500"),
        (csv(PODS, "p,1,1,0,0,,LX,R,0,1,0"), "pods.csv:2: qos is 'LX'"),
        (csv(PODS, "p,1,1,0,0,,LS,R,0,1,0", "p,1,1,0,0,,LS,R,0,1,0"), "pods.csv:3: pod 'p' is listed twice"),
        (csv(PODS, "p,1,1"), "pods.csv:2: has not the 11 fields"),
        (
            csv(PODS, "p,999999999999999999,1,0,0,,LS,R,0,1,0"),
            "pods.csv:2: cpu_milli is 999999999999999999, more",
        ),
        (b"\xff\xfe name", "pods.csv:1: is not UTF-8"),
    ],
)
def test_a_bad_pod_list_names_the_line_and_the_reason(data: bytes, told: str) -> None:
    with pytest.raises(InputError) as error:
        openb.pods(data, "pods.csv", whole_cpus=True)
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((), "nodes.csv: lists no nodes"),
        (("n,500,10,0,",), "nodes.csv:2: a node without a whole CPU"),
        (("n,1000,10,0,", "n,1000,10,0,"), "nodes.csv:3: node 'n' has no name or is listed twice"),
        (("n,1000,10,99,A",), "nodes.csv:2: gpu is 99, more than 64"),
    ],
)
def test_a_bad_node_list_names_the_line_and_the_reason(rows: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError) as error:
        openb.nodes(csv(NODES, *rows), "nodes.csv", openb.kubelet("none"))
    assert str(error.value).startswith(told)
