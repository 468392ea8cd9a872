"""Manifests and kubelet configurations that other projects published get what their index says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main
from numaware.diagnose.rules.lint import lint
from numaware.workload import manifest
from numaware.workload.demand import exclusive_cpus
from numaware.workload.qos import qos_class
from support.shared_data import ROOT, shared

CONFIGS = sorted(path.name for path in (ROOT / "data" / "kubelet-configs").glob("*.yaml"))
PODS = sorted(path.name for path in (ROOT / "data" / "pods").glob("*.yaml"))


def entry(folder: str, name: str) -> dict[str, Any]:
    index = json.loads(shared("data", folder, "index.json").read_text())
    (found,) = (one for one in index if one["file"] == name)
    assert isinstance(found, dict)
    return found


def linted(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    code = main(["lint", str(path), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert isinstance(findings, list)
    return code, findings


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_configuration_is_in_order_or_not_as_its_index_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, findings = linted(shared("data", "kubelet-configs", name), capsys)
    valid = entry("kubelet-configs", name)["valid"]
    if valid is not None:
        assert code == (0 if valid else 1), findings
    if valid:
        assert [one for one in findings if one["severity"] != "info"] == []


def test_static_memory_without_a_reservation_is_told_with_the_sum_that_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = shared("data", "kubelet-configs", "memory-static-no-reservation-bad.yaml")
    (one,) = linted(path, capsys)[1]
    assert one["code"] == "memory-manager-reserved-memory-mismatch"
    assert one["evidence"][0]["line"] == 1
    assert (one["facts"]["found"], one["facts"]["wanted"]) == ("0", "100Mi")


def test_the_settings_of_an_exporter_are_no_kubelet_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = linted(shared("data", "kubelet-configs", "rte-only-topology-keys.yaml"), capsys)[1]
    assert one["code"] == "not-a-kubelet-configuration"


@pytest.mark.parametrize("name", PODS)
def test_a_published_pod_is_told_apart_by_what_the_kubelet_would_do_with_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared("data", "pods", name)
    codes = {one["code"] for one in linted(path, capsys)[1]}
    found = manifest.scan(path.read_bytes(), name)
    pods = [workload.pod for workload in found.workloads]
    guaranteed = [pod for pod in pods if qos_class(pod) == "Guaranteed"]
    assert ("not-guaranteed" in codes) == (len(guaranteed) < len(pods))
    assert ("fractional-cpu-not-pinned" in codes) == any(
        not exclusive_cpus(container) for pod in guaranteed for container in pod.in_order
    )
    assert ("manifest-invalid" in codes) == (
        "not a valid Kubernetes name" in entry("pods", name).get("note", "")
    )


@pytest.mark.parametrize(
    ("folder", "name"), [*(("kubelet-configs", name) for name in CONFIGS), *(("pods", name) for name in PODS)]
)
def test_diagnose_says_the_same_of_a_file(folder: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared("data", folder, name)
    _, findings = linted(path, capsys)
    main(["diagnose", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["findings"] == findings


def test_every_finding_points_at_a_line_of_its_file() -> None:
    for folder, names in (("kubelet-configs", CONFIGS), ("pods", PODS)):
        for name in names:
            path = shared("data", folder, name)
            lines = path.read_text().splitlines()
            for one in lint(path.read_bytes(), name).findings:
                assert one.evidence
                for place in one.evidence:
                    assert lines[place.line - 1].rstrip() == place.text
                    assert place.mark in place.text
