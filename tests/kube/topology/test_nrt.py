from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.kube.decoding import DecodeError
from numaware.kube.topology import nrt
from numaware.kube.topology.report import Report
from numaware.machine.node_topology import ZoneCounts
from numaware.workload import yamlfile


def amount(name: str, *amounts: object) -> dict[str, object]:
    return {"name": name, **dict(zip(("capacity", "allocatable", "available"), amounts, strict=True))}


def zone(number: int, *resources: dict[str, object], **changes: object) -> dict[str, Any]:
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 10 if number == 0 else 21}, {"name": "node-1", "value": 21}],
        "resources": list(resources) or [amount("cpu", "8", "7", "3"), amount("memory", 1 << 30, 1 << 29, 0)],
        **changes,
    }


def topology(**changes: object) -> dict[str, Any]:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1", "resourceVersion": "5"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "restricted"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [zone(1), zone(0)],
        **changes,
    }


def decode(document: object) -> Report:
    return nrt.decode(msgspec.json.encode(document))


def test_zones_come_in_order_with_whole_amounts() -> None:
    report = decode(topology())
    assert (report.problem, report.node, report.version, report.publisher) == ("", "n1", "5", "unknown")
    assert (report.policy, report.scope) == ("restricted", "pod")
    assert report.zones[0] == ZoneCounts(
        0,
        (("cpu", 8), ("memory", 1 << 30)),
        (("cpu", 7), ("memory", 1 << 29)),
        (("cpu", 3), ("memory", 0)),
        (10, 21),
    )
    assert [found.id for found in report.zones] == [0, 1]


def test_zones_that_are_no_numa_nodes_are_passed_over() -> None:
    balloon = {"name": "balloon 1", "type": "balloon", "attributes": [{"name": "cpuset", "value": "0-3"}]}
    assert len(decode(topology(zones=[balloon, zone(0)])).zones) == 1


def test_distances_that_are_not_all_told_are_not_told() -> None:
    costs = [{"name": "node-0", "value": 10}]
    assert decode(topology(zones=[zone(0, costs=costs), zone(1)])).zones[0].distances == ()


def test_attributes_win_over_the_old_list_of_policies() -> None:
    assert decode(topology(topologyPolicies=["SingleNUMANodePodLevel"])).policy == "restricted"
    old = decode(topology(topologyPolicies=["SingleNUMANodePodLevel"], attributes=None))
    assert (old.policy, old.scope) == ("single-numa-node", "pod")
    assert decode(topology(attributes=None)).policy is None


@pytest.mark.parametrize(
    ("metadata", "publisher"),
    [
        ({"annotations": {"k8stopoawareschedwg/rte-update": "periodic"}}, "rte"),
        ({"ownerReferences": [{"kind": "Namespace", "name": "nfd"}]}, "nfd"),
        ({"labels": {"app.kubernetes.io/managed-by": "Koordinator"}}, "koordinator"),
        ({}, "unknown"),
    ],
)
def test_publishers_are_known_by_what_they_leave(metadata: dict[str, Any], publisher: str) -> None:
    assert decode(topology(metadata={"name": "n1", **metadata})).publisher == publisher


@pytest.mark.parametrize(
    ("attributes", "annotation", "expected"),
    [
        (
            {"nodeTopologyPodsFingerprint": "pfp0v001ef46db3751d8e999"},
            "",
            ("pfp0v001ef46db3751d8e999", "all"),
        ),
        (
            {
                "nodeTopologyPodsFingerprint": "pfp0v001ef46db3751d8e999",
                "nodeTopologyPodsFingerprintMethod": "with-exclusive-resources",
            },
            "",
            ("pfp0v001ef46db3751d8e999", "with-exclusive-resources"),
        ),
        ({}, "pfp0v001ef46db3751d8e999", ("pfp0v001ef46db3751d8e999", "all")),
        (
            {
                "nodeTopologyPodsFingerprint": "pfp0v001ef46db3751d8e999",
                "nodeTopologyPodsFingerprintMethod": "some",
            },
            "",
            ("", "all"),
        ),
        ({"nodeTopologyPodsFingerprint": "pfp9"}, "", ("", "all")),
    ],
)
def test_a_fingerprint_counts_only_if_its_kind_is_known(
    attributes: dict[str, str], annotation: str, expected: tuple[str, str]
) -> None:
    report = decode(
        topology(
            metadata={"name": "n1", "annotations": {"topology.node.k8s.io/fingerprint": annotation}},
            attributes=[{"name": name, "value": value} for name, value in attributes.items()],
        )
    )
    assert (report.fingerprint, report.method) == expected


