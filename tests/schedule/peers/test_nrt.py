from __future__ import annotations

import pytest

from numaware.machine import node_topology
from numaware.machine.node_topology import Attribute
from numaware.schedule.peers.nrt import read, settings, zone_id
from numaware.schedule.peers.zones import TopologyManager
from support.peer_nodes import amounts


def attributes(*pairs: tuple[str, str]) -> list[Attribute]:
    return [Attribute(f"topologyManager{name}", value) for name, value in pairs]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("node-0", 0),
        ("node-07", 7),
        ("node-+3", 3),
        ("node-64", 64),
        ("node-65", None),
        ("node--1", None),
        ("node-", None),
        ("node-x", None),
        ("node- 1", None),
        ("node-1_0", None),
        ("node-\N{ARABIC-INDIC DIGIT ONE}", None),
        ("Node-0", None),
        ("numa-0", None),
        ("0", None),
        ("node-" + "9" * 5000, None),
    ],
)
def test_zone_names_are_read_as_go_reads_numbers(name: str, number: int | None) -> None:
    assert zone_id(name) == number


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [], TopologyManager("none", "container", 8)),
        (["RestrictedPodLevel"], [], TopologyManager("restricted", "pod")),
        (["BestEffortContainerLevel", "RestrictedPodLevel"], [], TopologyManager("best-effort", "container")),
        (["singlenumanodepodlevel"], [], TopologyManager()),
        (["None"], [], TopologyManager()),
        (
            ["SingleNUMANodePodLevel"],
            [("Policy", "restricted")],
            TopologyManager("restricted", "pod"),
        ),
        ([], [("Scope", "pod"), ("Scope", "Pod"), ("Policy", "Restricted")], TopologyManager("none", "pod")),
        ([], [("Policy", "restricted"), ("Policy", "best-effort")], TopologyManager("best-effort")),
        ([], [("MaxNUMANodes", "12"), ("MaxNUMANodes", "1")], TopologyManager(max_nodes=12)),
        ([], [("MaxNUMANodes", " 12")], TopologyManager(max_nodes=8)),
        ([], [("MaxNUMANodes", "5000")], TopologyManager(max_nodes=1024)),
        ([], [("MaxNUMANodes", "9" * 30)], TopologyManager(max_nodes=8)),
    ],
)
def test_attributes_win_over_the_old_field_and_invalid_ones_change_nothing(
    old: list[str], new: list[tuple[str, str]], expected: TopologyManager
) -> None:
    assert settings(old, attributes(*new)) == expected


def test_only_zones_of_type_node_are_numa_nodes_and_their_order_is_kept() -> None:
    found = read(
        node_topology.read(
            {
                "zones": [
                    {"name": "node-1", "type": "Node", "resources": [{"name": "cpu", "available": "1500m"}]},
                    {"name": "socket-0", "type": "Socket"},
                    {"name": "node-2", "type": "node"},
                    {
                        "name": "node-0",
                        "type": "Node",
                        "costs": [{"name": "node-0", "value": 10}, {"name": "node-x", "value": 5}],
                        "resources": [
                            {"name": "cpu", "available": "1", "allocatable": "2"},
                            {"name": "cpu", "available": "3", "allocatable": "4"},
                        ],
                    },
                ]
            }
        ).sound()
    )
    assert [(zone.id, zone.available, zone.allocatable, zone.costs) for zone in found.zones] == [
        (1, amounts({"cpu": "1500m"}), amounts({"cpu": 0}), ()),
        (0, amounts({"cpu": 3}), amounts({"cpu": 4}), ((0, 10),)),
    ]


def test_two_zones_of_one_id_share_the_costs_of_the_last() -> None:
    zones = [
        {"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": cost}]} for cost in (10, 20)
    ]
    found = read(node_topology.read({"zones": zones}).sound())
    assert [zone.costs for zone in found.zones] == [((0, 20),), ((0, 20),)]


@pytest.mark.parametrize("text", ["-1", "many", ""])
def test_what_is_no_amount_is_a_value_error(text: str) -> None:
    zones = [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "available": text}]}]
    with pytest.raises(ValueError, match=r"quantity|below zero"):
        read(node_topology.read({"zones": zones}).sound())
