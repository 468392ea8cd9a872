"""What a node's topology objects say: NodeResourceTopology (topology.node.k8s.io) and Volcano's Numatopology, as values.

`read` and `read_numatopology` take an object as JSON or YAML decodes it. They are the only readers of these shapes and
never fail: whatever is odd is left out and listed as a problem. Caches of a live cluster (`kube/topology`) do not place by
an object with problems, a diagnosis uses what is left of it, and the models of other schedulers (`schedule/peers`) make of
it what those schedulers do.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from numaware.machine.words import printable

POLICY, SCOPE = "topologyManagerPolicy", "topologyManagerScope"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES = ("container", "pod")
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
CPU_MANAGER_POLICY, TOPOLOGY_MANAGER_POLICY = "CPUManagerPolicy", "TopologyManagerPolicy"
# The kind of zone that is a NUMA node; publishers may add others (sockets, groups of CPUs).
NUMA_ZONE = "Node"
# Every set of NUMA nodes is looked at, in memory that doubles with each: one object must not stop a whole scheduler.
MOST_NUMA = 16
# Far more than any publisher writes.
_MOST_ZONES = 1024
_MOST_IN_ZONE = 256
_MOST_CPUS = 1 << 16
_MOST_PROBLEMS = 16
_ZONE_NAME = re.compile(r"node-(0|[1-9][0-9]{0,4})")

# An amount as JSON carries it, and (resource, whole CPUs, bytes or devices) pairs ascending by resource.
Amount = str | int | float
Amounts = tuple[tuple[str, int], ...]
_Value = TypeVar("_Value")


def zone_name(numa: int) -> str:
    """The name of the zone that is a NUMA node."""
    return f"node-{numa}"


class Attribute(msgspec.Struct, frozen=True):
    """A name and a value, both free text."""

    name: str
    value: str


class Cost(msgspec.Struct, frozen=True):
    """The distance to another zone."""

    name: str
    value: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class ZoneResource(msgspec.Struct, frozen=True):
    """One resource of a zone: what there is, what could be handed out, what is left of that."""

    name: str
    available: Amount
    allocatable: Amount = 0
    capacity: Amount = 0


class Zone(msgspec.Struct, frozen=True, omit_defaults=True):
    """A zone of any type."""

    name: str
    type: str
    costs: tuple[Cost, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    resources: tuple[ZoneResource, ...] = ()

    @property
    def numa(self) -> int | None:
        """The id of the NUMA node that the zone is, None if it is none."""
        match = _ZONE_NAME.fullmatch(self.name) if self.type == NUMA_ZONE else None
        return int(match[1]) if match else None


class NodeTopology(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A NodeResourceTopology without its metadata: v1alpha1 had `topology_policies`, v1alpha2 has `attributes` as well."""

    zones: tuple[Zone, ...] = ()
    topology_policies: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()

    def attribute(self, name: str) -> str | None:
        """The value of an attribute, None where there is none."""
        return next((attribute.value for attribute in self.attributes if attribute.name == name), None)

    @property
    def policy(self) -> str | None:
        """The Topology Manager's policy: attributes win over the list of old."""
        return self.attribute(POLICY) or self._old[0]

    @property
    def scope(self) -> str | None:
        """The Topology Manager's scope, found as the policy is."""
        return self.attribute(SCOPE) or self._old[1]

    @property
    def _old(self) -> tuple[str | None, str | None]:
        return OLD_POLICIES.get(self.topology_policies[0] if self.topology_policies else "", (None, None))


class ZoneCounts(msgspec.Struct, frozen=True):
    """One NUMA node as published, in whole CPUs, bytes and devices; `distances` to all zones in order of id."""

    id: int
    capacity: Amounts
    allocatable: Amounts
    available: Amounts
    distances: tuple[int, ...] = ()


class CpuDetail(msgspec.Struct, frozen=True):
    """Where Volcano's agent says that a CPU sits; zeros are left out on the wire."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class CpuList(msgspec.Struct, frozen=True):
    """The CPUs that nobody owns as a list, and how many there are in all."""

    allocatable: str = ""
    capacity: int = 0


class Numatopology(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Numatopology: the managers' policies, what the system keeps, free CPUs, and where each CPU sits."""

    policies: dict[str, str] = {}
    res_reserved: dict[str, str] = {}
    numares: dict[str, CpuList] = {}
    cpu_detail: dict[str, CpuDetail] = {}


