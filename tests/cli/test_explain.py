"""`numaware explain` as a user types it: all kinds of pods, all kinds of nodes, all kinds of mistakes."""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from numaware.cli import main
from numaware.cli.explain import explain_pods
from numaware.twin.state import cpu, device, memory
from support.made_machine import two_nodes, write

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
"""
FLAGS = "--cpu-manager-policy=static --reserved-cpus=0 --topology-manager-policy=restricted"
GI = 1 << 30


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.out)["pods"]
        return found


Ask = Callable[..., Answer]


DRA = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.io
  nodeName: gpu-07
  pool: {name: gpu-07, generation: 1}
  devices: [{name: d0, attributes: {resource.kubernetes.io/numaNode: {int: 1}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine, namespace: ml}
spec: {}
status: {allocation: {devices: {results: [{request: r, driver: d.io, pool: gpu-07, device: d0}]}}}
"""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run `numaware explain` in a folder with a kubelet configuration and a pod of 3 CPUs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod(3)))

    def run(*arguments: str) -> Answer:
        code = main(["explain", *arguments])
        return Answer(code, *capsys.readouterr())

    return run


def spec(cpus: object = 3, **more: object) -> dict[str, Any]:
    resources = {"limits": {"cpu": cpus, "memory": "1Gi", **more}}
    return {"containers": [{"name": "main", "image": "x", "resources": resources}]}


def pod(cpus: object = 3, **more: object) -> dict[str, Any]:
    metadata = {"name": "trainer", "namespace": "ml"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(cpus, **more)}


def owner(kind: str, group: str, cpus: int = 3) -> dict[str, Any]:
    template: dict[str, Any] = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": spec(cpus)}}
    metadata = {"name": "web"}
    if kind == "CronJob":
        template = {"schedule": "* * * * *", "jobTemplate": {"spec": template}}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": template}


VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "tasks": [
            {"name": "ps", "replicas": 1, "template": {"spec": spec(1)}},
            {"name": "worker", "replicas": 4, "template": {"spec": spec(9)}},
        ]
    },
}
OWNERS = [
    ("Deployment", "apps/v1", "spec.template.spec"),
    ("StatefulSet", "apps/v1", "spec.template.spec"),
    ("DaemonSet", "apps/v1", "spec.template.spec"),
    ("Job", "batch/v1", "spec.template.spec"),
    ("CronJob", "batch/v1", "spec.jobTemplate.spec.template.spec"),
]
NODE = ("--node", "2x4", "--kubelet-config", "kubelet.yaml")


# Pods


def test_a_pod_that_is_admitted_exits_0_and_shows_where_it_goes(ask: Ask) -> None:
    code, out, err = ask("pod.yaml", *NODE)
    assert (code, err) == (0, "")
    assert out == (
        "✓ ml/trainer would be admitted by 2x4\n"
        "  kubelet v1.35.0 · topology single-numa-node, container scope · CPU manager static ·\n"
        "  memory manager None\n"
        "\n"
        "  free to pin, before it comes:\n"
        "  NUMA 0   ▨◆◆◆  3 of 4 CPUs\n"
        "  NUMA 1   □□□□  4 of 4 CPUs\n"
        "           CPUs: ▨ reserved  ◆ this pod  □ free to pin\n"
        "\n"
        "  main  CPUs 1-3 on NUMA 0 · aligned\n"
    )


