"""What the publishers of other projects report of nodes is read."""

from __future__ import annotations

import pytest

from kube.topology.test_nrt import decode, objects
from support.shared_data import shared


@pytest.mark.parametrize(
    ("file", "policies", "zones"),
    [
        ("api-example-v1alpha1.yaml", [("single-numa-node", None)], [4]),
        ("koordinator-1.yaml", [("single-numa-node", "pod")], [4]),
        ("nfd-topology-updater.yaml", [("single-numa-node", "container")], [3]),
        ("nri-plugins-sample.yaml", [("single-numa-node", None)] * 2, [4, 4]),
        ("scheduler-plugins-worker-node-A.yaml", [("single-numa-node", "container")], [2]),
        ("openshift-two-workers-list.yaml", [("single-numa-node", "container")] * 2, [2, 2]),
    ],
)
def test_objects_of_other_projects_are_read(
    file: str, policies: list[tuple[str, str | None]], zones: list[int]
) -> None:
    text = shared("data", "noderesourcetopology", file).read_bytes()
    reports = [decode(document) for document in objects(text, file)]
    assert [report.problem for report in reports] == [""] * len(policies)
    assert [(report.policy, report.scope) for report in reports] == policies
    assert [len(report.zones) for report in reports] == zones
