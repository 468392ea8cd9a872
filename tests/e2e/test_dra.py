"""Devices that come by DRA on a real API server: a driver's slices made here, claims allocated by the real kube-scheduler with
our extender beside it, an extended resource that DRA serves, and what we say of all that to somebody who may only read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.api import Object
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon, extender_config, numaware
from e2e.program import eventually
from e2e.trouble import PODS, pod, said_of
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

VIEWER = "numaware-viewer"
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
DRIVER, RESOURCE = "gpu.example.com", "example.com/gpu"
NUMA_NODE = "resource.kubernetes.io/numaNode"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("dra"), gates=("DRAExtendedResource",)) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Two nodes of two NUMA nodes; on `full` no pod of six CPUs fits a NUMA node. Each has two devices of a DRA driver."""
    specs = [
        NodeSpec("full", machine(2, 4), config("single-numa-node")),
        NodeSpec("roomy", machine(2, 8), config("single-numa-node")),
    ]
    api = plane.api()
    expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    served = {"selectors": [expression], "extendedResourceName": RESOURCE}
    api.create(f"{API}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": served})
    for spec in specs:
        api.create(f"{API}/resourceslices", devices_of(spec.name))
    extender = Daemon(plane, "extender")
    with FakeNodes(plane, specs) as fakes, extender:
        extender.wait_ready()
        known = 'numaware_nodes{knowledge="complete"}'
        eventually(lambda: extender.metrics().get(known) == 2, "the extender knows all nodes", alive=extender)
        plane.start_scheduler(extender_config(extender))
        plane.wait_ready("scheduler")
        yield plane
        assert fakes.refusals() == []


def devices_of(node: str) -> Object:
    """What a driver publishes of a node: a device on each of its NUMA nodes."""
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{numa}", "attributes": {NUMA_NODE: {"int": numa}}} for numa in range(2)
            ],
        },
    }


def claim(name: str, numa: int) -> Object:
    """A claim of a device on that NUMA node."""
    where = f'device.attributes["resource.kubernetes.io"].numaNode == {numa}'
    wanted = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": where}}]}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}},
    }


def with_claim(body: Object, name: str) -> Object:
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return body


def explained(plane: ControlPlane, name: str) -> Any:
    return json.loads(numaware(plane, "explain", "pod", name, "--json", user=VIEWER))["pods"][0]


def runs(plane: ControlPlane, name: str) -> bool:
    found = plane.api().get(f"{PODS}/{name}")
    assert found["status"]["phase"] != "Failed", found["status"]
    return bool(found["status"]["phase"] == "Running")


def test_a_claim_is_allocated_by_kube_scheduler_where_the_kubelet_has_room_and_its_place_is_told(
    cluster: ControlPlane,
) -> None:
    api = cluster.api()
    for name, numa in (("near", 0), ("far", 1)):
        api.create(CLAIMS, claim(name, numa))
    # The kubelet gives the first the CPUs of NUMA node 0, and so it does the second, whose device is on the other.
    for name, cpus in (("near", "6"), ("far", "1")):
        api.create(PODS, with_claim(pod(name, cpus, "default-scheduler"), name))
        eventually(lambda: runs(cluster, name), f"{name} runs", 60)  # noqa: B023 - asked at once
    assert api.get(f"{PODS}/near")["spec"]["nodeName"] == "roomy"
    near, far = explained(cluster, "near"), explained(cluster, "far")
    (part,) = near["dra"]
    assert (part["state"], part["aligned"]) == ("allocated", True)
    assert [(one["driver"], one["numaNode"]) for one in part["devices"]] == [(DRIVER, 0)]
    assert part["text"].startswith("not aligned by the kubelet: served by DRA")
    (other,) = far["dra"]
    assert (other["aligned"], [one["numaNode"] for one in other["devices"]]) == (False, [1])
    assert "not aligned by the kubelet: served by DRA" in numaware(
        cluster, "explain", "pod", "far", user=VIEWER
    )


def test_an_extended_resource_that_dra_serves_is_no_device_of_the_kubelets(cluster: ControlPlane) -> None:
    api = cluster.api()
    body = pod("resource", "2", "default-scheduler")
    body["spec"]["containers"][0]["resources"]["limits"][RESOURCE] = "1"
    body["spec"]["containers"][0]["resources"]["requests"] = body["spec"]["containers"][0]["resources"][
        "limits"
    ]
    api.create(PODS, body)
    eventually(lambda: runs(cluster, "resource"), "the pod runs", 60)
    told = api.get(f"{PODS}/resource")["status"]["extendedResourceClaimStatus"]
    assert told["requestMappings"][0]["resourceName"] == RESOURCE
    (part,) = explained(cluster, "resource")["dra"]
    assert (part["resources"], part["state"], part["aligned"] is not None) == ([RESOURCE], "allocated", True)


def test_devices_are_listed_with_their_numa_nodes_and_who_has_them(cluster: ControlPlane) -> None:
    rows = {
        row["name"]: row["dra"]
        for row in json.loads(numaware(cluster, "nodes", "--json", user=VIEWER))["nodes"]
    }
    assert [(one["device"], one["numaNode"]) for one in rows["full"]] == [("gpu-0", 0), ("gpu-1", 1)]
    held = [name for row in rows.values() for one in row for name in one["claims"]]
    assert {"default/near", "default/far"} < set(held)
    assert f"{DRIVER} free on NUMA 0" in numaware(cluster, "nodes", user=VIEWER)


def test_a_pod_of_ours_with_claims_says_that_they_are_kube_schedulers(cluster: ControlPlane) -> None:
    api = cluster.api()
    api.create(CLAIMS, claim("ours", 0))
    api.create(PODS, with_claim(pod("ours", "1"), "ours"))
    served = pod("served", "1")
    resources = served["spec"]["containers"][0]["resources"]
    resources["limits"][RESOURCE] = "1"
    resources["requests"] = resources["limits"]
    api.create(PODS, served)
    with Daemon(cluster, "scheduler") as scheduler:
        for name, word in (
            ("ours", "1 resource claim (gpu) (DRA)"),
            ("served", f"DRA serves here ({RESOURCE})"),
        ):
            eventually(
                lambda: word in said_of(api.get(f"{PODS}/{name}")),  # noqa: B023 - asked at once
                f"{name} says why it waits",
                60,
                scheduler,
            )
    why = json.loads(numaware(cluster, "why-pending", "ours", "--json", user=VIEWER))
    assert "served by DRA" in why["dra"]
    assert [one["nodes"] for one in why["nodes"] if not one["reasons"]] == [["full", "roomy"]]
