from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from numaware.cli import main

GOOD = """\
apiVersion: v1
kind: Pod
metadata: {name: good}
spec:
  containers:
  - name: main
    resources: {limits: {cpu: "2", memory: 1Gi}}
"""
FRACTION = GOOD.replace('"2"', '"1.5"').replace("good", "fraction")
BAD_KUBELET = (
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\n"
)
GOOD_KUBELET = f'{BAD_KUBELET}reservedSystemCPUs: "0"\ntopologyManagerPolicy: single-numa-node\n'
CLUSTER = """\
nodes:
- name: a
  count: 3
  machine: 2x4
  kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: "0", topologyManagerPolicy: single-numa-node}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "good.yaml": GOOD,
        "fraction.yaml": FRACTION,
        "large.yaml": GOOD.replace('"2"', '"6"'),
        "bad-kubelet.yaml": BAD_KUBELET,
        "kubelet.yaml": GOOD_KUBELET,
        "cluster.yaml": CLUSTER,
        "broken.yaml": "a: [",
        "service.yaml": "kind: Service\nmetadata: {name: s}\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["lint", *arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return code, document


def codes(document: dict[str, Any]) -> list[str]:
    return [one["code"] for one in document["findings"]]


@pytest.mark.usefixtures("files")
def test_exit_codes_are_none_errors_and_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "good.yaml", "kubelet.yaml", "service.yaml"]) == 0
    assert main(["lint", "fraction.yaml"]) == 0
    assert main(["lint", "bad-kubelet.yaml"]) == 1
    assert main(["lint", "broken.yaml", "bad-kubelet.yaml"]) == 2
    assert main(["lint", "missing.yaml"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].strip() for line in errors] == ["broken.yaml", "missing.yaml"]


@pytest.mark.usefixtures("files")
def test_the_json_says_what_each_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = answer(capsys, "good.yaml", "bad-kubelet.yaml", "service.yaml")
    assert code == 1
    assert document["files"] == [
        {"file": "good.yaml", "kind": "manifest"},
        {"file": "bad-kubelet.yaml", "kind": "kubelet configuration"},
        {"file": "service.yaml", "kind": "other"},
    ]
    assert codes(document) == ["cpu-manager-no-reserved-cpus"]


@pytest.mark.usefixtures("files")
def test_a_broken_file_does_not_hide_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = answer(capsys, "broken.yaml", "bad-kubelet.yaml")
    assert (code, codes(document)) == (2, ["cpu-manager-no-reserved-cpus"])


def test_a_folder_is_all_the_yaml_below_it(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "deep" / "er").mkdir(parents=True)
    (files / "deep" / "er" / "x.yml").write_text(FRACTION)
    (files / "deep" / "notes.txt").write_text("a: [")
    _, document = answer(capsys, "deep")
    assert [one["file"] for one in document["files"]] == ["deep/er/x.yml"]
    assert main(["lint", "deep/er/../../deep/missing"]) == 2
    (files / "empty").mkdir()
    assert main(["lint", "empty"]) == 2


def test_standard_input_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(FRACTION.encode())))
    _, document = answer(capsys, "-")
    assert codes(document) == ["fractional-cpu-not-pinned"]
    assert document["findings"][0]["evidence"][0]["file"] == "standard input"


@pytest.mark.usefixtures("files")
def test_a_pod_is_tried_on_the_nodes_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "good.yaml", "--against", "cluster.yaml")[0] == 0
    code, document = answer(capsys, "large.yaml", "--against", "cluster.yaml")
    assert (code, codes(document)) == (1, ["never-fits"])
    assert document["findings"][0]["facts"]["kinds"][0]["count"] == 3


@pytest.mark.usefixtures("files")
def test_a_machine_and_a_configuration_are_a_node_for_the_pods(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "good.yaml", "kubelet.yaml", "--machine", "2x4")[0] == 0
    code, document = answer(capsys, "large.yaml", "kubelet.yaml", "--machine", "2x4")
    assert (code, codes(document)) == (1, ["never-fits"])
    assert "ask for 4 CPUs instead of 6" in document["findings"][0]["fix"][0]
    assert answer(capsys, "large.yaml", "--machine", "2x4")[0] == 0


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "arguments", [("--machine", "nonsense"), ("--kubelet-version", "2.0"), ("--against", "x")]
)
def test_bad_options_are_one_line(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "good.yaml", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("files")
def test_every_format_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "bad-kubelet.yaml", "--format", "sarif"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [result["ruleId"] for result in document["runs"][0]["results"]] == ["cpu-manager-no-reserved-cpus"]
    assert main(["lint", "bad-kubelet.yaml", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith(
        "::error file=bad-kubelet.yaml,line=3,title=cpu-manager-no-reserved"
    )
    assert main(["lint", "bad-kubelet.yaml"]) == 1
    shown = capsys.readouterr().out
    assert "3 | cpuManagerPolicy: static" in shown
    assert "  |                   ^^^^^^" in shown


@pytest.mark.usefixtures("files")
def test_the_yaml_of_a_fix_keeps_its_indentation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "bad-kubelet.yaml"])
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith("kubeReserved:"))
    assert lines[at + 1].index('cpu: "1"') == lines[at].index("kubeReserved") + 2


@pytest.mark.usefixtures("files")
def test_findings_are_told_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "fraction.yaml", "--lang", "zh"])
    shown = capsys.readouterr().out
    assert "fractional-cpu-not-pinned" in shown
    assert any("\u4e00" <= letter <= "\u9fff" for letter in shown)
