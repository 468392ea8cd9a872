"""`numaware whatif` and the console, asked about the same pod on the same lab: the same nodes take it, for the same reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from numaware.cli.whatif import whatif
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import SPEC, LabWorld
from numaware.serve.console.views.judging import Judge
from numaware.workload import manifest
from numaware.workload.pod import Pod
from support.console_world import client

NODES = 30


def document(**changes: Any) -> dict[str, Any]:
    """A Guaranteed pod that most machines of the lab would take."""
    amounts = {"cpu": "4", "memory": "8Gi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
    }
    metadata = {"name": "asked", "annotations": changes.pop("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **changes}}


def asked(
    pod: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, bool], dict[str, bool], str]:
    """Which nodes take the pod by the command line and by the console, and the console's summary."""
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod), encoding="utf-8")
    whatif(str(SPEC), str(path), as_json=True)
    (workload,) = json.loads(capsys.readouterr().out)["workloads"]
    by_command = {node["node"]: node["fits"] for node in workload["nodes"]}
    assert (workload["pods"][0]["node"] is not None) == any(by_command.values())
    world = LabWorld(0)
    body = {"manifest": path.read_text(encoding="utf-8")}
    answer = client(Console(world, lambda: world.now)).post("/api/v1/whatif", json=body).json()
    by_console = {node["node"]: node["verdict"] in ("aligned", "split") for node in answer["nodes"]}
    return by_command, by_console, answer["message"]


def test_a_pod_with_volcanos_policy_goes_only_where_the_kubelet_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The console said 23 of 30, all aligned, where what-if said 8."""
    pod = document(annotations={"volcano.sh/numa-topology-policy": "single-numa-node"})
    by_command, by_console, message = asked(pod, tmp_path, capsys)
    assert by_console == by_command
    assert 0 < sum(by_console.values()) < NODES
    assert "is different with node[" in message


def test_a_pod_with_a_scheduling_gate_goes_nowhere_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What-if said that it finds no node and that all 30 would take it, the console 23 aligned."""
    by_command, by_console, message = asked(document(schedulingGates=[{"name": "quota"}]), tmp_path, capsys)
    assert by_console == by_command
    assert not any(by_console.values())
    assert message == "0/30 nodes are available: 30 Scheduling is blocked due to non-empty scheduling gates."


@pytest.mark.parametrize(
    "changes",
    [
        {"schedulingGates": [{"name": "quota"}]},
        {"annotations": {"volcano.sh/numa-topology-policy": "single-numa-node"}},
        {"nodeSelector": {"disk": "ssd"}},
    ],
    ids=["gate", "volcano", "selector"],
)
@pytest.mark.parametrize("policies", [{}, {"policy": "restricted", "scope": "pod"}], ids=["as-is", "tried"])
def test_an_explanation_admits_only_where_the_what_if_does(
    changes: dict[str, Any], policies: dict[str, str]
) -> None:
    """It asked the kubelet alone, who knows nothing of gates, annotations and selectors, and said "admitted"."""
    world = LabWorld(0)
    console = client(Console(world, lambda: world.now))
    body = {"manifest": yaml.safe_dump(document(**changes)), **policies}
    for answer in console.post("/api/v1/whatif", json=body).json()["nodes"][::7]:
        told = console.post("/api/v1/explain", json=body | {"node": answer["node"]}).json()
        assert told["explanation"]["admitted"] == (answer["verdict"] in ("aligned", "split"))
        assert (told["verdict"], told["why"]) == (answer["verdict"], answer["why"])
        if told["explanation"]["reason"] == "Unschedulable":
            assert told["explanation"]["message"] == answer["why"] != ""


def read(pod: dict[str, Any], uid: str) -> Pod:
    (workload,) = manifest.read(yaml.safe_dump(pod).encode(), "pod.yaml").workloads
    return msgspec.structs.replace(workload.pod, uid=uid)


def on_first(world: LabWorld, pod: Pod) -> Any:
    """What the console says of the first node, before and after the pod is on it: a second one like it asks."""
    member = world.cluster.members[0]
    judge = Judge(world.cluster)
    before = judge.judge(pod, [member.name])[0]
    answer = judge.engine.ask(pod, [member.name])[0]
    assert world.cluster.bind(msgspec.structs.replace(pod, uid="first"), member.name, answer.share).admitted
    return before, judge.judge(pod, [member.name])[0]


def test_a_port_of_the_host_that_is_taken_is_taken_in_the_console_too() -> None:
    container = {"name": "main", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}
    before, after = on_first(LabWorld(0), read(document(containers=[container]), "second"))
    assert before.verdict == "aligned"
    assert (after.verdict, [reason.code for reason in after.reasons]) == ("full", ["host-ports"])


def test_a_node_without_gpus_has_no_part_of_one_in_the_console_either() -> None:
    """The console did not look at shares of GPUs."""
    amounts = {"numaware.io/gpu-milli": "500"}
    pod = read(
        document(containers=[{"name": "main", "image": "x", "resources": {"limits": amounts}}]), "share"
    )
    world = LabWorld(0)
    member = world.cluster.by_name["box-0"]
    # Somebody offers the resource, but there is no GPU.
    offered = tuple(sorted((*member.facts.allocatable, ("numaware.io/gpu-milli", 1000))))
    world.cluster.put(msgspec.structs.replace(member.facts, allocatable=offered))
    (judgement,) = Judge(world.cluster).judge(pod, ["box-0"])
    assert (judgement.verdict, [reason.code for reason in judgement.reasons]) == ("never", ["gpu-share"])
