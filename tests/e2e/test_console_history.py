"""The history of a real cluster: a pod that is gone is still where it was, also after the console was killed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.console_program import ConsoleProgram
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.program import eventually
from numaware.serve.console.lab.world import lab_cluster

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"
NODE = "box-0"


def pod(name: str) -> dict[str, object]:
    """One that somebody else has put on the node; it owns its CPUs."""
    wanted = {"cpu": "4", "memory": "4Gi"}
    container = {
        "name": "app",
        "image": "registry.example/app",
        "resources": {"limits": wanted, "requests": wanted},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": NODE, "containers": [container]},
    }


def shown(console: ConsoleProgram, at: str = "") -> dict[str, Any]:
    """The pods of the node by name, with the CPUs they own."""
    query = f"?at={at}" if at else ""
    answer = console.ask("GET", f"/api/v1/nodes/{NODE}{query}")
    assert answer.status == 200, answer
    return {one["pod"]: one["cpus"] for one in answer.body["pods"]}


def kept_until(console: ConsoleProgram) -> int:
    spans = console.ask("GET", "/api/v1/history").body["spans"]
    return int(spans[-1]["toMs"]) if spans else 0


def test_a_pod_that_is_gone_is_still_seen_where_it_was(plane: ControlPlane, tmp_path: Path) -> None:
    record = ("--record", str(tmp_path / "history.db"))
    specs = [node for node in lab_cluster().nodes if node.name == NODE]
    with FakeNodes(plane, specs) as fakes, ConsoleProgram(plane, more=record) as console:
        eventually(lambda: console.url in console.tail(), "the console prints its address", 60, console)
        plane.api().create(PODS, pod("worker"))
        eventually(lambda: len(fakes.running()) == 1, "the pod runs", 60, console)
        eventually(lambda: shown(console).get("default/worker"), "the console knows its CPUs", 60, console)
        owned = shown(console)
        seen = int(datetime.now(UTC).timestamp() * 1000)
        eventually(lambda: kept_until(console) > seen + 2000, "the moment is kept", 60, console)
        at = datetime.fromtimestamp((seen + 2000) / 1000, UTC).isoformat().replace("+00:00", "Z")
        plane.api().delete(f"{PODS}/worker", gracePeriodSeconds="0")
        eventually(lambda: not shown(console), "the pod is gone", 60, console)
        assert shown(console, at) == owned
        console.kill()
        with ConsoleProgram(plane, more=record) as again:
            eventually(lambda: again.url in again.tail(), "the console prints its address again", 60, again)
            assert shown(again, at) == owned
            assert len(again.ask("GET", "/api/v1/history").body["spans"]) >= 1
            assert not shown(again)
