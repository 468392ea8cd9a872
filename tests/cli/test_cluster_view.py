"""The doctor's view of a cluster, read from a server that answers as Kubernetes does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server
from numaware.cli import main
from numaware.cli.cluster_view import view_of
from numaware.diagnose.doctor.cluster import ClusterView
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numaware.kube.topology.fingerprint import fingerprint


def node(server: FakeApiServer, name: str, ready: str = "True") -> None:
    labels = {"cloud.google.com/gke-nodepool": "gpu"}
    server.put(NODES, name, metadata={"name": name, "labels": labels}, status={
        "conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"kubeletVersion": "v1.35.8"}})  # fmt: skip


def pod(server: FakeApiServer, name: str, on: str, image: str, **labels: str) -> None:
    named = {key.replace("_", "/"): value for key, value in labels.items()}
    server.put(
        PODS,
        name,
        "default",
        metadata={"name": name, "namespace": "default", "labels": named},
        spec={"nodeName": on, "containers": [{"name": "c", "image": image}]},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    )


def topology(server: FakeApiServer, name: str, **attributes: str) -> None:
    server.put(
        NODE_RESOURCE_TOPOLOGIES,
        name,
        attributes=[{"name": key, "value": value} for key, value in attributes.items()],
        zones=[{"name": "node-0", "type": "Node", "resources": [
            {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}]}],
    )  # fmt: skip


def seen(fill: Any) -> ClusterView:
    async def run() -> ClusterView:
        async with fake_api_server() as server:
            fill(server)
            return await view_of(connection(server))

    return asyncio.run(run())


def test_nodes_components_and_what_is_published_are_read() -> None:
    def fill(server: FakeApiServer) -> None:
        for name in ("a", "b"):
            node(server, name, "True" if name == "a" else "False")
        pod(
            server,
            "agent-a",
            "a",
            "registry.example:5000/numaware:0.0.1",
            **{"app.kubernetes.io_name": "numaware-agent"},
        )
        pod(server, "plugin-a", "a", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0")
        pod(server, "web", "b", "nginx")
        common = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod"}
        now = fingerprint([("default", "agent-a"), ("default", "plugin-a")])
        topology(server, "a", **common, nodeTopologyPodsFingerprint=now)
        topology(server, "b", **common, nodeTopologyPodsFingerprint=fingerprint([("default", "gone")]))
        server.objects["/api/v1/nodes/a/proxy/configz"] = {"kubeletconfig": {"cpuManagerPolicy": "static"}}

    view = seen(fill)
    assert [(one.name, one.pool, one.ready, one.kubelet) for one in view.nodes] == [
        ("a", "gpu", True, "v1.35.8"),
        ("b", "gpu", False, "v1.35.8"),
    ]
    assert [(one.name, one.ready, one.versions) for one in view.components] == [
        ("k8s-device-plugin", 1, ("v0.17.0",)),
        ("numaware-agent", 1, ("0.0.1",)),
    ]
    assert [(one.node, one.policy, one.current) for one in view.topologies or ()] == [
        ("a", "restricted", True),
        ("b", "restricted", False),
    ]
    assert [(name, json.loads(data)) for name, data in view.configs or ()] == [
        ("a", {"kubeletconfig": {"cpuManagerPolicy": "static"}})
    ]


def test_a_cluster_that_knows_no_topology_objects_says_so() -> None:
    def fill(server: FakeApiServer) -> None:
        node(server, "a")
        server.missing.add(NODE_RESOURCE_TOPOLOGIES.path())

    view = seen(fill)
    assert view.topologies is None
    assert view.configs is None


def test_a_cluster_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
