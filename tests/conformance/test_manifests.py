"""Manifests that other projects published, against facts taken from their text by other means."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from numaware.machine.quantity import Quantity
from numaware.workload.manifest import read
from numaware.workload.qos import qos_class
from support.shared_data import ROOT, shared

FILES = sorted(path.name for path in (ROOT / "data" / "pods").glob("*.yaml"))


def test_there_are_samples_and_all_are_tried() -> None:
    listed = json.loads(shared("data", "pods", "index.json").read_text())
    assert sorted(entry["file"] for entry in listed) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_published_manifest_is_read(name: str) -> None:
    path = shared("data", "pods", name)
    manifest = read(path.read_bytes(), name)
    assert [problem for problem in manifest.problems if problem.severity == "error"] == []
    expected = [spec for document in yaml.safe_load_all(path.read_text()) for spec in pod_specs(document)]
    assert len(manifest.workloads) == len(expected)
    for workload, spec in zip(manifest.workloads, expected, strict=True):
        equal = []
        for container, written in zip(workload.pod.containers, spec["containers"], strict=True):
            limits = amounts(written["resources"].get("limits", {}))
            requests = limits | amounts(written["resources"].get("requests", {}))
            assert container.name == written["name"]
            assert dict(container.limits) == limits
            assert dict(container.requests) == requests
            equal.append({"cpu", "memory"} <= set(limits) and requests == limits)
        assert (qos_class(workload.pod) == "Guaranteed") == all(equal)


@pytest.mark.parametrize("name", FILES)
def test_each_recorded_line_holds_the_amount_it_stands_for(name: str) -> None:
    path = shared("data", "pods", name)
    lines = path.read_text().splitlines()
    seen = 0
    for workload in read(path.read_bytes(), name).workloads:
        for field, line in workload.lines:
            resource = re.fullmatch(r".*\.(?:limits|requests)\[(.*)\]", field)
            if resource:
                assert lines[line - 1].strip().startswith(f"{resource[1]}:")
                seen += 1
    assert seen == sum(amount_lines(path))


def amount_lines(path: Path) -> list[int]:
    """How many amounts each pod spec of a file names."""
    return [
        len(container["resources"].get(kind, {}))
        for document in yaml.safe_load_all(path.read_text())
        for spec in pod_specs(document)
        for container in spec["containers"]
        for kind in ("limits", "requests")
    ]


def amounts(written: dict[str, object]) -> dict[str, int]:
    return {name: Quantity.parse(str(text)).nano for name, text in written.items()}


def pod_specs(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Pod specs by the plain reading of the few kinds among the samples."""
    spec = document.get("spec", {})
    if "containers" in spec:
        return [spec]
    if "tasks" in spec:
        return [task["template"]["spec"] for task in spec["tasks"]]
    return [spec["template"]["spec"]] if "template" in spec else []