def test_a_pod_that_is_refused_exits_1_and_says_why_and_what_helps(ask: Ask) -> None:
    Path("pod.yaml").write_text(yaml.safe_dump(pod(5)))
    code, out, err = ask("pod.yaml", *NODE)
    assert (code, err) == (1, "")
    assert out == (
        "✗ ml/trainer would be refused by 2x4, even if nothing else ran there: TopologyAffinityError\n"
        "  the kubelet says: Resources cannot be allocated with Topology locality\n"
        "  kubelet v1.35.0 · topology single-numa-node, container scope · CPU manager static ·\n"
        "  memory manager None\n"
        "\n"
        "  free to pin, before it comes:\n"
        "  NUMA 0   ▨□□□  3 of 4 CPUs\n"
        "  NUMA 1   □□□□  4 of 4 CPUs\n"
        "           CPUs: ▨ reserved  □ free to pin\n"
        "\n"
        "why\n"
        "  cpu  5 CPUs need 2 NUMA nodes even on an empty machine (the largest has 4), and single-numa-node\n"
        "       gives one.\n"
        "         the system keeps 1 CPU on NUMA 0\n"
        "\n"
        "any one of these would admit it (each was tried on the twin)\n"
        "  1  ask for 4 CPUs instead of 5 in container main\n"
        "  2  set topologyManagerPolicy to restricted (now single-numa-node)\n"
    )


@pytest.mark.parametrize(("kind", "group", "path"), OWNERS)
def test_every_kind_with_a_pod_template_is_read_and_patched_in_place(
    ask: Ask, kind: str, group: str, path: str
) -> None:
    document = owner(kind, group, 5)
    Path("owner.yaml").write_text(yaml.safe_dump(document))
    answer = ask("owner.yaml", *NODE, "--json")
    assert answer.code == 1
    (found,) = answer.pods
    (change,) = [change for change in found["changes"] if change["kind"] == "request"]
    patched = merged(document, change["patch"])
    at = patched
    for key in path.split("."):
        at = at[key]
    assert at["containers"][0]["image"] == "x"
    assert at["containers"][0]["resources"]["limits"] == {"cpu": "4", "memory": "1Gi"}
    Path("owner.yaml").write_text(yaml.safe_dump(patched))
    assert ask("owner.yaml", *NODE).code == 0


def merged(document: Any, patch: Any) -> Any:
    """A strategic merge as the API server does it: maps by key, lists of containers by name."""
    if isinstance(patch, dict) and isinstance(document, dict):
        return {**document, **{key: merged(document.get(key), value) for key, value in patch.items()}}
    if isinstance(patch, list) and isinstance(document, list):
        changes = {item["name"]: item for item in patch}
        assert changes.keys() <= {item["name"] for item in document}
        return [merged(item, changes.get(item["name"], {})) for item in document]
    return patch


