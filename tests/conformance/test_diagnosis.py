"""Evidence that other people published gets the diagnosis its side file names, through the command itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main
from support.shared_data import ROOT, shared

LOGS = sorted(path.stem for path in (ROOT / "data" / "kubelet-logs").glob("*.log"))
CONFIGS = sorted(path.name for path in (ROOT / "data" / "kubelet-configs").glob("*.yaml"))
STATES = (
    sorted(path.name for path in (ROOT / "data" / "kubelet-state").iterdir() if path.name != "index.json")
    if (ROOT / "data" / "kubelet-state").is_dir()
    else []
)
PODS = sorted(path.name for path in (ROOT / "data" / "pods").glob("*.yaml"))
FINE = ("healthy", "aligned", "noise")


def diagnosed(capsys: pytest.CaptureFixture[str], *paths: Path) -> tuple[int, dict[str, Any], str]:
    code = main(["diagnose", *map(str, paths), "--json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, json.loads(captured.out), captured.out


def index(folder: str, name: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = json.loads(shared("data", folder, "index.json").read_text())
    return next(entry for entry in entries if entry["file"] == name)


def test_there_is_evidence_of_each_kind() -> None:
    shared("data", "kubelet-logs")
    assert LOGS
    assert CONFIGS
    assert STATES
    assert PODS


@pytest.mark.parametrize("name", LOGS)
def test_a_log_gets_its_diagnosis(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    side = json.loads(shared("data", "kubelet-logs", f"{name}.json").read_text())["diagnosis"]
    code, document, text = diagnosed(capsys, shared("data", "kubelet-logs", f"{name}.log"))
    codes = [finding["code"] for finding in document["findings"]]
    if side["code"] == "noise":
        assert codes == []
    else:
        assert side["code"] in codes
    assert code == int(side["code"] not in FINE)
    missing = [fact for fact in side["must_mention"] if fact.lower() not in text.lower()]
    assert missing == []


@pytest.mark.parametrize("name", LOGS)
def test_every_finding_of_a_log_can_be_looked_up_and_acted_on(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared("data", "kubelet-logs", f"{name}.log")
    lines = path.read_text().splitlines()
    _, document, _ = diagnosed(capsys, path)
    for finding in document["findings"]:
        assert finding["evidence"]
        for line in finding["evidence"]:
            assert line["text"] in lines[line["line"] - 1]
        assert finding["severity"] == "info" or finding["fix"]
        assert "?" not in finding["title"]


def test_a_refused_pod_is_never_called_admitted_nor_the_other_way_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in LOGS:
        side = json.loads(shared("data", "kubelet-logs", f"{name}.json").read_text())
        _, document, _ = diagnosed(capsys, shared("data", "kubelet-logs", f"{name}.log"))
        told = [one["title"] for one in document["findings"] if one["subject"]["kind"] == "Pod"]
        refused = any(" was refused" in title for title in told)
        if side["pod_admitted"] is not None:
            assert refused == (not side["pod_admitted"]), name


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_is_judged_as_its_index_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, document, _ = diagnosed(capsys, shared("data", "kubelet-configs", name))
    errors = [finding for finding in document["findings"] if finding["severity"] == "error"]
    valid = index("kubelet-configs", name)["valid"]
    if valid is not None:
        assert bool(errors) == (not valid)


@pytest.mark.parametrize("name", STATES)
def test_a_state_file_is_recognised_and_a_right_checksum_is_no_trouble(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = index("kubelet-state", name)
    code, document, _ = diagnosed(capsys, shared("data", "kubelet-state", name))
    assert [file["kind"] for file in document["files"]] == [entry["kind"]]
    if entry.get("checksum_valid"):
        assert code == 0
        assert [finding["code"] for finding in document["findings"]] == ["healthy"]


@pytest.mark.parametrize("name", PODS)
def test_a_manifest_is_recognised_and_its_advice_is_about_its_own_pods(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, document, _ = diagnosed(capsys, shared("data", "pods", name))
    assert [file["kind"] for file in document["files"]] == ["manifest"]
    text = shared("data", "pods", name).read_text()
    for finding in document["findings"]:
        assert finding["subject"]["name"] in text


def test_all_evidence_together_is_one_answer(capsys: pytest.CaptureFixture[str]) -> None:
    folders = [shared("data", folder) for folder in ("kubelet-logs", "kubelet-state", "numactl", "pods")]
    code, document, _ = diagnosed(capsys, *folders)
    assert code == 1
    assert len(document["files"]) == sum(len(list(folder.iterdir())) for folder in folders)


class TestTheFirstSeed:
    """An evening lost: pods destroyed and recreated, and a log nobody reads."""

    @pytest.fixture
    def document(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        (path,) = shared("seeds").glob("000_*")
        return diagnosed(capsys, path)[1]

    def test_the_cause_is_that_cpu_and_memory_exclude_each_other(self, document: dict[str, Any]) -> None:
        (one,) = [one for one in document["findings"] if one["code"].endswith("disjoint-hints")]
        assert one["subject"]["name"] == "vmstorage-common-15"
        assert "cpu can be had only on NUMA node 1" in one["cause"]
        assert "memory can be had only on NUMA node 0" in one["cause"]
        assert one["facts"]["twin"] == "confirmed"
        assert one["facts"]["policy"] == "single-numa-node"

    def test_the_remedy_is_less_or_room_or_another_place(self, document: dict[str, Any]) -> None:
        (one,) = [one for one in document["findings"] if one["code"].endswith("disjoint-hints")]
        fixes = " ".join(one["fix"])
        assert "smaller" in fixes
        assert "cpu on NUMA node 0 or memory on NUMA node 1" in fixes
        assert "scheduler" in fixes

    def test_the_recreation_loop_is_told_with_its_pace(self, document: dict[str, Any]) -> None:
        (one,) = [one for one in document["findings"] if one["code"] == "admission-loop"]
        assert one["subject"]["name"] == "vmstorage-common-15"
        assert one["facts"]["count"] >= 2
        assert one["facts"]["reason"] == "TopologyAffinityError"
        assert 0 < one["facts"]["period"] < 1
        assert len(one["facts"]["uids"]) == 2


class TestTheSecondSeed:
    """Three pods that ask for more than one NUMA node has left, under best-effort."""

    @pytest.fixture
    def by_pod(self, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
        (path,) = shared("seeds").glob("001_*")
        document = diagnosed(capsys, path)[1]
        return {
            one["subject"]["name"]: one for one in document["findings"] if one["subject"]["kind"] == "Pod"
        }

    def test_sixteen_cpus_spread_although_the_merge_is_called_preferred(
        self, by_pod: dict[str, dict[str, Any]]
    ) -> None:
        one = by_pod["16cpu-numa-batch-pod"]
        assert one["code"] == "cpu-spread-over-nodes-under-best-effort"
        assert one["facts"]["cpus"] == "1-13,17-19"
        assert one["facts"]["twin"] == "confirmed"

    def test_two_gpus_on_two_nodes_are_not_aligned(self, by_pod: dict[str, dict[str, Any]]) -> None:
        one = by_pod["2gpu-numa-batch-pod"]
        assert one["code"] == "unaligned-under-best-effort"
        assert one["facts"]["merged"] == "{11 false}"

    def test_cpus_and_gpus_both_span_the_nodes(self, by_pod: dict[str, dict[str, Any]]) -> None:
        one = by_pod["16cpu-2gpu-numa-kubebatch-pod"]
        assert one["code"] == "unaligned-under-best-effort"
        assert "nvidia.com/gpu could do with fewer NUMA nodes" in one["cause"]
        assert "cpu needs NUMA node 0 and node 1 even on an empty machine" in one["cause"]
