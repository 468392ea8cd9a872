"""What scheduler-plugins reads in a NodeResourceTopology object.

Mirrors `nodeconfig/topologymanager.go` and createNUMANodeList of scheduler-plugins (`pkg/noderesourcetopology`,
August 2026). Reading never fails: what it cannot use it passes over without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from numaware.machine import node_topology as published
from numaware.machine.node_topology import OLD_POLICIES, Amount, Attribute, Cost, NodeTopology
from numaware.machine.quantity import Quantity
from numaware.schedule.peers.zones import (
    DEFAULT_MAX_NODES,
    PeerZone,
    Policy,
    Scope,
    Topology,
    TopologyManager,
)
from numaware.workload.pod import Resources

_POLICIES: tuple[Policy, ...] = get_args(Policy)
_SCOPES: tuple[Scope, ...] = get_args(Scope)
_MOST_NODES = 1024
_HIGHEST_ID = 64
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LONGEST_INTEGER = 1000

# The deprecated field names policy and scope in one word; words without a scope mean nothing to the plugin.
_OLD_NAMES = cast(
    "dict[str, tuple[Policy, Scope]]",
    {name: (policy, scope) for name, (policy, scope) in OLD_POLICIES.items() if scope is not None},
)


def read(nrt: NodeTopology) -> Topology:
    """The NUMA nodes and settings that the plugin sees; an amount that is none is a ValueError."""
    zones = numa_zones(nrt)
    # Where an id occurs twice both zones stay, and the costs of the last are those of both.
    costs = {number: _costs(zone.costs) for number, zone in zones}
    return Topology(
        tuple(
            PeerZone(
                number,
                exact({entry.name: entry.available for entry in zone.resources}),
                exact({entry.name: entry.allocatable for entry in zone.resources}),
                costs[number],
            )
            for number, zone in zones
        ),
        settings(nrt.topology_policies, nrt.attributes),
    )


def numa_zones(nrt: NodeTopology) -> list[tuple[int, published.Zone]]:
    """The zones that are NUMA nodes, with their ids, in the order of the object."""
    return [
        (number, zone)
        for zone in nrt.zones
        if zone.type == published.NUMA_ZONE and (number := zone_id(zone.name)) is not None
    ]


def settings(old_policies: Sequence[str], attributes: Sequence[Attribute]) -> TopologyManager:
    """The kubelet's settings: the deprecated field first, then the attributes in order, each valid one winning."""
    policy, scope = _OLD_NAMES.get(old_policies[0] if old_policies else "", ("none", "container"))
    most = DEFAULT_MAX_NODES
    for attribute in attributes:
        match attribute.name:
            case published.POLICY:
                policy = next((known for known in _POLICIES if known == attribute.value), policy)
            case published.SCOPE:
                scope = next((known for known in _SCOPES if known == attribute.value), scope)
            case "topologyManagerMaxNUMANodes":
                number = _integer(attribute.value)
                most = min(number, _MOST_NODES) if number is not None and number > 1 else most
            case _:
                pass
    return TopologyManager(policy, scope, most)


def zone_id(name: str) -> int | None:
    """The NUMA id in `node-<id>`; None for any other name and for ids that the plugin drops.

    Id 64 is let through although the plugin's table ends at 63: whoever uses the zones has to deal with it.
    """
    number = _integer(name.removeprefix("node-")) if name.startswith("node-") else None
    return number if number is not None and 0 <= number <= _HIGHEST_ID else None


def exact(texts: Mapping[str, Amount]) -> Resources:
    """Quantities as exact nano-units, sorted by name."""
    return tuple(sorted((name, quantity(text).nano) for name, text in texts.items()))


def quantity(text: Amount) -> Quantity:
    """A quantity of JSON, whose decoder drops blanks around it; anything below zero is no amount."""
    parsed = Quantity.parse(text.strip() if isinstance(text, str) else text)
    if parsed.nano < 0:
        raise ValueError(f"{parsed} is below zero, and no amount may be")
    return parsed


def _costs(costs: Sequence[Cost]) -> tuple[tuple[int, int], ...]:
    known = {number: cost.value for cost in costs if (number := zone_id(cost.name)) is not None}
    return tuple(sorted(known.items()))


def _integer(text: str) -> int | None:
    """A whole number as Go reads it, leading zeros and a plus sign included."""
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