def test_each_task_of_a_volcano_job_is_a_pod_with_a_patch_of_its_own_spec(ask: Ask) -> None:
    Path("job.yaml").write_text(yaml.safe_dump(VOLCANO))
    answer = ask("job.yaml", *NODE, "--json")
    assert answer.code == 1
    first, second = answer.pods
    assert (first["pod"]["name"], first["admitted"]) == ("train-ps", True)
    assert (second["pod"]["name"], second["admitted"]) == ("train-worker", False)
    patch = second["changes"][0]["patch"]
    worker = VOLCANO["spec"]["tasks"][1]["template"]  # type: ignore[index]
    assert merged(worker, patch)["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "4"


def test_several_documents_and_standard_input(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml.safe_dump_all(
        [pod(2), {"kind": "Service", "metadata": {"name": "s"}}, owner("Job", "batch/v1")]
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    answer = ask("-", *NODE, "--json")
    assert answer.code == 0
    assert [(one["pod"]["name"], one["admitted"]) for one in answer.pods] == [
        ("trainer", True),
        ("web", True),
    ]


def test_one_pod_that_no_node_admits_is_enough_for_exit_code_1(ask: Ask) -> None:
    Path("two.yaml").write_text(yaml.safe_dump_all([pod(2), pod(64)]))
    answer = ask("two.yaml", *NODE, "--json")
    assert [one["admitted"] for one in answer.pods] == [True, False]
    assert answer.code == 1


def test_what_is_not_pinned_is_told(ask: Ask) -> None:
    documents = [
        pod("1500m"),
        {**pod(), "spec": {"containers": [{"name": "main"}]}},
        {**pod(), "spec": {**spec(), "resources": {"limits": {"cpu": 3, "memory": "1Gi"}}}},
    ]
    Path("three.yaml").write_text(yaml.safe_dump_all(documents))
    answer = ask("three.yaml", *NODE, "--json")
    told = [one["warnings"][0] for one in answer.pods]
    assert "it asks for 1500m CPU" in told[0]
    assert "the pod is BestEffort" in told[1]
    assert "the pod has resources as a whole" in told[2]
    assert [one["containers"][0]["cpuset"] for one in answer.pods] == [None, None, None]
    assert "⚠ container main gets no CPUs of its own" in ask("three.yaml", *NODE).out


def test_a_field_that_kubernetes_ignores_is_a_note(ask: Ask) -> None:
    written = pod()
    written["spec"]["containers"][0]["limits"] = {"cpu": 2}
    Path("pod.yaml").write_text(yaml.safe_dump(written))
    assert "did you mean resources.limits?" in " ".join(ask("pod.yaml", *NODE).out.split())


# Nodes


STATIC_MEMORY = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
evictionHard: {memory.available: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
"""


def test_memory_that_is_only_assumed_is_a_note_where_a_manager_hands_it_out(ask: Ask) -> None:
    Path("static.yaml").write_text(STATIC_MEMORY, encoding="utf-8")
    noted = "2x4: each NUMA node is assumed to have 64 GiB of memory; mem= says how much it has"
    _, out, _ = ask("pod.yaml", "--node", "2x4", "--kubelet-config", "static.yaml")
    assert noted in " ".join(out.split())
    assert "assumed" not in ask("pod.yaml", "--node", "2x4 mem=8Gi", "--kubelet-config", "static.yaml")[1]
    assert "assumed" not in ask("pod.yaml", *NODE)[1]
    assert (
        "假定每个 NUMA 节点有 64 GiB 内存"
        in ask("pod.yaml", "--node", "2x4", "--kubelet-config", "static.yaml", "--lang", "zh")[1]
    )


def test_several_nodes_are_summed_up_first(ask: Ask) -> None:
    code, out, _ = ask("pod.yaml", "--node", "2x2", "--node", "2x8", "--kubelet-config", "kubelet.yaml")
    assert code == 0
    assert out.startswith(
        "ml/trainer: 1 of 2 nodes would admit it: 2x8\n\n✗ ml/trainer would be refused by 2x2"
    )
    assert "\n\n✓ ml/trainer would be admitted by 2x8\n" in out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a person collected of a node: two NUMA nodes with CPUs 0,2,4,6 and 1,3,5,7."""
    root = write(tmp_path / "gpu-07", two_nodes())
    (root / "kubelet-config.yaml").write_text(KUBELET)
    return root


def test_a_folder_brings_its_configuration_and_its_name(ask: Ask, folder: Path) -> None:
    (found,) = ask("pod.yaml", "--node", "gpu-07", "--json").pods
    assert (found["node"], found["admitted"]) == ("gpu-07", True)
    assert found["containers"][0]["cpuset"] == "2,4,6"


def test_a_folder_with_an_archive_of_the_machine(ask: Ask, folder: Path) -> None:
    assert main(["topology", "capture", "--root", "gpu-07", "-o", "cap.tar.gz"]) == 0
    Path("other").mkdir()
    Path("cap.tar.gz").rename("other/cap.tar.gz")
    Path("other/kubelet-config.yaml").write_text(KUBELET)
    found = ask("pod.yaml", "--node", "other", "--json")
    assert json.loads(found.out[found.out.index("{") :])["pods"][0]["containers"][0]["cpuset"] == "2,4,6"


def test_a_topology_in_json_an_archive_or_a_folder_named_alone(ask: Ask, folder: Path) -> None:
    assert main(["topology", "show", "--root", "gpu-07", "--json", "-o", "topology.json"]) == 0
    for path in ("topology.json", "gpu-07"):
        (found,) = ask("pod.yaml", "--node", path, "--kubelet-config", "kubelet.yaml", "--json").pods
        assert found["containers"][0]["cpuset"] == "2,4,6"


def test_state_files_of_a_folder_say_who_holds_what(ask: Ask, folder: Path) -> None:
    (folder / cpu.FILE).write_text(
        cpu.encode("static", "0,6", {"u-1": {"main": "2,4"}, "u-2": {"a": "1,3,5,7"}})
    )
    (found,) = ask("pod.yaml", "--node", "gpu-07", "--json").pods
    assert not found["admitted"]
    assert found["why"][0]["blockedBy"] == [
        "u-2 (a) holds 4 CPUs on NUMA 1",
        "u-1 (main) holds 2 CPUs on NUMA 0",
        "the system keeps 1 CPU on NUMA 0",
    ]
    evict = found["changes"][-1]
    assert (evict["kind"], evict["patch"]) == ("evict", {"evict": [{"uid": "u-1"}]})


def test_a_list_of_pods_gives_names_to_uids(ask: Ask, folder: Path) -> None:
    (folder / cpu.FILE).write_text(
        cpu.encode("static", "0,6", {"u-1": {"main": "2,4"}, "u-2": {"a": "1,3,5,7"}})
    )
    running = pod(2)
    running["metadata"] |= {"name": "etl", "uid": "u-1"}
    (folder / "pods.json").write_text(json.dumps({"kind": "PodList", "items": [running]}))
    (found,) = ask("pod.yaml", "--node", "gpu-07", "--json").pods
    assert found["why"][0]["blockedBy"][1] == "ml/etl (main) holds 2 CPUs on NUMA 0"
    assert found["changes"][-1]["patch"] == {"evict": [{"namespace": "ml", "name": "etl", "uid": "u-1"}]}


def test_devices_of_the_checkpoint_are_the_nodes(ask: Ask, folder: Path) -> None:
    entries = [device.DeviceEntry("u-1", "main", "x.io/nic", {1: ["n1"]})]
    (folder / device.FILE).write_text(device.encode(entries, {"x.io/nic": ["n0", "n1"]}))
    Path("pod.yaml").write_text(yaml.safe_dump(pod(1, **{"x.io/nic": 1})))
    answer = ask("pod.yaml", "--node", "gpu-07", "--json")
    assert answer.pods[0]["containers"][0]["devices"] == {"x.io/nic": {"-1": 1}}
    assert json.loads(answer.out)["notes"] == [
        (
            "gpu-07: x.io/nic: the NUMA nodes of 1 free devices are not known, so all its 2 are taken to have none; "
            "--devices tells them"
        )
    ]


def test_devices_on_the_command_line_win(ask: Ask, folder: Path) -> None:
    Path("pod.yaml").write_text(yaml.safe_dump(pod(1, **{"x.io/nic": 2})))
    (found,) = ask("pod.yaml", "--node", "gpu-07", "--devices", "x.io/nic=1,-,1", "--json").pods
    assert found["containers"][0]["devices"] == {"x.io/nic": {"1": 2}}
    assert found["containers"][0]["cpuset"] == "1"


GPU = "nvidia.com/gpu"
# What a kubelet of a machine with three GPUs keeps while one pod holds the GPU of NUMA node 0.
ONE_GPU_HELD = device.encode(
    [device.DeviceEntry("513cb897", "app", GPU, {0: ["GPU-77a7"]})],
    {GPU: ["GPU-77a7", "GPU-9b34", "GPU-c1e9"]},
)


@pytest.mark.parametrize(
    "node",
    [("--node", "2x4 +gpu@0,1,1"), ("--node", "2x4", "--devices", f"{GPU}=0,1,1")],
    ids=["gpus of the machine", "gpus of --devices"],
)
def test_a_gpu_that_the_checkpoint_gives_to_a_pod_is_not_free(ask: Ask, node: tuple[str, ...]) -> None:
    Path("held").write_text(ONE_GPU_HELD)
    Path("pod.yaml").write_text(yaml.safe_dump(pod(3, **{GPU: 3})))
    options = (*node, "--kubelet-config", "kubelet.yaml", "--state", "held")
    (found,) = ask("pod.yaml", *options, "--json").pods
    assert not found["admitted"]
    (cause,) = (cause for cause in found["why"] if cause["resource"] == GPU)
    assert cause["blockedBy"] == ["513cb897 (app) holds 1 nvidia.com/gpu on NUMA 0"]
    assert f"0 of 1 {GPU}" in ask("pod.yaml", *options).out


def test_devices_that_contradict_the_checkpoint_are_an_error(ask: Ask) -> None:
    Path("held").write_text(ONE_GPU_HELD)
    options = ("--node", "2x4", "--kubelet-config", "kubelet.yaml", "--state", "held")
    answer = ask("pod.yaml", *options, "--devices", f"{GPU}=1,1,1")
    assert answer.code == 2
    assert "GPU-77a7 is in use on NUMA node 0, where --devices lists no device that is left" in answer.err


def test_the_configuration_as_the_api_server_tells_it(ask: Ask, folder: Path) -> None:
    (folder / "kubelet-config.yaml").unlink()
    told = {"kubeletconfig": {**yaml.safe_load(KUBELET), "topologyManagerPolicy": "restricted"}}
    (folder / "kubelet-config.json").write_text(json.dumps(told))
    assert "topology restricted, container scope" in ask("pod.yaml", "--node", "gpu-07").out


def test_flags_and_version_of_a_folder(ask: Ask, folder: Path) -> None:
    (folder / "kubelet-flags").write_text('KUBELET_ARGS="--topology-manager-policy=best-effort"\n')
    (folder / "kubelet-version").write_text("Kubernetes v1.27.3\n")
    out = ask("pod.yaml", "--node", "gpu-07").out
    assert "kubelet v1.27.3 · topology best-effort, container scope" in out
    out = ask("pod.yaml", "--node", "gpu-07", "--kubelet-version", "v1.30.1", "--kubelet-flags", FLAGS).out
    assert "kubelet v1.30.1 · topology restricted, container scope" in out


def test_state_files_named_one_by_one_under_any_name(ask: Ask, folder: Path) -> None:
    Path("mine.txt").write_text(
        cpu.encode("static", "0,6", {"u-1": {"main": "2,4"}, "u-2": {"a": "1,3,5,7"}})
    )
    assert ask("pod.yaml", "--node", "gpu-07").code == 0
    assert ask("pod.yaml", "--node", "gpu-07", "--state", "mine.txt").code == 1


def test_a_folder_of_state_files(ask: Ask) -> None:
    Path("state").mkdir()
    Path("state", memory.FILE).write_text(memory.encode("None", {}, {}))
    Path("state", cpu.FILE).write_text(cpu.encode("static", "0-3", {"u-1": {"main": "4-7"}}))
    (found,) = ask("pod.yaml", *NODE, "--state", "state", "--json").pods
    assert found["containers"][0]["cpuset"] == "1-3"


def test_this_very_machine(ask: Ask) -> None:
    Path("pod.yaml").write_text(yaml.safe_dump(pod("100m")))
    code, out, err = ask("pod.yaml", "--node", "/", "--kubelet-flags", "--topology-manager-policy=none")
    assert (code, err) == (0, "")
    assert out.startswith("✓ ml/trainer would be admitted by this machine\n")


def test_a_pod_that_runs_there_already_is_told(ask: Ask, folder: Path) -> None:
    running = pod()
    running["metadata"]["uid"] = "u-1"
    Path("pod.yaml").write_text(yaml.safe_dump(running))
    (folder / cpu.FILE).write_text(cpu.encode("static", "0-1,3,5,7", {"u-1": {"main": "2,4,6"}}))
    (found,) = ask("pod.yaml", "--node", "gpu-07", "--json").pods
    assert found["containers"][0]["cpuset"] == "2,4,6"
    assert found["warnings"][0].startswith("this pod is on the node already")


# Mistakes


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("junk.yaml", ": : [", "junk.yaml:1: not YAML"),
        ("empty.yaml", "", "empty.yaml: holds no pod and no pod template"),
        ("map.yaml", "kind: ConfigMap", "holds no pod and no pod template (found ConfigMap)"),
        ("minus.yaml", yaml.safe_dump(pod(-1)), "must be greater than or equal to 0"),
        ("word.yaml", yaml.safe_dump(pod("many")), "'many' is not a quantity"),
        ("half.yaml", yaml.safe_dump(pod(1, **{"x.io/nic": "1.5"})), "must be an integer"),
    ],
)
def test_a_bad_manifest_is_one_line_and_exit_code_2(ask: Ask, name: str, text: str, told: str) -> None:
    Path(name).write_text(text)
    one_line(ask(name, *NODE), told)


def test_requests_above_limits_are_refused_as_the_api_server_does(ask: Ask) -> None:
    wrong = pod(2)
    wrong["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 3}
    Path("pod.yaml").write_text(yaml.safe_dump(wrong))
    one_line(ask("pod.yaml", *NODE), "must be less than or equal to cpu limit of 2")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.yaml", *NODE], "missing.yaml: No such file or directory"),
        ([".", *NODE], ".: Is a directory"),
        (["pod.yaml"], "--node requires an argument"),
        (["pod.yaml", "--node", "2x4"], "2x4: no kubelet configuration, and the verdict depends on it"),
        (["pod.yaml", "--node", "nowhere", *NODE[2:]], "nowhere: no such file, and as a short form:"),
        (["pod.yaml", "--node", "x" * 5000, *NODE[2:]], "no such file, and as a short form:"),
        (["pod.yaml", "--node", "pod.yaml", *NODE[2:]], "pod.yaml: is not a tar archive"),
        (["pod.yaml", "--node", ".", *NODE[2:]], "holds no captured machine"),
        (["pod.yaml", "--node", "9x4", *NODE[2:]], "unsupported on machines with more than 8 NUMA Nodes"),
        (["pod.yaml", *NODE[:2], "--kubelet-config", "missing"], "missing: No such file or directory"),
        (["pod.yaml", *NODE[:2], "--kubelet-config", "pod.yaml"], "holds no kubelet configuration"),
        (["pod.yaml", *NODE[:2], "--kubelet-flags", "'"], "--kubelet-flags: cannot be split into words"),
        (
            ["pod.yaml", *NODE[:2], "--kubelet-flags", "--cpu-manager-policy=static"],
            "the kubelet would not start: [cpumanager] unable to determine reserved CPU resources",
        ),
        (
            ["pod.yaml", *NODE[:2], "--kubelet-flags", "--topology-manager-policy=best"],
            "the kubelet would not start: topologyManagerPolicy: invalid configuration",
        ),
        (
            ["pod.yaml", *NODE, "--kubelet-flags", "--reserved-cpus=0,99"],
            "reserved-cpus: 0,99 is not a subset of online-cpus: 0-7",
        ),
        (
            ["pod.yaml", *NODE, "--kubelet-version", "new"],
            "--kubelet-version: 'new' is not a kubelet version",
        ),
        (["pod.yaml", *NODE, "--kubelet-version", "v1.9.0"], "is not a kubelet version from v1.18 on"),
        (["pod.yaml", *NODE, "--devices", "x.io/nic"], "--devices x.io/nic: not of the form RESOURCE=NODE"),
        (["pod.yaml", *NODE, "--devices", "x.io/nic=one"], "not of the form RESOURCE=NODE"),
        (["pod.yaml", *NODE, "--devices", "x.io/nic=0,7"], "the machine has no NUMA node 7"),
        (["pod.yaml", *NODE, "--devices", f"x.io/nic={'9' * 5000}"], "not of the form RESOURCE=NODE"),
        (["pod.yaml", *NODE, "--devices", "cpu=0"], "'cpu' is no name for devices"),
        (["pod.yaml", *NODE, "--devices", "x.io/a=0", "--devices", "x.io/a=1"], "x.io/a is given twice"),
        (["pod.yaml", *NODE, "--state", "missing"], "missing: No such file or directory"),
        (["pod.yaml", *NODE, "--state", "."], ".: holds no state file"),
        (
            ["pod.yaml", *NODE, "--node", "2x8", "--state", "."],
            "--state: is one node's, and 2 nodes are given",
        ),
        (["pod.yaml", *NODE, "--bogus"], "Unknown option"),
    ],
)
def test_every_mistake_is_one_line_and_exit_code_2(ask: Ask, arguments: list[str], told: str) -> None:
    one_line(ask(*arguments), told)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (cpu.FILE, "{", "gpu-07: cpu_manager_state: not JSON"),
        (
            cpu.FILE,
            cpu.encode("static", "0-7", {}).replace("0-7", "0-6"),
            "could not restore state from checkpoint: checkpoint is corrupted, please drain this node",
        ),
        (
            cpu.FILE,
            cpu.encode("none", "", {}),
            'configured policy "static" differs from state checkpoint policy "none"',
        ),
        (
            cpu.FILE,
            cpu.encode("static", "0-63", {}),
            'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-63"',
        ),
        (cpu.FILE, cpu.encode("static", "0-x", {}), 'could not parse default cpu set "0-x"'),
        (memory.FILE, memory.encode("Static", {}, {}), 'configured policy "None" differs from state'),
        (device.FILE, "[]", "gpu-07: kubelet_internal_checkpoint: not JSON"),
        ("kubelet-version", "soon", "kubelet-version: 'soon' is not a kubelet version"),
        ("kubelet-flags", "--feature-gates=A", "malformed pair"),
        ("pods.json", "{", "pods.json:1: not YAML"),
    ],
)
def test_a_bad_file_in_a_nodes_folder(ask: Ask, folder: Path, name: str, text: str, told: str) -> None:
    (folder / name).write_text(text)
    one_line(ask("pod.yaml", "--node", "gpu-07"), told)


