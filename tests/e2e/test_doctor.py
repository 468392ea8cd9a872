"""The doctor on a real API server: nodes, and what agents publish of them, as they come and go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.program import eventually
from numaware.cli import main
from numaware.machine import synthetic
from numaware.simulate.clusters import NodeSpec
from numaware.twin.config import KubeletConfig
from numaware.twin.inventory import hardware_of

pytestmark = pytest.mark.e2e


def spec(name: str, policy: str) -> NodeSpec:
    config = KubeletConfig(cpu_policy="static", reserved_cpus="0", topology_policy=policy)
    return NodeSpec(name, hardware_of(synthetic.read("2x4")), config)


def examined(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["doctor", "--kubeconfig", str(plane.kubeconfig("admin")), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def codes(document: dict[str, Any]) -> set[str]:
    return {one["code"] for one in document["findings"]}


def test_a_cluster_is_examined_as_it_changes(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(examined(plane, capsys)) >= {"component-missing"}
    with FakeNodes(plane, [spec("n1", "restricted"), spec("n2", "restricted")]):
        eventually(
            lambda: (
                [
                    check["status"]
                    for check in examined(plane, capsys)["checks"]
                    if check["name"] == "topology-fresh"
                ]
                == ["ok"]
            ),
            "what is published is of now",
        )
        document = examined(plane, capsys)
        assert "nodes-without-topology" not in codes(document)
        (policies,) = (check for check in document["checks"] if check["name"] == "policies")
        assert "2x restricted/container" in policies["text"]


def test_what_may_not_be_read_is_one_line(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--kubeconfig", str(plane.kubeconfig("stranger"))]) == 2
    assert capsys.readouterr().err.count("\n") == 1