CPU = amount("cpu", 8, 7, 3)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"zones": [zone(0), zone(3)]}, "NUMA ids have gaps (0, 3)"),
        ({"zones": [zone(0, amount("cpu", 8, 7, -1))]}, "available of cpu of node-0 is below zero: -1"),
        (
            {"zones": [zone(0, amount("cpu", 8, 7, 9))]},
            "available 9, allocatable 7 and capacity 8 do not ascend",
        ),
        ({"zones": [zone(0, amount("cpu", 8, 9, 7))]}, "do not ascend"),
        (
            {"zones": [zone(0, amount("cpu", "8", "7500m", "3"))]},
            "allocatable of cpu of node-0 is not a whole number",
        ),
        (
            {"zones": [zone(0, amount("cpu", "8", "many", "3"))]},
            "allocatable of cpu of node-0: 'many' is not a quantity",
        ),
        ({"zones": [zone(0, CPU, amount("a.b/c", 10**9, 1, 1))]}, "1000000000 are more than any machine has"),
        ({"zones": [zone(0, CPU, CPU)]}, "zone node-0 lists cpu twice"),
        ({"zones": [zone(0), zone(0)]}, "zone node-0 is listed twice"),
        ({"zones": [zone(0, resources=[])]}, "zone node-0 lists no resources"),
        ({"zones": [zone(0, amount("memory", 1, 1, 1))]}, "no zone lists cpu"),
        ({"zones": [zone(0, name="numa0")]}, "zone 'numa0' is no NUMA node"),
        ({"zones": []}, "lists no zone of type Node"),
        ({"zones": [zone(number) for number in range(10_000)]}, "lists 10000 zones, which no machine has"),
        ({"zones": [zone(number) for number in range(17)]}, "has 17 NUMA nodes; at most 16"),
        ({"zones": [zone(0, costs=[{"name": "node-0", "value": -10}])]}, "the cost to node-0 is -10"),
        (
            {"zones": [zone(0, *(amount(f"a.b/{n}", 1, 1, 1) for n in range(300)))]},
            "lists 300 resources of node-0, which no machine has",
        ),
        ({"zones": None}, "lists no zone of type Node"),
        ({"zones": "garbage"}, "zones: expected a list, got str"),
        (
            {"attributes": [{"name": "topologyManagerPolicy", "value": "strict"}]},
            "unknown topologyManagerPolicy 'strict'",
        ),
        (
            {"attributes": [{"name": "topologyManagerScope", "value": "rack"}]},
            "unknown topologyManagerScope 'rack'",
        ),
        (
            {"attributes": None, "topologyPolicies": ["Sometimes"]},
            "unknown policy 'Sometimes' in topologyPolicies",
        ),
        (
            {"attributes": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]},
            "attribute a has two values",
        ),
    ],
)
def test_an_object_that_makes_no_sense_is_one_problem_of_its_node(
    changes: dict[str, Any], problem: str
) -> None:
    report = decode(topology(**changes))
    assert problem in report.problem
    assert (report.node, report.zones, report.complete) == ("n1", (), None)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"metadata": {}}', b'{"metadata": {"name": ""}}', b"\xff"]
)
def test_what_names_no_node_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        nrt.decode(raw)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.data())
def test_odd_content_never_gets_past_the_report(data: st.DataObject) -> None:
    document = topology()
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(_JSON | st.sampled_from(["-1", "1e99", "0.5", -1, 1 << 70, "node-7"]))
    try:
        report = decode(document)
    except DecodeError:
        assert document["metadata"] != {"name": "n1", "resourceVersion": "5"}
        return
    assert bool(report.problem) != bool(report.zones)
    assert "\n" not in report.problem


# As their publishers write them: numbers or text, the list of policies or attributes, alone or many in a file.
OLD = """
---
apiVersion: topology.node.k8s.io/v1alpha1
kind: NodeResourceTopology
metadata: {name: old}
topologyPolicies: [%s]
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: 12, allocatable: 10, available: 7}]}
- {name: node-1, type: Node, resources: [{name: cpu, capacity: 12, allocatable: 12, available: 0}]}
---
"""
LIST = """
apiVersion: v1
kind: List
items:
- apiVersion: topology.node.k8s.io/v1alpha2
  kind: NodeResourceTopology
  metadata: {name: new, resourceVersion: "77"}
  attributes:
  - {name: topologyManagerPolicy, value: best-effort}
  - {name: topologyManagerScope, value: container}
  zones:
  - name: node-0
    type: Node
    costs: [{name: node-0, value: 10}]
    resources:
    - {name: memory, capacity: "68719476736", allocatable: "64Gi", available: "1Gi"}
    - {name: hugepages-1Gi, capacity: "2147483648", allocatable: 2Gi, available: "0"}
    - {name: cpu, capacity: "12", allocatable: "10", available: "7"}
"""


@pytest.mark.parametrize(
    ("text", "policies", "zones"),
    [
        (OLD % "SingleNUMANode", [("single-numa-node", None)], [2]),
        (OLD % "SingleNUMANodePodLevel", [("single-numa-node", "pod")], [2]),
        (OLD % "RestrictedContainerLevel", [("restricted", "container")], [2]),
        (OLD % "None" + OLD % "BestEffort", [("none", None), ("best-effort", None)], [2, 2]),
        (LIST, [("best-effort", "container")], [1]),
    ],
)
def test_objects_are_read_as_files_hold_them(
    text: str, policies: list[tuple[str, str | None]], zones: list[int]
) -> None:
    reports = [decode(document) for document in objects(text.encode(), "made")]
    assert [report.problem for report in reports] == [""] * len(policies)
    assert [(report.policy, report.scope) for report in reports] == policies
    assert [len(report.zones) for report in reports] == zones


def test_amounts_may_be_numbers_or_text() -> None:
    (old,), (new,) = (
        [decode(one) for one in objects(text.encode(), "made")] for text in (OLD % "None", LIST)
    )
    assert old.zones[0].available == new.zones[0].available[:1] == (("cpu", 7),)
    assert new.zones[0].allocatable == (("cpu", 10), ("hugepages-1Gi", 2 << 30), ("memory", 64 << 30))


def objects(text: bytes, source: str) -> list[Any]:
    found = [node.plain() for node in yamlfile.documents(text, source) if node.value is not None]
    return [item for document in found for item in document.get("items", [document])]
