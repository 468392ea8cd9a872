"""Instances of recommendation services on nodes of one stated shape, and never more of a service on a node than it says."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from numaware.errors import InputError
from numaware.simulate import dlrm, openb
from numaware.simulate.clusters import build
from numaware.simulate.policies import POLICIES, Setting
from numaware.simulate.run import run
from numaware.simulate.traces import TimedPod
from numaware.workload.pod import NANO, amount
from numaware.workload.qos import qos_class
from support.lab_worlds import csv

COLUMNS = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,"
    "memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time"
)


def row(name: str, limit: int = -1, app: str = "app_0", *, gpu: int = 1, times: str = ",,") -> str:
    role = "HN" if gpu else "CN"
    return f"{name},{role},{app},12,12,{gpu},{gpu},25,25,937.5,937.5,640.0,800.0,{limit},{times}"


def trace(*rows: str, timed: bool = False) -> tuple[TimedPod, ...]:
    return dlrm.pods(csv(COLUMNS, *rows), "pods.csv", timed=timed).pods


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_every_numa_node_has_gpus_and_a_card_and_pods_find_all_of_it(policy: str) -> None:
    first, second = build(dlrm.nodes("2", openb.kubelet(policy)))
    assert (first.name, second.name) == ("dlrm-0", "dlrm-1")
    expected = {"cpu": 384_000, "memory": 2304 << 30, openb.GPU: 8, dlrm.RDMA: 200}
    assert {name: first.allocatable[name] for name in expected} == expected
    for resource in first.node.kubelet.hardware.resources:
        on = Counter(device.numa for device in resource.devices)
        assert on == {(0,): on[(1,)], (1,): on[(0,)]}


def test_an_instance_is_a_guaranteed_pod_with_a_share_of_a_card() -> None:
    [timed] = trace(row("a"))
    [container] = timed.pod.containers
    assert qos_class(timed.pod) == "Guaranteed"
    wanted = {"cpu": 12, "memory": 960_000 << 20, openb.GPU: 1, dlrm.RDMA: 25}
    assert {name: amount(container.limits, name) for name in wanted} == {
        name: number * NANO for name, number in wanted.items()
    }
    assert dict(timed.pod.scheduling.labels) == {"app": "app_0", "role": "HN"}
    assert timed.pod.scheduling.spread == ()


def test_a_service_has_one_limit_for_each_of_its_roles() -> None:
    pods = [
        timed.pod
        for timed in trace(
            row("a", 4), row("b", 2), row("c"), row("d", gpu=0), row("e", 8, gpu=0), row("f", 3, "app_1")
        )
    ]
    assert [pod.scheduling.spread[0].max_skew for pod in pods] == [2, 2, 2, 8, 8, 3]
    assert {pod.scheduling.spread[0].topology_key for pod in pods} == {"kubernetes.io/hostname"}


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_scheduler_puts_more_on_a_node_than_the_limit_even_when_every_node_has_some(
    policy: str, limit: int
) -> None:
    """A spread alone would count from the emptiest node: then the second of each node would raise the bar for all."""
    small = f"{{}},HN,app_{{}},1,1,1,1,1,1,1.0,1.0,1.0,1.0,{limit},,,"
    rows = [small.format(f"i{number}", number % 2) for number in range(4 * 2 * 2 + 2)]
    nodes = build(dlrm.nodes("2", openb.kubelet("restricted")))
    scheduler = POLICIES[policy](Setting(nodes, (), 7))
    pods = [timed.pod for timed in trace(*rows)]
    where: Counter[tuple[str, str]] = Counter()
    for number, pod in enumerate(pods):
        decision = scheduler.decide(pod, number)
        if decision.node is not None and scheduler.bind(decision).admitted:
            where[decision.node, dict(pod.scheduling.labels)["app"]] += 1
    assert set(where.values()) == {limit}
    assert sum(where.values()) == 2 * 2 * limit


def test_a_timed_trace_comes_and_goes_as_its_columns_say() -> None:
    rows = (
        row("a", times="475.00000000000006,623.0,1000.5"),
        row("b", times=",,91730.0"),
        row("c", times="610.0,683.0,"),
        row("d", times=",,"),
    )
    assert [(timed.time, timed.lifetime) for timed in trace(*rows, timed=True)] == [
        (475_000, 377_500),
        (0, 91_730_000),
        (610_000, None),
        (0, None),
    ]
    assert [(timed.time, timed.lifetime) for timed in trace(*rows)] == [
        (number * 1000, None) for number in range(4)
    ]


def test_a_service_that_fits_nowhere_else_waits_for_its_own_to_leave() -> None:
    rows = (row("a", 1, times="0,0,10"), row("b", 1, times="1,1,"), row("c", 1, times="2,2,"))
    found = dlrm.pods(csv(COLUMNS, *rows), "pods.csv", timed=True)
    played = run(dlrm.nodes("1", openb.kubelet("restricted")), found, "numaware", 1)
    assert (played.run.pods_placed, played.run.kubelet_refusals) == (2, 0)


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "", "many", "9999999999", "²"])
def test_a_cluster_is_a_number_of_nodes(count: str) -> None:
    with pytest.raises(InputError, match="no number of nodes up to 100000"):
        dlrm.nodes(count, openb.kubelet("none"))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (csv("name", "p"), "pods.csv:1: has no column instance_sn"),
        (csv(COLUMNS), "pods.csv: lists no instances"),
        (csv(COLUMNS, row("a"), row("a")), "pods.csv:3: instance 'a' has no name or is listed twice"),
        (csv(COLUMNS, row("a", 0)), "pods.csv:2: max_instance_per_node is 0"),
        (csv(COLUMNS, row("a", -2)), "pods.csv:2: max_instance_per_node is '-2'"),
        (csv(COLUMNS, row("a", app="")), "pods.csv:2: app_name '' in role 'HN'"),
        (csv(COLUMNS, row("a").replace("HN", "XX")), "pods.csv:2: app_name 'app_0' in role 'XX'"),
        (csv(COLUMNS, row("a").replace("937.5", "9e3")), "pods.csv:2: memory_request is '9e3', not a number"),
        (csv(COLUMNS, row("a").replace("937.5", "9" * 30)), "pods.csv:2: memory_request is 9999"),
        (csv(COLUMNS, row("a").replace("12,12", "12.,12")), ""),
        (csv(COLUMNS, row("a").replace("25,25", "25.5,25")), "pods.csv:2: rdma_request is '25.5'"),
    ],
)
def test_mistakes_are_told_with_their_line(data: bytes, told: str) -> None:
    if not told:
        assert len(dlrm.pods(data, "pods.csv").pods) == 1
        return
    with pytest.raises(InputError) as caught:
        dlrm.pods(data, "pods.csv")
    assert str(caught.value).startswith(told)


def test_equal_instances_share_what_they_ask_for() -> None:
    """Thousands of pods are few kinds, which is what schedulers remember answers by."""
    one, other = (timed.pod for timed in trace(row("a", 2), row("b", 2)))
    assert one.containers[0] is other.containers[0]
    assert one.scheduling is other.scheduling
    assert msgspec.structs.replace(one, name="b", uid="default/b") == other