def test_a_corrupt_device_file_is_forgotten_as_the_kubelet_does_and_told(ask: Ask, folder: Path) -> None:
    entries = [device.DeviceEntry("u-1", "main", "x.io/nic", {1: ["n1"]})]
    text = device.encode(entries, {"x.io/nic": ["n1"]}).replace('"Checksum":', '"Checksum":1')
    (folder / device.FILE).write_text(text)
    Path("pod.yaml").write_text(yaml.safe_dump(pod(1, **{"x.io/nic": 1})))
    answer = ask("pod.yaml", "--node", "gpu-07", "--json")
    assert answer.pods[0]["containers"][0]["devices"] == {"x.io/nic": {"1": 1}}
    assert "the kubelet forgets who holds which device" in json.loads(answer.out)["notes"][0]


def test_a_machine_whose_cores_nobody_knows(ask: Ask) -> None:
    Path("numactl.txt").write_text(
        "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 4096 MB\nnode 0 free: 68 MB\n"
        "node distances:\nnode   0 \n  0:  10 \n"
    )
    assert (
        main(["topology", "read", "--from", "numactl", "numactl.txt", "--format", "json", "-o", "n.json"])
        == 0
    )
    one_line(ask("pod.yaml", "--node", "n.json", *NODE[2:]), "n: the core of CPU 0 is not known")


