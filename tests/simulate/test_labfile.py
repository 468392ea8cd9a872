"""Files of the lab: what they may say, and what is said about those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaware.cli.machine_input import load_machine
from numaware.errors import InputError
from numaware.machine import codec, synthetic
from numaware.simulate.clusters import ClusterSpec
from numaware.simulate.labfile import LabFile, is_lab_file, read
from numaware.simulate.workloads import of_manifests
from numaware.workload.qos import qos_class

EXAMPLES = Path(__file__).parents[2] / "examples"
KUBELET = "kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: '0', topologyManagerPolicy: restricted}"


def lab(folder: Path, text: str) -> LabFile:
    path = folder / "lab.yaml"
    path.write_text(text, encoding="utf-8")
    return read(path, load_machine)


def cluster(folder: Path, nodes: str) -> ClusterSpec:
    found = lab(folder, f"nodes:\n{nodes}").cluster
    assert found is not None
    return found


def problem(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as error:
        lab(folder, text)
    return str(error.value).removeprefix(f"{folder}/")


def test_a_kind_of_node_is_made_so_many_times(tmp_path: Path) -> None:
    found = cluster(tmp_path, "- {name: a, count: 11, machine: 2x14}\n- {name: b, machine: 1x4}")
    assert [node.name for node in found.nodes][::5] == ["a-00", "a-05", "a-10"]
    assert found.nodes[-1].name == "b"
    assert [len(numa.cpus) for numa in found.nodes[0].hardware.numa] == [14, 14]


def test_a_machine_may_be_a_capture_or_a_topology_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "box.json").write_bytes(codec.encode(synthetic.read("2s x 4c +gpu@1")))
    found = cluster(tmp_path, "- {name: a, machine: box.json}")
    [resource] = found.nodes[0].hardware.resources
    assert (resource.name, resource.devices[0].numa) == ("nvidia.com/gpu", (1,))


def test_devices_kubelets_labels_and_taints_are_taken_as_written(tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text("topologyManagerPolicy: best-effort\n", encoding="utf-8")
    found = cluster(
        tmp_path,
        f"""
- name: a
  machine: 2x4
  {KUBELET}
  version: v1.30.1
  devices: {{example.com/nic: [0, 1, null]}}
  labels: {{zone: east}}
  taints: [{{key: gpu, value: "yes", effect: NoSchedule}}]
  pods: 7
- {{name: b, machine: 2x4, kubelet: kubelet.yaml}}
""",
    )
    first, second = found.nodes
    assert first.config.topology_policy == "restricted"
    assert first.config.version == "v1.30.1"
    assert [device.numa for device in first.hardware.resources[0].devices] == [(0,), (1,), ()]
    assert first.labels == (("zone", "east"),)
    assert [(taint.key, taint.value, taint.effect) for taint in first.taints] == [
        ("gpu", "yes", "NoSchedule")
    ]
    assert first.most_pods == 7
    assert second.config.topology_policy == "best-effort"


def test_workloads_are_manifests_written_out_as_text_or_in_files(tmp_path: Path) -> None:
    (tmp_path / "set.yaml").write_text(
        "{kind: StatefulSet, metadata: {name: db}, spec: {replicas: 3, template: {spec: {containers: "
        "[{name: app, resources: {limits: {cpu: 2, memory: 1Gi}}}]}}}}",
        encoding="utf-8",
    )
    found = lab(
        tmp_path,
        """
workloads:
  - manifest: set.yaml
    at: 1m30s
    lifetime: 2h
  - manifest: {kind: Pod, metadata: {name: one}, spec: {containers: [{name: app}]}}
    replicas: 2
  - manifest: |
      kind: DaemonSet
      metadata: {name: agent}
      spec: {template: {spec: {containers: [{name: app}]}}}
""",
    ).trace
    assert [one.pod.name for one in found.pods] == ["db-0", "db-1", "db-2", "one-0", "one-1", "agent"]
    assert found.pods[0].owner == "StatefulSet/db"
    assert (found.pods[0].time, found.pods[0].lifetime) == (90_000, 7_200_000)
    assert found.pods[-1].on_every_node


def test_generators_make_pods_of_shapes(tmp_path: Path) -> None:
    found = lab(
        tmp_path,
        """
workloads:
  - generate: 12
    at: 5s
    every: 250ms
    lifetime: [1m, 2m]
    shapes:
      - {name: a, weight: 3, limits: {cpu: 2, memory: 1Gi}}
      - {name: b, requests: {cpu: 500m}}