class Reading(NamedTuple, Generic[_Value]):
    """What could be read of an object, and what is wrong with the rest of it."""

    topology: _Value
    problems: tuple[str, ...]

    def sound(self) -> _Value:
        """The topology if nothing is wrong with it; `ValueError` with the first problem otherwise."""
        if self.problems:
            raise ValueError(self.problems[0])
        return self.topology


def read(document: object) -> Reading[NodeTopology]:
    """A NodeResourceTopology of any version."""
    problems = _Problems()
    fields = problems.mapping(document, "the object")
    zones = []
    for item in problems.items(fields.get("zones"), "zones", _MOST_ZONES):
        zone = problems.mapping(item, "a zone")
        name, kind = zone.get("name"), zone.get("type")
        if not isinstance(name, str) or not isinstance(kind, str):
            problems.add("a zone has no name or no type")
            continue
        of = f"of {printable(name, 80)}"
        costs = problems.values(zone.get("costs"), Cost, f"costs {of}")
        attributes = problems.values(zone.get("attributes"), Attribute, f"attributes {of}")
        resources = problems.values(zone.get("resources"), ZoneResource, f"resources {of}")
        zones.append(Zone(name, kind, costs, attributes, resources))
    policies = problems.values(fields.get("topologyPolicies"), str, "topologyPolicies")
    attributes = problems.values(fields.get("attributes"), Attribute, "attributes")
    return Reading(NodeTopology(tuple(zones), policies, attributes), tuple(problems))


def read_numatopology(document: object) -> Reading[Numatopology]:
    """A Numatopology."""
    problems = _Problems()
    spec = problems.mapping(problems.mapping(document, "the object").get("spec"), "spec")
    topology = Numatopology(
        problems.members(spec.get("policies"), str, "policies"),
        problems.members(spec.get("resReserved"), str, "resReserved"),
        problems.members(spec.get("numares"), CpuList, "numares"),
        problems.members(spec.get("cpuDetail"), CpuDetail, "cpuDetail"),
    )
    return Reading(topology, tuple(problems))


class _Problems(list[str]):
    """Parts of an object as the types they should be; what is not of its type is left out and told of."""

    def add(self, problem: str) -> None:
        if len(self) < _MOST_PROBLEMS:
            self.append(printable(problem, 400))

    def mapping(self, value: object, what: str) -> dict[str, Any]:
        mapping: dict[str, Any] = self._of(dict, value, what)
        return mapping

    def items(self, value: object, what: str, most: int) -> list[Any]:
        items: list[Any] = self._of(list, value, what)
        if len(items) > most:
            self.add(f"lists {len(items)} {what}, which no machine has")
        return items[:most]

    def values(self, value: object, kind: type[_Value], what: str) -> tuple[_Value, ...]:
        """The items of a list that are of a kind."""
        items = self.items(value, what, _MOST_IN_ZONE)
        return tuple(made for item in items if (made := self._made(item, kind, what)) is not None)

    def members(self, value: object, kind: type[_Value], what: str) -> dict[str, _Value]:
        """The members of a mapping that are of a kind."""
        mapping = self.mapping(value, what)
        if len(mapping) > _MOST_CPUS:
            self.add(f"lists {len(mapping)} {what}, which no machine has")
            return {}
        made = {name: self._made(item, kind, what) for name, item in mapping.items()}
        return {name: member for name, member in made.items() if member is not None}

    def _made(self, item: object, kind: type[_Value], what: str) -> _Value | None:
        try:
            return msgspec.convert(item, kind)
        except msgspec.ValidationError as error:
            self.add(f"{what}: {error}")
            return None

    def _of(self, kind: type[Any], value: object, what: str) -> Any:
        """The value where it is of the kind; Go writes what is empty as null."""
        if value is not None and type(value) is not kind:
            self.add(f"{what}: expected a {kind.__name__}, got {type(value).__name__}")
            return kind()
        return value or kind()
