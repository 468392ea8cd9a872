from __future__ import annotations

from typing import Any

import msgspec
import pytest

from numaware.kube.decoding import DecodeError, OwnerReference
from numaware.kube.topology import volcano
from numaware.kube.topology.report import Report
from numaware.twin.node import Node
from support.twin_nodes import admitted, config, machine, pod

SPEC: dict[str, Any] = {
    "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"},
    "resReserved": {"cpu": "1500m"},
    "numares": {"cpu": {"allocatable": "0-1,3-7", "capacity": 8}},
    # Zeros are left out by the writer.
    "cpuDetail": {
        "0": {},
        "1": {},
        "2": {"core": 1},
        "3": {"core": 1},
        "4": {"numa": 1, "core": 2},
        "5": {"numa": 1, "core": 2},
        "6": {"numa": 1, "core": 3},
        "7": {"numa": 1, "core": 3},
    },
}


def decode(**changes: object) -> Report:
    return volcano.decode(msgspec.json.encode({"metadata": {"name": "n1"}, "spec": {**SPEC, **changes}}))


def test_cpus_are_counted_per_numa_node_without_those_of_the_system() -> None:
    report = decode()
    assert report.problem == ""
    assert (report.policy, report.scope, report.cpu_policy, report.threads) == (
        "restricted",
        None,
        "static",
        2,
    )
    assert [zone.capacity for zone in report.zones] == [(("cpu", 4),), (("cpu", 4),)]
    assert [zone.allocatable for zone in report.zones] == [(("cpu", 2),), (("cpu", 4),)]
    assert [zone.available for zone in report.zones] == [(("cpu", 1),), (("cpu", 4),)]


def test_without_a_cpu_manager_there_is_nothing_to_hand_out() -> None:
    report = decode(policies={"CPUManagerPolicy": "none", "TopologyManagerPolicy": "none"})
    assert [zone.allocatable for zone in report.zones] == [(("cpu", 0),), (("cpu", 0),)]


def test_what_we_write_volcano_and_we_read_back() -> None:
    node = admitted(
        Node.fresh(machine(2, 8, threads=2), config("restricted")), pod("first", 3), pod("second", 2)
    )
    document = volcano.encode(
        "n1", node, owner=OwnerReference("Node", "n1", "u", "v1"), timestamp="2026-11-15T12:00:00Z"
    )
    spec = document["spec"]
    assert document["metadata"]["annotations"] == {"timestamp": "2026-11-15T12:00:00Z"}
    assert spec["policies"] == {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}
    assert spec["resReserved"] == {"cpu": "1"}
    assert spec["cpuDetail"]["3"] == {"numa": 0, "socket": 0, "core": 2}
    assert [entry["name"] for entry in spec["podAllocations"]] == ["first", "second"]
    first = spec["podAllocations"][0]["containerAllocations"]
    assert first == [{"name": "app", "allocations": {"cpu": "1-3"}}]
    # The system's CPU is among those that nobody owns: the reader takes it off.
    assert spec["numares"]["cpu"] == {"allocatable": "0,6-15", "capacity": 16}
    report = volcano.decode(msgspec.json.encode(document))
    assert [dict(zone.available)["cpu"] for zone in report.zones] == [2, 8]
    assert [dict(zone.allocatable)["cpu"] for zone in report.zones] == [7, 8]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"policies": {"TopologyManagerPolicy": "strict"}}, "unknown TopologyManagerPolicy 'strict'"),
        ({"policies": {"CPUManagerPolicy": "dynamic"}}, "unknown CPUManagerPolicy 'dynamic'"),
        ({"cpuDetail": {}}, "cpuDetail lists no CPU"),
        ({"cpuDetail": {"-1": {}}}, "'-1' in cpuDetail is no CPU"),
        ({"cpuDetail": {"99999": {}}}, "'99999' in cpuDetail is no CPU"),
        ({"cpuDetail": {"0": {"core": -1}}}, "CPU 0 sits on a NUMA node, socket or core below zero"),
        ({"cpuDetail": {"0": {}, "1": {"numa": 3}}}, "NUMA ids have gaps (0, 3)"),
        ({"cpuDetail": {str(n): {"numa": n} for n in range(40)}}, "has 40 NUMA nodes"),
        ({"numares": {}}, "numares lists no cpu"),
        ({"numares": {"cpu": {"allocatable": "0-63"}}}, "CPUs 8-63 are in numares and not in cpuDetail"),
        ({"numares": {"cpu": {"allocatable": "some"}}}, "'some' is not a CPU list"),
        ({"resReserved": {"cpu": "64"}}, "resReserved: "),
        ({"resReserved": {"cpu": "few"}}, "'few' is not a quantity"),
        ({"cpuDetail": 7}, "cpuDetail: expected a dict, got int"),
    ],
)
def test_an_object_that_makes_no_sense_is_one_problem_of_its_node(
    changes: dict[str, object], problem: str
) -> None:
    report = decode(**changes)
    assert problem in report.problem
    assert (report.node, report.publisher, report.zones) == ("n1", "volcano", ())


def test_what_names_no_node_is_refused() -> None:
    with pytest.raises(DecodeError):
        volcano.decode(b"{}")