""",
    ).trace
    [made] = found.generators
    assert (made.count, made.start, made.gap, made.lifetime) == (12, 5000, 250, (60_000, 120_000))
    assert [(shape.owner, shape.weight, qos_class(shape.pod)) for shape in made.shapes] == [
        ("Pod/a", 3, "Guaranteed"),
        ("Pod/b", 1, "Burstable"),
    ]


def test_events_drain_lose_and_return_nodes_and_finish_owners(tmp_path: Path) -> None:
    found = lab(
        tmp_path,
        "events: [{at: 1h, drain: a}, {at: 2h, lose: b}, {at: 3h, return: a}, {at: 1, finish: Job/train}]",
    ).trace
    assert [(event.time, event.action, event.node) for event in found.node_events] == [
        (3_600_000, "drain", "a"),
        (7_200_000, "lose", "b"),
        (10_800_000, "return", "a"),
    ]
    assert [(event.time, event.owner) for event in found.finishes] == [(1000, "Job/train")]


def test_plain_manifests_are_a_trace_too() -> None:
    data = (EXAMPLES / "vmstorage-statefulset.yaml").read_bytes()
    assert not is_lab_file(data, "x")
    assert is_lab_file((EXAMPLES / "p100.yaml").read_bytes(), "x")
    found = of_manifests(data, "x", "x")
    assert [one.pod.uid for one in found.pods][:2] == ["metrics/vmstorage-0", "metrics/vmstorage-1"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_can_be_read(path: Path) -> None:
    data = path.read_bytes()
    if is_lab_file(data, str(path)):
        found = read(path, load_machine)
        assert found.cluster is not None
        assert found.trace.pods or found.trace.generators
    else:
        assert of_manifests(data, str(path), path.stem).pods


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{chr(98 + step)}: &{chr(98 + step)} [{','.join([f'*{chr(97 + step)}'] * 10)}]\n" for step in range(8)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lab.yaml:1: expected a file of the lab, got a JSON null"),
        ("nodes: 3", "lab.yaml:1: nodes: expected a list, got a JSON number"),
        ("nodes: []", "lab.yaml:1: no nodes are listed"),
        ("nodse: []", "lab.yaml:1: 'nodse' is no field of a file of the lab"),
        ("nodes:\n- {name: a}", "lab.yaml:2: machine is missing"),
        (
            "nodes:\n- name: a\n  machine: 2y4",
            "lab.yaml:3: machine '2y4': no such file, and as a short form:",
        ),
        ("nodes:\n- {name: a, machine: 2x4, count: 0}", "lab.yaml:2: count is 0, not a whole number from 1"),
        (
            "nodes:\n- {name: a, machine: 2x4}\n- {name: a, machine: 2x4}",
            "lab.yaml:3: node 'a' is there twice",
        ),
        (
            "nodes:\n- name: a\n  machine: 2x4\n  kubelet: {cpuManagerPolicy: static}",
            "lab.yaml:2: a: the kubelet would not start: ",
        ),
        (
            "nodes:\n- {name: a, machine: 2x4, kubelet: none.yaml}",
            "lab.yaml:2: kubelet: there is no file 'none.yaml'",
        ),
        (
            "nodes:\n- {name: a, machine: 2x4, devices: {a/b: [2]}}",
            "lab.yaml:2: the machine has no NUMA node 2",
        ),
        ("workloads:\n- {manifest: no.yaml}", "lab.yaml:2: manifest: there is no file 'no.yaml'"),
        (
            "workloads:\n- {manifest: {kind: Pod, spec: {}}}",
            "lab.yaml:2: manifest: spec.containers: Required value",
        ),
        ("workloads:\n- {generate: 3}", "lab.yaml:2: a generator needs shapes"),
        (
            "workloads:\n- {generate: -1, shapes: [{name: a}]}",
            "lab.yaml:2: generate is -1, not a whole number",
        ),
        ("workloads:\n- {generate: 99999999999, shapes: [{name: a}]}", "lab.yaml:2: generate is 99999999999"),
        (
            "workloads:\n- {generate: 1, every: soon, shapes: [{name: a}]}",
            "lab.yaml:2: every is 'soon', not a time",
        ),
        ("events:\n- {at: 1s}", "lab.yaml:2: an event does one thing"),
        ("events:\n- {at: 1s, drain: a, lose: b}", "lab.yaml:2: an event does one thing"),
        ("events:\n- {at: 1000000d, drain: a}", "lab.yaml:2: at is more than a hundred years"),
        (BOMB, "lab.yaml:5: aliases repeat more than 50000 values"),
        ("nodes: [", "lab.yaml:1: not YAML"),
    ],
)
def test_a_bad_file_is_one_line_with_its_place_and_reason(tmp_path: Path, text: str, told: str) -> None:
    found = problem(tmp_path, text)
    assert found.startswith(told)
    assert "\n" not in found


def test_a_part_that_expands_without_an_end_is_refused(tmp_path: Path) -> None:
    inner = "".join(
        f"    {chr(98 + step)}: &{chr(98 + step)} [{','.join([f'*{chr(97 + step)}'] * 10)}]\n"
        for step in range(8)
    )
    text = f"workloads:\n- manifest:\n    a: &a [1,1,1,1,1,1,1,1,1,1]\n{inner}"
    assert "aliases repeat more than 50000 values" in problem(tmp_path, text)
