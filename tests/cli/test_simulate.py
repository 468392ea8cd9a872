"""`numaware simulate` and `numaware whatif` as a user calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from numaware.cli import main
from numaware.serve.console.lab.world import LabWorld
from numaware.simulate.clusters import machines_of
from numaware.simulate.pod_churn import trace_of
from numaware.simulate.run import run as play
from support.lab_worlds import csv

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = [
    "policy", "seed", "podsTotal", "podsPlaced", "kubeletRefusals", "alignedPercent", "crossNumaPods",
    "cpuAllocatedPercent", "memoryAllocatedPercent", "deviceAllocatedPercent", "strandedPercent", "decisionsPerSecond",
    "unplacedByReason",
    "placedBySize",
]  # fmt: skip
POLICIES = (
    "numaware", "kube-scheduler", "scheduler-plugins", "volcano", "kai", "koordinator", "fgd", "best-fit", "random",
)  # fmt: skip
STORY = str(EXAMPLES / "vmstorage.yaml")


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["simulate", *arguments, "--json", "--workers", "1"]) == 0
    runs: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["runs"]
    for run in runs:
        assert run.pop("decisionsPerSecond") > 0
    return runs


@pytest.fixture
def lists(tmp_path: Path) -> tuple[str, str]:
    """Node and pod lists of the OpenB family, small."""
    nodes = csv("sn,cpu_milli,memory_mib,gpu,model", *(f"n{index},64000,262144,4,T4" for index in range(3)))
    pods = csv(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli",
        *(f"p{index},{7500 + 1000 * (index % 3)},4096,1,{(1000, 400)[index % 2]}" for index in range(12)),
    )
    (tmp_path / "nodes.csv").write_bytes(nodes)
    (tmp_path / "pods.csv").write_bytes(pods)
    return f"openb:{tmp_path / 'nodes.csv'}", f"openb:{tmp_path / 'pods.csv'}"


# What the text tells beside them.
MORE = ["cluster", "trace", "nodes", "refusalsPerThousand", "waitMeanMs", "storms", "talk"]


def test_json_has_the_fields_that_programs_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", STORY, STORY, "--json", "--policy", "numaware", "--seed", "7"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["runs", "notes"]
    assert document["notes"] == []
    [run] = document["runs"]
    assert list(run) == [*KEYS, *MORE]
    assert (run["policy"], run["seed"], run["podsTotal"]) == ("numaware", 7, 5)


def test_every_policy_plays_every_seed_and_equal_calls_give_equal_numbers(
    capsys: pytest.CaptureFixture[str], lists: tuple[str, str]
) -> None:
    arguments = [
        *lists,
        *(part for name in POLICIES for part in ("--policy", name)),
        "--seed",
        "1",
        "--seed",
        "2",
    ]
    first = simulated(capsys, *arguments)
    assert [(run["policy"], run["seed"]) for run in first] == [
        (name, seed) for name in POLICIES for seed in (1, 2)
    ]
    assert first == simulated(capsys, *arguments)


def test_the_story_of_the_stateful_set_is_told_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", STORY, STORY, "--policy", "kube-scheduler", "--policy", "numaware"]) == 0
    text = capsys.readouterr().out
    assert "kube-scheduler: StatefulSet/vmstorage was refused 11 times" in text
    assert "1  node(s) could not align the pod on NUMA nodes (restricted)" in text
    assert "numaware: StatefulSet" not in text


def test_the_text_fits_80_columns_and_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """It took 160 columns, and JSON had neither waiting nor storms."""
    policies = [part for name in POLICIES for part in ("--policy", name)]
    assert main(["simulate", STORY, STORY, *policies]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert all(re.search(rf"^ .*\b{name}\b", text, re.MULTILINE) for name in POLICIES)
    assert main(["simulate", STORY, STORY, "--policy", "kube-scheduler", "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert (run["cluster"], run["trace"], run["nodes"], run["waitMeanMs"]) == ("vmstorage", "vmstorage", 2, 0)
    assert run["refusalsPerThousand"] == 2200
    [storm] = run["storms"]
    assert (storm["owner"], storm["count"], storm["nodes"][0], storm["reason"]) == (
        "StatefulSet/vmstorage",
        11,
        "storage-0",
        "TopologyAffinityError",
    )


@pytest.mark.parametrize("apart", [False, True])
def test_an_event_on_a_node_that_is_not_there_is_found_before_play_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    monkeypatch.setattr("numaware.cli.simulate.run_all", lambda *_, **__: pytest.fail("it was played"))
    text = (
        (EXAMPLES / "eight-gpus.yaml")
        .read_text(encoding="utf-8")
        .replace("kubelets/", f"{EXAMPLES}/kubelets/")
    )
    text = text.replace("return: gpu-1", "return: gpu-9")
    path = tmp_path / "trace.yaml"
    path.write_text(text, encoding="utf-8")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "gpu-9" in each)
    cluster = str(EXAMPLES / "eight-gpus.yaml") if apart else str(path)
    assert main(["simulate", cluster, str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"numaware: {path}:{line}: there is no node 'gpu-9' to return")


def test_arrivals_are_scaled_to_the_gpus_and_limited(
    capsys: pytest.CaptureFixture[str], lists: tuple[str, str]
) -> None:
    [run] = simulated(capsys, *lists, "--arrive", "1.5", "--policy", "fgd", "--kubelet-policy", "none")
    assert run["podsTotal"] > 18
    [run] = simulated(capsys, *lists, "--arrive", "1.5", "--limit", "5", "--policy", "fgd")
    assert run["podsTotal"] == 5


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node", "best-effort", "none"])
@pytest.mark.parametrize("scope", ["pod", "container"])
def test_ours_is_never_refused_under_any_policy_and_scope(
    capsys: pytest.CaptureFixture[str], lists: tuple[str, str], policy: str, scope: str
) -> None:
    [run] = simulated(
        capsys,
        *lists,
        "--arrive",
        "1.3",
        "--policy",
        "numaware",
        "--kubelet-policy",
        policy,
        "--scope",
        scope,
    )
    assert run["kubeletRefusals"] == 0


def test_manifests_can_be_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    [run] = simulated(
        capsys,
        str(EXAMPLES / "eight-gpus.yaml"),
        str(EXAMPLES / "replica.yaml"),
        "--policy",
        "numaware",
        "--limit",
        "3",
    )
    assert run["podsTotal"] == 3


def test_a_stopped_comparison_goes_on_where_it_was(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "runs.jsonl"
    [first] = simulated(capsys, STORY, STORY, "--policy", "kube-scheduler", "--resume", str(kept))
    before = kept.read_bytes()
    assert before.count(b"\n") == 2
    played: list[object] = []
    monkeypatch.setattr("numaware.cli.simulate.run_all", lambda jobs, **_: played.extend(jobs))
    assert simulated(capsys, STORY, STORY, "--policy", "kube-scheduler", "--resume", str(kept)) == [first]
    assert played == []
    assert kept.read_bytes() == before
    other = str(EXAMPLES / "p100.yaml")
    assert main(["simulate", other, other, "--resume", str(kept)]) == 2
    assert "is the journal of another cluster" in capsys.readouterr().err
    assert kept.read_bytes() == before


def test_the_report_is_one_file_and_is_not_there_when_something_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert main(["simulate", STORY, STORY, "--out", str(page)]) == 0
    assert page.read_bytes().startswith(b"<!doctype html>")
    capsys.readouterr()
    assert main(["simulate", STORY, STORY, "--out", str(tmp_path / "none" / "report.html")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html"]


def test_services_are_played_on_a_number_of_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "services.csv"
    columns = (
        "instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,max_instance_per_node"
    )
    path.write_text("\n".join([columns, *(f"i{number},HN,app,8,1,25,40.0,2" for number in range(6))]))
    assert main(["simulate", "dlrm:2", f"dlrm:{path}", "--policy", "numaware", "--json"]) == 0
    [played] = json.loads(capsys.readouterr().out)["runs"]
    assert (played["podsTotal"], played["podsPlaced"]) == (6, 4)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((STORY, STORY, "--policy", "best"), "--policy: 'best' is no policy (known: numaware,"),
        ((STORY, STORY, "--arrive", "0"), "--arrive: 0.0 is not a share of all GPUs"),
        ((STORY, STORY, "--limit", "0"), "--limit: 0 pods are none"),
        ((STORY, STORY, "--workers", "0"), "--workers: 0 processes are none"),
        ((STORY, STORY, "--scope", "pod"), "--scope: is for openb: and dlrm: clusters"),
        (("dlrm:none", STORY), "dlrm:none: is no number of nodes up to 100000"),
        ((STORY, STORY, "--timed"), "--timed: is for openb: and dlrm: traces"),
        ((str(EXAMPLES / "replica.yaml"), STORY), f"{EXAMPLES / 'replica.yaml'}:"),
        (("nowhere.yaml", STORY), "nowhere.yaml: No such file"),
        (("openb:nowhere.csv", STORY), "nowhere.csv: No such file"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert main(["simulate", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"numaware: {told}")
    assert found.err.count("\n") == 1


def test_whatif_says_where_and_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    replica = str(EXAMPLES / "replica.yaml")
    assert main(["whatif", STORY, replica, "--explain", "storage-0"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "0 of 1 pod would find a node" in text
    assert "0/2 nodes are available: 2 node(s) could not align the pod on NUMA nodes (restricted)." in text
    assert "nearest miss: node storage-0 is 4 CPUs and 52 GiB of memory short on NUMA 1" in text
    assert "would be refused by storage-0: TopologyAffinityError" in text
    assert main(["whatif", str(EXAMPLES / "eight-gpus.yaml"), replica, "--count", "3"]) == 0
    assert "3 of 3 pods would find a node" in capsys.readouterr().out


def test_whatif_says_aligned_or_split_and_draws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = str(EXAMPLES / "replica.yaml")
    assert main(["whatif", str(EXAMPLES / "eight-gpus.yaml"), replica]) == 0
    text = capsys.readouterr().out
    assert "→ gpu-0, aligned, on NUMA 0" in " ".join(text.split())
    assert re.search(r"NUMA 0 +▨+◆+□+", text)
    assert "◆ this pod" in text
    assert "3 nodes: would take it, aligned" in text
    wide = tmp_path / "wide.yaml"
    wide.write_text(
        "nodes: [{name: wide, machine: 2x8, kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: '0',"
        " topologyManagerPolicy: best-effort}}]\nworkloads: [{manifest: {apiVersion: v1, kind: Pod,"
        " metadata: {name: held}, spec: {containers: [{name: main, image: x, resources: {limits:"
        " {cpu: 4, memory: 1Gi}}}]}}}, {manifest: {apiVersion: v1, kind: Pod, metadata: {name: held2},"
        " spec: {containers: [{name: main, image: x, resources: {limits: {cpu: 5, memory: 1Gi}}}]}}}]\n",
        encoding="utf-8",
    )
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: asked}\nspec: {containers: [{name: main, image: x,"
        " resources: {limits: {cpu: 5, memory: 1Gi}}}]}\n",
        encoding="utf-8",
    )
    assert main(["whatif", str(wide), str(pod)]) == 0
    text = capsys.readouterr().out
    assert "→ wide, split, on NUMA 0" in " ".join(text.split())
    assert "1 node: would take it, split" in text
    assert main(["whatif", str(wide), str(pod), "--json"]) == 0
    [workload] = json.loads(capsys.readouterr().out)["workloads"]
    assert [workload["pods"][0]["aligned"], workload["nodes"][0]["aligned"]] == [False, False]


def test_whatif_json_has_every_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", str(EXAMPLES / "eight-gpus.yaml"), str(EXAMPLES / "replica.yaml"), "--json"]) == 0
    [workload] = json.loads(capsys.readouterr().out)["workloads"]
    assert [(node["node"], node["fits"]) for node in workload["nodes"]] == [
        ("gpu-0", True),
        ("gpu-1", True),
        ("gpu-2", True),
    ]
    [pod] = workload["pods"]
    assert pod["placement"] == [
        {"zone": "node-0", "amount": {"cpu": 10, "memory": 120 << 30}, "cpus": "2-6,66-70"}
    ]


def test_whatif_takes_amounts_in_the_place_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = str(EXAMPLES / "eight-gpus.yaml")
    assert main(["whatif", cluster, "cpu=8,memory=16Gi,nvidia.com/gpu=1", "--json"]) == 0
    (workload,) = json.loads(capsys.readouterr().out)["workloads"]
    assert (workload["kind"], workload["pods"][0]["aligned"]) == ("Pod", True)
    assert main(["whatif", cluster, "cpu=900"]) == 1
    capsys.readouterr()
    for wrong in ("cpu=x", "cpu=", "a=b=c", "cpu=1,,x"):
        assert main(["whatif", cluster, wrong]) == 2
        assert capsys.readouterr().err.startswith(f"numaware: {wrong}: ")


def test_memory_that_is_only_assumed_is_said_where_pods_ask_for_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "short: each NUMA node is assumed to have 64 GiB of memory; mem= says how much it has"
    file = tmp_path / "lab.yaml"
    workloads = "workloads: [{generate: 2, shapes: [{name: s, limits: {cpu: 1, memory: 1Gi}}]}]"
    file.write_text(
        "nodes: [{name: short, machine: 2x4, count: 2}, {name: told, machine: 2x4 mem=8Gi}]\n" + workloads,
        encoding="utf-8",
    )
    assert main(["whatif", str(file), "cpu=2,memory=1Gi", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [told]
    assert main(["whatif", str(file), "cpu=2,memory=1Gi"]) == 0
    assert f"note: {told}" in " ".join(capsys.readouterr().out.split())
    assert main(["whatif", str(file), "cpu=2"]) == 0
    assert "assumed" not in capsys.readouterr().out
    played = ["simulate", str(file), str(file), "--policy", "numaware", "--workers", "1"]
    assert main(played) == 0
    assert f"note: {told}" in " ".join(capsys.readouterr().out.split())
    assert main([*played, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [told]


def test_the_lab_of_the_console_can_be_played_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """As the Simulate page plays it: the same machines, pods and seed, so the same numbers."""
    (run,) = simulated(capsys, "lab:", "lab:40", "--policy", "numaware", "--seed", "1")
    page = play(machines_of(LabWorld(0).cluster), trace_of(40), "numaware", 1).run
    same = json.loads(msgspec.json.encode(page))
    del same["decisionsPerSecond"]
    assert {key: run[key] for key in same} == same
    for wrong in ("lab:", "lab:0", "lab:x", "lab:99999"):
        assert main(["simulate", "lab:", wrong]) == 2
        assert "write it like lab:600" in capsys.readouterr().err


def test_whatif_knows_no_strange_nodes_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    replica = str(EXAMPLES / "replica.yaml")
    assert main(["whatif", STORY, replica, "--explain", "nobody"]) == 2
    assert "the cluster has no node 'nobody'" in capsys.readouterr().err
    assert main(["whatif", STORY, replica, "--count", "0"]) == 2


def test_a_profile_that_is_nowhere_is_told_with_those_that_ship(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", STORY, STORY, "--profile", "nope"]) == 2
    assert capsys.readouterr().err == (
        "numaware: --profile: 'nope' is neither a profile nor a file (known: default, most-pods, pack, spread)\n"
    )


def test_a_two_tier_mix_is_told_with_what_crosses_before_and_after(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mix = str(EXAMPLES / "two-tier.yaml")
    ours, usual = (run["talk"] for run in simulated(capsys, mix, mix))
    # Spread over half-empty nodes, all who talk fit one NUMA node of theirs.
    assert usual["across"] > usual["planned"] == 0
    assert usual["moves"] > 0
    assert 0 < ours["planned"] < ours["across"] <= ours["total"]
    assert main(["simulate", mix, mix, "--workers", "1", "--lang", "zh"]) == 0
    assert f"{usual['across'] / 1e6:,.0f}" in capsys.readouterr().out
