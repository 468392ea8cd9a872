"""NodeResourceTopology objects of a live cluster, as every publisher of them writes them, into reports.

What is wrong with an object is told in the report and goes no further: publishers are programs of others, and one bad
object is one node that is not placed by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from numaware.kube.decoding import DecodeError, Metadata, Reader, Wire, node_owner
from numaware.kube.topology import complete
from numaware.kube.topology.fingerprint import Method
from numaware.kube.topology.report import Publisher, Report, check_numa_ids
from numaware.machine.node_topology import (
    NUMA_ZONE,
    OLD_POLICIES,
    POLICIES,
    POLICY,
    SCOPE,
    SCOPES,
    Amount,
    Attribute,
    Cost,
    NodeTopology,
    Zone,
    ZoneCounts,
    read,
    zone_name,
)
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.workload.demand import is_memory

FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
_OLD_FINGERPRINT = "topology.node.k8s.io/fingerprint"
# CPUs and devices are looked at one by one.
_MOST_THINGS = 1 << 16
_LARGEST_DISTANCE = 1 << 31

_METHODS: tuple[Method, ...] = get_args(Method)
_FINGERPRINT_FORM = re.compile(r"pfp0v001[0-9a-f]{16}")


class _Object(Wire):
    metadata: Metadata
    zones: Any = None
    topology_policies: Any = None
    attributes: Any = None


_NRT = Reader("NodeResourceTopology", _Object)


def decode(raw: bytes | msgspec.Raw) -> Report:
    """The report of one object; `DecodeError` only if not even the name of its node can be read."""
    name = _NRT.name_of(raw)
    try:
        wire = _NRT.read(raw)
    except DecodeError as error:
        return Report(name, "", "unknown", problem=error.message)
    metadata = wire.metadata
    document = {"topologyPolicies": wire.topology_policies, "attributes": wire.attributes}
    reading = read(document)
    if reading.topology.attribute(complete.FORMAT) is None:
        # Our own attributes say all that the zones do.
        reading = read({**document, "zones": wire.zones})
    publisher = _publisher(metadata, reading.topology)
    try:
        return _report(metadata, reading.sound(), publisher)
    except ValueError as error:
        problem = printable(" ".join(str(error).split()), 400)
        return Report(name, metadata.resource_version, publisher, problem=problem)


def _report(metadata: Metadata, topology: NodeTopology, publisher: Publisher) -> Report:
    attributes = _named_values(topology.attributes)
    _check_policy(topology)
    ours = complete.decode(attributes)
    signature = attributes.get(FINGERPRINT) or (metadata.annotations or {}).get(_OLD_FINGERPRINT, "")
    method = next((known for known in _METHODS if attributes.get(METHOD, "all") == known), None)
    return Report(
        node=metadata.name,
        version=metadata.resource_version,
        publisher=publisher,
        zones=() if ours else _counts(topology),
        policy=topology.policy,
        scope=topology.scope,
        # A fingerprint of a kind that is not known says nothing.
        fingerprint=signature if method and _FINGERPRINT_FORM.fullmatch(signature) else "",
        method=method or "all",
        complete=ours,
        owner=node_owner(metadata),
    )


def _named_values(attributes: Sequence[Attribute]) -> dict[str, str]:
    values: dict[str, str] = {}
    for attribute in attributes:
        if values.setdefault(attribute.name, attribute.value) != attribute.value:
            raise ValueError(f"attribute {printable(attribute.name, 80)} has two values")
    return values


def _check_policy(topology: NodeTopology) -> None:
    old = topology.topology_policies
    if old and old[0] not in OLD_POLICIES:
        raise ValueError(f"unknown policy {printable(old[0], 80)!r} in topologyPolicies")
    for what, value, known in ((POLICY, topology.policy, POLICIES), (SCOPE, topology.scope, SCOPES)):
        if value is not None and value not in known:
            raise ValueError(f"unknown {what} {printable(value, 80)!r} (known: {', '.join(known)})")


def _counts(topology: NodeTopology) -> tuple[ZoneCounts, ...]:
    """What each NUMA node has; `ValueError` for zones that no kubelet could be behind."""
    zones: dict[int, Zone] = {}
    for zone in topology.zones:
        if zone.type != NUMA_ZONE:
            continue
        if zone.numa is None:
            raise ValueError(
                f"zone {printable(zone.name, 80)!r} is no NUMA node (expected a name such as node-0)"
            )
        if zones.setdefault(zone.numa, zone) is not zone:
            raise ValueError(f"zone {zone.name} is listed twice")
    if not zones:
        raise ValueError("lists no zone of type Node")
    check_numa_ids(zones)
    ids = sorted(zones)
    counts = tuple(_zone_counts(number, zones[number], ids) for number in ids)
    if not any(name == "cpu" for zone in counts for name, _ in zone.capacity):
        raise ValueError("no zone lists cpu")
    return counts


def _zone_counts(number: int, zone: Zone, ids: Sequence[int]) -> ZoneCounts:
    if not zone.resources:
        raise ValueError(f"zone {zone.name} lists no resources")
    counts: dict[str, tuple[int, int, int]] = {}
    for resource in zone.resources:
        name = resource.name
        if name in counts:
            raise ValueError(f"zone {zone.name} lists {printable(name, 80)} twice")
        where = f"{printable(name, 80)} of {zone.name}"
        capacity = _whole(resource.capacity, f"capacity of {where}")
        allocatable = _whole(resource.allocatable, f"allocatable of {where}")
        available = _whole(resource.available, f"available of {where}")
        if capacity > _MOST_THINGS and not is_memory(name):
            raise ValueError(f"{where}: {capacity} are more than any machine has")
        if not available <= allocatable <= capacity:
            raise ValueError(
                f"{where}: available {available}, allocatable {allocatable} and capacity {capacity} do not ascend"
            )
        counts[name] = capacity, allocatable, available
    capacities, allocatables, availables = (
        tuple((name, parts[part]) for name, parts in sorted(counts.items())) for part in range(3)
    )
    return ZoneCounts(number, capacities, allocatables, availables, _distances(zone.costs, ids))


def _whole(text: Amount, what: str) -> int:
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if quantity.nano < 0:
        raise ValueError(f"{what} is below zero: {quantity}")
    if quantity.milli_value != 1000 * quantity.value:
        raise ValueError(f"{what} is not a whole number: {quantity}")
    return quantity.value


def _distances(costs: Sequence[Cost], ids: Sequence[int]) -> tuple[int, ...]:
    """The distances to all zones, or nothing where some are not told."""
    for cost in costs:
        if not 0 <= cost.value <= _LARGEST_DISTANCE:
            raise ValueError(f"the cost to {printable(cost.name, 80)} is {cost.value}, which is no distance")
    values: Mapping[str, int] = {cost.name: cost.value for cost in costs}
    names = [zone_name(number) for number in ids]
    return tuple(values[name] for name in names) if values.keys() >= set(names) else ()


def _publisher(metadata: Metadata, topology: NodeTopology) -> Publisher:
    if topology.attribute(complete.FORMAT) is not None:
        return "numaware"
    if any(name.startswith("k8stopoawareschedwg/") for name in metadata.annotations or {}):
        return "rte"
    if (metadata.labels or {}).get("app.kubernetes.io/managed-by") == "Koordinator":
        return "koordinator"
    # NFD makes its namespace the owner, and nobody else does.
    if any(owner.kind == "Namespace" for owner in metadata.owner_references or ()):
        return "nfd"
    return "unknown"
