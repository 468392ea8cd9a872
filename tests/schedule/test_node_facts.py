"""What a pod takes from a node, as kube-scheduler adds it up."""

from __future__ import annotations

from numaware.schedule.node_facts import pod_requests
from numaware.workload.manifest import read
from numaware.workload.pod import NANO, Container, Pod

MI = 1 << 20


def cpu(name: str, milli: int, *, sidecar: bool = False) -> Container:
    return Container(name, requests=(("cpu", milli * NANO // 1000),), restartable=sidecar)


def requests(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...] = ()
) -> dict[str, int]:
    return dict(pod_requests(Pod("p", containers=containers, init_containers=init_containers)))


def test_app_containers_add_up_and_the_pod_itself_counts_as_one() -> None:
    assert requests(containers=(cpu("a", 500), cpu("b", 1500))) == {"cpu": 2000, "pods": 1}


def test_an_init_container_counts_only_where_it_needs_more_than_all_that_run_later() -> None:
    apps = (cpu("a", 500), cpu("b", 500))
    assert requests(containers=apps, init_containers=(cpu("i", 900),))["cpu"] == 1000
    assert requests(containers=apps, init_containers=(cpu("i", 1100),))["cpu"] == 1100


def test_a_sidecar_runs_beside_the_apps_and_beside_the_init_containers_after_it() -> None:
    inits = (cpu("early", 1900), cpu("s", 100, sidecar=True), cpu("late", 1900))
    assert requests(containers=(cpu("a", 1000),), init_containers=inits)["cpu"] == 2000


def test_a_pod_of_nothing_still_takes_a_place() -> None:
    assert pod_requests(Pod("p", containers=(Container("c"),))) == (("pods", 1),)


def test_sums_are_exact_and_rounded_up_once() -> None:
    third = NANO // 3 // 1000  # a third of a thousandth of a CPU
    containers = tuple(Container(str(number), requests=(("cpu", third),)) for number in range(3))
    assert requests(containers=containers)["cpu"] == 1
    assert requests(containers=containers * 2)["cpu"] == 2


def test_a_request_of_zero_is_no_request() -> None:
    container = Container("c", requests=(("example.com/fpga", 0), ("memory", NANO)))
    assert requests(containers=(container,)) == {"memory": 1, "pods": 1}


def test_the_pods_own_resources_replace_the_sum_and_overhead_comes_on_top() -> None:
    text = """
kind: Pod
metadata: {name: p}
spec:
  resources: {requests: {cpu: "3", hugepages-2Mi: 8Mi}, limits: {cpu: "4", hugepages-2Mi: 8Mi}}
  overhead: {cpu: 250m, memory: 10Mi}
  containers:
  - name: c
    resources: {requests: {cpu: "1", memory: 1Mi, nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}
"""
    (workload,) = read(text.encode(), "f").workloads
    assert dict(pod_requests(workload.pod)) == {
        "cpu": 3250,
        "memory": 11 * MI,
        "hugepages-2Mi": 8 * MI,
        "nvidia.com/gpu": 2,
        "pods": 1,
    }
