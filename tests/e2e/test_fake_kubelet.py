"""The fake kubelets do to pods on a real API server what real ones do, and leave a true record of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.api import Api, Object
from e2e.audit import audit
from e2e.control_plane import ControlPlane
from e2e.fake_kubelet import Admission, booked_twice
from e2e.fake_nodes import FakeNodes
from e2e.program import eventually
from numaware.kube.topology import nrt
from numaware.simulate.clusters import NodeSpec
from numaware.workload.pod import Pod
from support.twin_nodes import GI, GPU, config, machine, state_key

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
# Two NUMA nodes of 8 CPUs and one GPU each; CPU 0 is the system's.
HARDWARE = machine(2, 8, devices={GPU: {"gpu-a": (0,), "gpu-b": (1,)}})


@pytest.fixture
def fakes(plane: ControlPlane) -> Iterator[FakeNodes]:
    specs = [NodeSpec(f"n{number}", HARDWARE, config("restricted"), most_pods=8) for number in range(3)]
    api = plane.api()
    with FakeNodes(plane, specs) as started:
        yield started
        for pod in api.list_all(PODS):
            api.delete(f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        for node in api.list_all("/api/v1/nodes"):
            api.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        api.delete(TOPOLOGIES)


def bind(api: Api, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


def run(api: Api, name: str, node: str, cpus: str = "2", **more: str) -> str:
    """A pod as anybody could make and bind it; its uid."""
    limits = {"cpu": cpus, "memory": str(GI), **({GPU: more["gpus"]} if "gpus" in more else {})}
    container = {"name": "app", "image": "example.com/none", "resources": {"limits": limits}}
    body = {"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [container]}}
    uid = str(api.create(PODS, body)["metadata"]["uid"])
    bind(api, name, node)
    return uid


def pod_in(api: Api, name: str, phase: str) -> Object:
    def look() -> Object | None:
        pod = api.get(f"{PODS}/{name}")
        return pod if pod["status"]["phase"] == phase else None

    return eventually(look, f"{name} is {phase}")


def free_cpus(api: Api, node: str) -> list[str]:
    """What is published as available, NUMA node by NUMA node."""
    zones = api.get(f"{TOPOLOGIES}/{node}")["zones"]
    return [
        resource["available"] for zone in zones for resource in zone["resources"] if resource["name"] == "cpu"
    ]


def test_nodes_register_with_what_they_have_and_publish_it(plane: ControlPlane, fakes: FakeNodes) -> None:
    node = plane.api().get("/api/v1/nodes/n0")
    assert node["status"]["allocatable"] == {"cpu": "15", "memory": str(128 * GI), "pods": "8", GPU: "2"}
    assert node["status"]["capacity"]["cpu"] == "16"
    assert free_cpus(plane.api(), "n0") == ["7", "8"]
    raw = plane.api().request("GET", f"{TOPOLOGIES}/n0")
    report = nrt.decode(json.dumps(raw).encode())
    assert report.problem == ""
    assert report.complete is not None
    assert state_key(report.complete.node)[1:] == state_key(fakes.kubelet("n0").twin)[1:]
    assert raw["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


def test_a_pod_that_fits_runs_where_the_twin_put_it(plane: ControlPlane, fakes: FakeNodes) -> None:
    uid = run(plane.api(), "fits", "n1", "3", gpus="1")
    pod = pod_in(plane.api(), "fits", "Running")
    assert (
        pod["metadata"]["annotations"]["numaware.io/placement-observed"]
        == f'[{{"zone":"node-0","amount":{{"cpu":"3","{GPU}":"1"}},"cpus":"1-3"}}]'
    )
    assert {"Ready", "ContainersReady", "Initialized", "PodScheduled"} == {
        condition["type"] for condition in pod["status"]["conditions"] if condition["status"] == "True"
    }
    admission = fakes.running()[uid]
    assert (admission.node, admission.cpus, admission.devices) == (
        "n1",
        {"app": "1-3"},
        {"app": {GPU: ("gpu-a",)}},
    )
    eventually(lambda: free_cpus(plane.api(), "n1") == ["4", "8"], "what is left is published")
    assert audit(plane, fakes) == []


def test_a_pod_that_fits_no_numa_node_fails_as_on_a_real_node(plane: ControlPlane, fakes: FakeNodes) -> None:
    run(plane.api(), "first", "n0", "5")
    run(plane.api(), "second", "n0", "6")
    run(plane.api(), "third", "n0", "4")
    failed = pod_in(plane.api(), "third", "Failed")["status"]
    assert failed["reason"] == "TopologyAffinityError"
    assert failed["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    assert [(refusal.name, refusal.reason) for refusal in fakes.refusals()] == [
        ("default/third", "TopologyAffinityError")
    ]
    assert audit(plane, fakes) == []


def test_what_no_manager_counts_is_counted_by_the_kubelet_itself(
    plane: ControlPlane, fakes: FakeNodes
) -> None:
    run(plane.api(), "much", "n0", "14500m")
    run(plane.api(), "more", "n0", "1500m")
    failed = pod_in(plane.api(), "more", "Failed")["status"]
    assert failed["reason"] == "OutOfcpu"
    assert failed["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500, used: 14500, capacity: 15000"
    )
    assert audit(plane, fakes) == []


def test_a_deleted_pod_is_let_go_of_and_its_place_is_free(plane: ControlPlane, fakes: FakeNodes) -> None:
    api = plane.api()
    run(api, "going", "n2", "8")
    pod_in(api, "going", "Running")
    api.delete(f"{PODS}/going")
    eventually(lambda: api.list_all(PODS) == [], "the pod is gone")
    eventually(lambda: free_cpus(api, "n2") == ["7", "8"], "its CPUs are published as free")
    run(api, "next", "n2", "8")
    pod_in(api, "next", "Running")
    assert audit(plane, fakes) == []


def test_a_pod_that_has_done_its_work_leaves_its_place(plane: ControlPlane, fakes: FakeNodes) -> None:
    uid = run(plane.api(), "done", "n2", "8")
    pod_in(plane.api(), "done", "Running")
    fakes.finish(uid)
    pod_in(plane.api(), "done", "Succeeded")
    assert fakes.running() == {}
    eventually(lambda: free_cpus(plane.api(), "n2") == ["7", "8"], "its CPUs are published as free")


def test_agents_can_fall_silent_and_come_back(plane: ControlPlane, fakes: FakeNodes) -> None:
    api = plane.api()
    fakes.silence("n0")
    run(api, "unseen", "n0", "5")
    pod_in(api, "unseen", "Running")
    fakes.wait_idle()
    assert free_cpus(api, "n0") == ["7", "8"]
    fakes.speak("n0")
    eventually(lambda: free_cpus(api, "n0") == ["2", "8"], "the truth is out")
    fakes.unpublish("n0")
    assert api.status_of("GET", f"{TOPOLOGIES}/n0") == 404


def test_a_node_can_vanish_with_all_that_is_known_of_it(plane: ControlPlane, fakes: FakeNodes) -> None:
    api = plane.api()
    run(api, "orphan", "n1")
    pod_in(api, "orphan", "Running")
    fakes.vanish("n1")
    assert api.status_of("GET", "/api/v1/nodes/n1") == 404
    assert api.status_of("GET", f"{TOPOLOGIES}/n1") == 404
    assert audit(plane, fakes) == ["default/orphan is bound to n1, where nobody runs it"]


def test_kubelets_sit_out_a_restart_of_the_api_server(plane: ControlPlane, fakes: FakeNodes) -> None:
    api = plane.api()
    run(api, "before", "n0")
    plane.kill("apiserver")
    plane.start("apiserver")
    run(api, "after", "n0")
    pod_in(api, "before", "Running")
    pod_in(api, "after", "Running")
    assert audit(plane, fakes) == []


def test_an_audit_sees_what_is_booked_twice() -> None:
    one = Admission("n0", Pod("one"), True, cpus={"app": "1-3"}, devices={"app": {GPU: ("gpu-a",)}})
    assert booked_twice([one, one._replace(node="n1")]) == []
    other = Admission("n0", Pod("other"), True, cpus={"app": "3-4"}, devices={"app": {GPU: ("gpu-a",)}})
    assert booked_twice([one, other]) == [
        "CPU 3 of n0 belongs to default/one and to default/other",
        f"{GPU} gpu-a of n0 belongs to default/one and to default/other",
    ]