def test_a_newer_kubelet_is_told_to_be_a_guess(ask: Ask) -> None:
    newer = ask("pod.yaml", *NODE, "--kubelet-version", "v1.99.0").out
    assert "v1.99.0 is newer than v1.37" in newer
    assert "kubelet v1.99.0 (modelled as v1.37)" in " ".join(newer.split())
    answer = ask("pod.yaml", *NODE, "--kubelet-version", "v1.99.0", "--json")
    assert answer.pods[0]["kubelet"] == {"version": "v1.99.0", "modelledAs": "v1.37"}
    assert "modelled as v1.37" in answer.pods[0]["warnings"][0]
    known = ask("pod.yaml", *NODE, "--kubelet-version", "v1.37.1", "--json").pods[0]
    assert known["kubelet"] == {"version": "v1.37.1", "modelledAs": None}


def test_a_request_beyond_all_bounds_has_an_answer(ask: Ask) -> None:
    Path("pod.yaml").write_text(yaml.safe_dump(pod("9223372036854775")))
    (found,) = ask("pod.yaml", *NODE, "--json").pods
    assert found["changes"][0]["text"] == "ask for 4 CPUs instead of 9223372036854775 in container main"


def test_the_help_names_the_files_of_a_node_and_the_exit_codes(ask: Ask) -> None:
    out = ask("--help").out
    for word in ("cpu_manager_state", "kubelet-config.yaml", "kubelet-flags", "pods.json", "Exit code: 0"):
        assert word in out


