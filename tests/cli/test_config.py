from __future__ import annotations

import json
from pathlib import Path

import pytest

from numaware.cli import main
from numaware.machine import codec, synthetic
from numaware.twin import kubelet_config
from support.made_machine import two_nodes, write

RECOMMEND = ("config", "recommend")


def test_the_file_is_a_kubelet_configuration_and_passes_lint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "kubelet.yaml"
    machine = "2s x 1n x 8c x 2t +gpu@0,1"
    assert main([*RECOMMEND, "--workload", "ai-training", "--machine", machine, "-o", str(out)]) == 0
    assert kubelet_config.read(out.read_bytes(), "f").config.topology_policy == "restricted"
    assert main(["lint", str(out), "--machine", machine, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_a_machine_can_be_named_in_three_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = tmp_path / "m.json"
    topology.write_bytes(codec.encode(synthetic.read("2x8")))
    tree = write(tmp_path / "tree", two_nodes())
    for arguments, cpus in (([str(topology)], 16), (["--machine", "2x8"], 16), (["--root", str(tree)], 8)):
        assert main([*RECOMMEND, "--workload", "mixed", "--json", *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["machine"]["cpus"] == cpus


def test_the_json_holds_the_configuration_the_reasons_and_the_proof(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*RECOMMEND, "--workload", "latency", "--machine", "2x8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kubeletConfiguration"]["kind"] == "KubeletConfiguration"
    fields = [setting["field"] for setting in document["settings"]]
    assert fields == [key for key in document["kubeletConfiguration"] if key not in ("apiVersion", "kind")]
    assert all(setting["why"] for setting in document["settings"])
    assert document["proof"]["admitted"] is True


def test_memory_that_is_only_assumed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*RECOMMEND, "--workload", "latency", "--machine"]
    assert main([*asked, "2x8"]) == 0
    told = capsys.readouterr().out
    assert "64 GiB for each NUMA node are assumed" in " ".join(told.replace("#", "").split())
    topology = tmp_path / "m.json"
    topology.write_bytes(codec.encode(synthetic.read("2x8")))
    for known in ("2x8 mem=64Gi", str(topology)):
        assert main([*asked, known]) == 0
        assert "assumed" not in capsys.readouterr().out
    main(["lint", "--machine", "2x8", str(topology)])
    assert "--machine: each NUMA node is assumed to have 64 GiB" in capsys.readouterr().err


def test_the_version_is_the_kubelets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECOMMEND, "--workload", "latency", "--machine", "2x8", "--version", "v1.28"]) == 0
    assert "strict-cpu-reservation: " not in capsys.readouterr().out.replace("# ", "").split("apiVersion")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--machine", "2x8", "--root", "/"),
        ("--machine", "nonsense"),
        ("--machine", "2x8", "--version", "v2"),
        ("missing.json",),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECOMMEND, "--workload", "mixed", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unknown_workload_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECOMMEND, "--workload", "games", "--machine", "2x8"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
