"""NodeResourceTopology objects (topology.node.k8s.io), as every publisher of them writes them.

An object holds zones with resources, and attributes; v1alpha1 had a list of policies instead of attributes, which newer
objects keep for old readers. What is wrong with an object is told in the report and goes no further: publishers are
programs of others, and one bad object is one node that is not placed by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import msgspec

from numaware.kube.decoding import DecodeError, Metadata, Reader, Wire, node_owner
from numaware.kube.topology import complete
from numaware.kube.topology.fingerprint import Method
from numaware.kube.topology.machine import MOST_NUMA
from numaware.kube.topology.report import Publisher, Report, ZoneReport
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.workload.demand import Amounts, is_memory

POLICY, SCOPE = "topologyManagerPolicy", "topologyManagerScope"
FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
_OLD_FINGERPRINT = "topology.node.k8s.io/fingerprint"
# The kind of zone that is a NUMA node; publishers may add others (sockets, groups of CPUs), which are not looked at.
NUMA_ZONE = "Node"
ZONE_NAME = "node-"
# Far more zones and resources than any publisher writes.
_MOST_ZONES = 1024
_MOST_RESOURCES = 256
# CPUs and devices are looked at one by one.
_MOST_THINGS = 1 << 16
_LARGEST_DISTANCE = 1 << 31

_SCOPES = ("container", "pod")
_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
# What `topologyPolicies` may say, and what that is in the kubelet's words: policy, and scope where it tells.
OLD_POLICIES: dict[str, tuple[str, str | None]] = {
    "None": ("none", None),
    "BestEffort": ("best-effort", None),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "Restricted": ("restricted", None),
    "RestrictedContainerLevel": ("restricted", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "SingleNUMANode": ("single-numa-node", None),
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
}
_METHODS: tuple[Method, ...] = get_args(Method)
_FINGERPRINT_FORM = re.compile(r"pfp0v001[0-9a-f]{16}")
_ZONE_FORM = re.compile(rf"{ZONE_NAME}(0|[1-9][0-9]{{0,4}})")


def decode(raw: bytes | msgspec.Raw) -> Report:
    """The report of one object; `DecodeError` only if not even the name of its node can be read."""
    name = _NRT.name_of(raw)
    try:
        wire = _NRT.read(raw)
    except DecodeError as error:
        return Report(name, "", "unknown", problem=error.message)
    publisher = _publisher(wire)
    try:
        return _report(wire, publisher)
    except ValueError as error:
        return Report(
            name,
            wire.metadata.resource_version,
            publisher,
            problem=printable(" ".join(str(error).split()), 400),
        )


def _report(wire: _Topology, publisher: Publisher) -> Report:
    attributes = _named_values(wire.attributes or ())
    policy, scope = _policy(attributes, wire.topology_policies or ())
    ours = complete.decode(attributes)
    signature = attributes.get(FINGERPRINT) or (wire.metadata.annotations or {}).get(_OLD_FINGERPRINT, "")
    method = next((known for known in _METHODS if attributes.get(METHOD, "all") == known), None)
    return Report(
        node=wire.metadata.name,
        version=wire.metadata.resource_version,
        publisher=publisher,
        zones=() if ours else _zones(wire.zones),
        policy=policy,
        scope=scope,
        # A fingerprint of a kind that is not known says nothing.
        fingerprint=signature if method and _FINGERPRINT_FORM.fullmatch(signature) else "",
        method=method or "all",
        complete=ours,
        owner=node_owner(wire.metadata),
    )


def _named_values(attributes: Iterable[_Attribute]) -> dict[str, str]:
    found: dict[str, str] = {}
    for attribute in attributes:
        if found.setdefault(attribute.name, attribute.value) != attribute.value:
            raise ValueError(f"attribute {printable(attribute.name, 80)} has two values")
    return found


def _policy(attributes: Mapping[str, str], old: Sequence[str]) -> tuple[str | None, str | None]:
    """Policy and scope of the Topology Manager; attributes win over the list of old."""
    policy, scope = None, None
    if old:
        if old[0] not in OLD_POLICIES:
            raise ValueError(f"unknown policy {printable(old[0], 80)!r} in topologyPolicies")
        policy, scope = OLD_POLICIES[old[0]]
    policy, scope = attributes.get(POLICY, policy), attributes.get(SCOPE, scope)
    for what, value, known in ((POLICY, policy, _POLICIES), (SCOPE, scope, _SCOPES)):
        if value is not None and value not in known:
            raise ValueError(f"unknown {what} {printable(value, 80)!r} (known: {', '.join(known)})")
    return policy, scope


def _zones(wire: Sequence[_ZoneWire]) -> tuple[ZoneReport, ...]:
    if len(wire) > _MOST_ZONES:
        raise ValueError(f"lists {len(wire)} zones, which no machine has")
    found: dict[int, _ZoneWire] = {}
    for zone in wire:
        if zone.type != NUMA_ZONE:
            continue
        match = _ZONE_FORM.fullmatch(zone.name)
        if match is None:
            raise ValueError(
                f"zone {printable(zone.name, 80)!r} is no NUMA node (expected a name such as node-0)"
            )
        if int(match[1]) in found:
            raise ValueError(f"zone {zone.name} is listed twice")
        found[int(match[1])] = zone
    if not found:
        raise ValueError("lists no zone of type Node")
    if len(found) > MOST_NUMA:
        raise ValueError(f"has {len(found)} NUMA nodes; at most {MOST_NUMA} can be placed by")
    ids = sorted(found)
    if ids != list(range(len(ids))):
        # Publishers count distances without gaps, and where ids have some nobody can tell what they belong to.
        raise ValueError(f"NUMA ids have gaps ({', '.join(map(str, ids[:8]))})")
    zones = tuple(_zone(number, found[number], ids) for number in ids)
    if not any(name == "cpu" for zone in zones for name, _ in zone.capacity):
        raise ValueError("no zone lists cpu")
    return zones


def _zone(number: int, wire: _ZoneWire, ids: Sequence[int]) -> ZoneReport:
    if not wire.resources:
        raise ValueError(f"zone {wire.name} lists no resources")
    if len(wire.resources) > _MOST_RESOURCES:
        raise ValueError(f"zone {wire.name} lists {len(wire.resources)} resources, which no node has")
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    available: dict[str, int] = {}
    for resource in wire.resources:
        name = resource.name
        if name in capacity:
            raise ValueError(f"zone {wire.name} lists {printable(name, 80)} twice")
        where = f"{printable(name, 80)} of {wire.name}"
        capacity[name] = _whole(resource.capacity, f"capacity of {where}")
        allocatable[name] = _whole(resource.allocatable, f"allocatable of {where}")
        available[name] = _whole(resource.available, f"available of {where}")
        if capacity[name] > _MOST_THINGS and not is_memory(name):
            raise ValueError(f"{where}: {capacity[name]} are more than any machine has")
        if not available[name] <= allocatable[name] <= capacity[name]:
            raise ValueError(
                f"{where}: available {available[name]}, allocatable {allocatable[name]} and capacity {capacity[name]} "
                "do not ascend"
            )
    return ZoneReport(
        number, _sorted(capacity), _sorted(allocatable), _sorted(available), _distances(wire.costs or (), ids)
    )


def _whole(text: str | int, what: str) -> int:
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if quantity.nano < 0:
        raise ValueError(f"{what} is below zero: {quantity}")
    if quantity.milli_value != 1000 * quantity.value:
        raise ValueError(f"{what} is not a whole number: {quantity}")
    return quantity.value


def _distances(costs: Sequence[_Cost], ids: Sequence[int]) -> tuple[int, ...]:
    """The distances to all zones, or nothing where some are not told."""
    found = {cost.name: cost.value for cost in costs}
    for cost in costs:
        if not 0 <= cost.value <= _LARGEST_DISTANCE:
            raise ValueError(f"the cost to {printable(cost.name, 80)} is {cost.value}, which is no distance")
    names = [f"{ZONE_NAME}{number}" for number in ids]
    return tuple(found[name] for name in names) if found.keys() >= set(names) else ()


def _publisher(wire: _Topology) -> Publisher:
    metadata = wire.metadata
    if any(attribute.name == complete.FORMAT for attribute in wire.attributes or ()):
        return "numaware"
    if any(name.startswith("k8stopoawareschedwg/") for name in metadata.annotations or {}):
        return "rte"
    if (metadata.labels or {}).get("app.kubernetes.io/managed-by") == "Koordinator":
        return "koordinator"
    # NFD makes its namespace the owner, and nobody else does.
    if any(owner.kind == "Namespace" for owner in metadata.owner_references or ()):
        return "nfd"
    return "unknown"


def _sorted(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted(amounts.items()))


class _Attribute(Wire):
    name: str
    value: str


class _Cost(Wire):
    name: str
    value: int


class _Resource(Wire):
    name: str
    capacity: str | int
    allocatable: str | int
    available: str | int


class _ZoneWire(Wire):
    name: str
    type: str
    costs: tuple[_Cost, ...] | None = None
    resources: tuple[_Resource, ...] | None = None


class _Topology(Wire):
    metadata: Metadata
    zones: tuple[_ZoneWire, ...]
    topology_policies: tuple[str, ...] | None = None
    attributes: tuple[_Attribute, ...] | None = None


_NRT = Reader("NodeResourceTopology", _Topology)