def test_the_help_fits_a_small_terminal() -> None:
    text = inspect.getdoc(explain_pods) or ""
    assert max(map(len, text.splitlines())) <= 80


def one_line(answer: Answer, told: str) -> None:
    assert answer.code == 2
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    assert line.startswith("numaware: ")
    assert told in line
    assert len(line) < 700


def test_the_text_of_numactl_is_enough_of_a_machine_and_what_is_assumed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "numactl.txt").write_text(
        "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 8000 MB\nnode 1 cpus: 4 5 6 7\nnode 1 size: 8000 MB\n"
        "node distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n"
    )
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: a\n"
        '    resources: {requests: {cpu: "4", memory: 1Gi}, limits: {cpu: "4", memory: 1Gi}}\n'
    )
    flags = "--topology-manager-policy=single-numa-node --cpu-manager-policy=static --reserved-cpus=0"
    for node in (tmp_path / "numactl.txt", tmp_path):
        arguments = ["explain", str(tmp_path / "pod.yaml"), "--node", str(node), "--kubelet-flags", flags]
        assert main(arguments) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "numactl tells no cores: each CPU is taken for a core of its own" in shown


# Devices that come by DRA


def claiming() -> dict[str, Any]:
    document = pod(3)
    document["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    return document


def test_devices_of_dra_are_told_beside_the_verdict(ask: Ask) -> None:
    Path("pod.yaml").write_text(yaml.safe_dump(claiming()))
    Path("dra.yaml").write_text(DRA)
    node = ("--node", "2x8", "--kubelet-config", "kubelet.yaml")
    answer = ask("pod.yaml", *node, "--dra", "dra.yaml")
    words = " ".join(answer.out.split())
    assert answer.code == 0
    assert (
        "not aligned by the kubelet: served by DRA. gpu has 1 device of d.io on NUMA 1, and the pod's"
        in words
    )
    assert "note: 2x8: the slices of gpu-07 are taken to be its own" in words
    (part,) = ask("pod.yaml", *node, "--dra", "dra.yaml", "--json").pods[0]["dra"]
    assert (part["claim"], part["state"], part["aligned"]) == ("gpu", "allocated", False)
    # Without the objects it is said that they are missing, and a manifest may bring them itself.
    assert ask("pod.yaml", *node, "--json").pods[0]["dra"][0]["state"] == "unseen"
    Path("both.yaml").write_text(f"{yaml.safe_dump(claiming())}---\n{DRA}")
    assert ask("both.yaml", *node, "--json").pods[0]["dra"] == [part]


def test_a_file_without_objects_of_dra_is_bad_input(ask: Ask) -> None:
    answer = ask("pod.yaml", "--node", "2x8", "--kubelet-config", "kubelet.yaml", "--dra", "pod.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert "pod.yaml: holds no ResourceSlice" in answer.err
