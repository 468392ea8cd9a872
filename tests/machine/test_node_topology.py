from __future__ import annotations

from typing import Any

import pytest

from numaware.machine.node_topology import (
    Attribute,
    Cost,
    CpuDetail,
    Zone,
    ZoneResource,
    read,
    read_numatopology,
)

CPU = {"name": "cpu", "capacity": "8", "allocatable": 7, "available": "3"}


def zone(**changes: object) -> dict[str, Any]:
    return {"name": "node-0", "type": "Node", "resources": [CPU], **changes}


def test_an_object_of_either_version_is_read_into_the_same_values() -> None:
    new = read(
        {
            "attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}],
            "topologyPolicies": ["SingleNUMANodePodLevel"],
            "zones": [
                zone(costs=[{"name": "node-0", "value": 10}], attributes=[{"name": "a", "value": "b"}])
            ],
        }
    )
    assert new.problems == ()
    assert (new.topology.policy, new.topology.scope) == ("restricted", "pod")
    assert new.topology.zones == (
        Zone(
            "node-0",
            "Node",
            (Cost("node-0", 10),),
            (Attribute("a", "b"),),
            (ZoneResource("cpu", "3", 7, "8"),),
        ),
    )
    old = read({"topologyPolicies": ["SingleNUMANode"], "zones": None, "attributes": None})
    assert (old.topology.policy, old.topology.scope, old.problems) == ("single-numa-node", None, ())


@pytest.mark.parametrize(
    ("name", "kind", "numa"),
    [
        ("node-0", "Node", 0),
        ("node-12", "Node", 12),
        ("node-012", "Node", None),
        ("node-x", "Node", None),
        ("numa-0", "Node", None),
        ("node-0", "Socket", None),
        ("node-" + "9" * 5000, "Node", None),
    ],
)
def test_numa_nodes_are_known_by_type_and_name(name: str, kind: str, numa: int | None) -> None:
    assert Zone(name, kind).numa == numa


@pytest.mark.parametrize(
    ("document", "kept", "problem"),
    [
        ([], [], "the object: expected a dict, got list"),
        ({"zones": {}}, [], "zones: expected a list, got dict"),
        ({"zones": [7, zone()]}, [["cpu"]], "a zone: expected a dict, got int"),
        ({"zones": [{"name": "node-1"}, zone()]}, [["cpu"]], "a zone has no name or no type"),
        ({"zones": [zone(resources="cpu")]}, [[]], "resources of node-0: expected a list, got str"),
        (
            {"zones": [zone(resources=[{"name": "cpu"}, CPU])]},
            [["cpu"]],
            "resources of node-0: Object missing",
        ),
        ({"zones": [zone(resources=[{**CPU, "available": True}])]}, [[]], "resources of node-0: Expected"),
        (
            {"zones": [zone(costs=[{"name": "node-0", "value": 1 << 70}])]},
            [["cpu"]],
            "costs of node-0: Expected `int`",
        ),
        ({"zones": [zone()], "attributes": [{"name": "a"}]}, [["cpu"]], "attributes: Object missing"),
        ({"zones": [zone(resources=[CPU] * 300)]}, [["cpu"] * 256], "lists 300 resources of node-0"),
    ],
)
def test_what_is_odd_is_left_out_and_told_of(document: object, kept: list[list[str]], problem: str) -> None:
    reading = read(document)
    assert [[resource.name for resource in zone.resources] for zone in reading.topology.zones] == kept
    assert reading.problems[0].startswith(problem)
    with pytest.raises(ValueError, match=r"expected|Expected|missing|no name|lists"):
        reading.sound()


def test_problems_are_few_however_much_is_wrong() -> None:
    assert len(read({"zones": [7] * 1000}).problems) == 16


def test_volcanos_objects_are_read_as_far_as_they_make_sense() -> None:
    spec = {
        "policies": {"CPUManagerPolicy": "static", "x": 1},
        "cpuDetail": {"0": {}, "1": {"numa": 1}, "2": 3},
    }
    topology, problems = read_numatopology({"spec": spec})
    assert topology.policies == {"CPUManagerPolicy": "static"}
    assert topology.cpu_detail == {"0": CpuDetail(), "1": CpuDetail(1)}
    assert [problem.split(":")[0] for problem in problems] == ["policies", "cpuDetail"]
    assert read_numatopology(None).topology.cpu_detail == {}


def test_a_document_that_repeats_itself_is_read_in_bounded_time() -> None:
    """A hundred thousand times a zone with as many resources: what is read of it is bounded."""
    resource = {"name": "cpu", "available": 1}
    zone = {"name": "node-0", "type": "Node", "resources": [resource] * 100_000}
    topology = read({"zones": [zone] * 100_000}).topology
    assert len(topology.zones) == 1024
    assert {len(zone.resources) for zone in topology.zones} == {256}
