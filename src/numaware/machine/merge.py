"""Several sources about one machine, made into one value.

Every source knows a part: `nvidia-smi` the links, `numactl` the distances, sysfs the PCI tree. A fact that one
source has is taken, facts that agree are one, and where two contradict each other the first source wins and
`warnings` says who said what. Sets of CPUs contradict each other only on CPUs that both sources list: a source
that saw a part of the machine (inside a container, say) is incomplete, not wrong.

Things are matched by id, address or name; `merge_devices` first finds what a name without address stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import msgspec

from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.merge_devices import reconcile
from numaware.machine.topology import Cache, HugePages, Link, Machine, NumaNode, ordered_caches

_Item = TypeVar("_Item", bound=msgspec.Struct)
# Two known values, and the CPUs both sides list -> the value that holds both facts, or None if they contradict.
_Join = Callable[[Any, Any, CpuSet], Any]

# Values that say nothing: what a reader leaves where its source is silent.
_SILENT: tuple[object, ...] = (None, "", EMPTY, (), "other", "000000")


class _Source(msgspec.Struct, frozen=True):
    place: int
    name: str
    machine: Machine
    cpus: CpuSet


# A source, and what it says about one thing: the thing itself, or one field of it.
_Claims = Sequence[tuple[_Source, Any]]


class _Settling:
    """Settles fields from what sources say, and gathers contradictions: one about a hundred CPUs becomes one warning."""

    def __init__(self) -> None:
        self._conflicts: dict[tuple[str, str, str, str], dict[object, tuple[object, object]]] = {}

    def warnings(self) -> list[str]:
        said = []
        for (what, field, kept, other), cases in self._conflicts.items():
            key, (mine, theirs) = next(iter(cases.items()))
            more = f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
            subject = f"{what} {key}".strip()
            said.append(
                f"{subject}{more}: {field} is {mine} in {kept} but {theirs} in {other}; {kept} is taken"
            )
        return said

    def value(self, what: str, key: object, field: str, claims: _Claims) -> Any:
        """The value of one field of one thing from what the sources say about it, in their order."""
        known = [(source, value) for source, value in claims if value not in _SILENT]
        if not known:
            return next((value for _, value in claims if value is not None), None)
        first, kept = known[0]
        seen = first.cpus
        for source, value in known[1:]:
            joined = _JOINS.get(field, _equal)(kept, value, seen & source.cpus)
            if joined is None:
                cases = self._conflicts.setdefault((what, field, first.name, source.name), {})
                cases.setdefault(key, (kept, value))
            else:
                kept = joined
            seen |= source.cpus
        return kept

    def field(self, what: str, key: object, field: str, things: _Claims) -> Any:
        """The value of one field from all that sources say about one thing."""
        return self.value(what, key, field, [(source, getattr(thing, field)) for source, thing in things])


def merge(machines: Sequence[tuple[str, Machine]]) -> Machine:
    """One machine with the facts of all; the names are used in warnings."""
    if not machines:
        raise ValueError("nothing to merge")
    if len(machines) == 1:
        return machines[0][1]
    reconciled, doubts = reconcile(machines)
    sources = [
        _Source(place, name, machine, CpuSet(cpu.id for cpu in machine.cpus))
        for place, (name, machine) in enumerate(reconciled)
    ]
    settling = _Settling()
    machines_of = [(source, source.machine) for source in sources]
    whole = {
        field: settling.field("machine", "", field, machines_of)
        for field in ("architecture", "vendor", "product", "model", "isolated", "nohz_full", "memory_bytes")
    }
    counts = [(source, source.machine.stated_core_count) for source in sources]
    whole["stated_core_count"] = settling.value("machine", "", "number of cores", counts)
    cpus = _items(settling, "CPU", [(each, cpu.id, cpu) for each in sources for cpu in each.machine.cpus])
    pci = _items(settling, "PCI", [(each, f.address, f) for each in sources for f in each.machine.pci])
    devices = _items(
        settling, "device", [(each, d.name, d) for each in sources for d in each.machine.devices]
    )
    merged = Machine(
        **whole,
        cpus=tuple(sorted(cpus, key=lambda cpu: cpu.id)),
        caches=_caches(settling, sources),
        numa=_nodes(settling, sources),
        pci=tuple(sorted(pci, key=lambda function: function.address)),
        devices=tuple(devices),
        links=_links(settling, sources),
    )
    own_warnings = [warning for each in sources for warning in each.machine.warnings]
    return msgspec.structs.replace(
        merged, warnings=tuple(dict.fromkeys([*own_warnings, *settling.warnings(), *doubts]))
    )


def _items(settling: _Settling, what: str, listed: Sequence[tuple[_Source, Hashable, _Item]]) -> list[_Item]:
    """Things of one kind, matched by key and merged field by field, in the order they first appear."""
    claims: dict[tuple[Hashable, int], list[tuple[_Source, _Item]]] = {}
    times: dict[tuple[int, Hashable], int] = {}
    for source, key, item in listed:
        # A damaged source may list a key twice; the second one is a thing of its own.
        turn = times[source.place, key] = times.get((source.place, key), -1) + 1
        claims.setdefault((key, turn), []).append((source, item))
    merged = []
    for (key, _), sides in claims.items():
        item = sides[0][1]
        if len(sides) > 1:
            fields = item.__struct_fields__
            item = type(item)(**{field: settling.field(what, key, field, sides) for field in fields})
        merged.append(item)
    return merged


def _nodes(settling: _Settling, sources: Sequence[_Source]) -> tuple[NumaNode, ...]:
    placed = _placement(sources)
    claims: dict[int, list[tuple[_Source, NumaNode]]] = {}
    for source in sources:
        for node in source.machine.numa:
            claims.setdefault(node.id, []).append((source, node))
    return tuple(_node(settling, claims[number], placed[number]) for number in sorted(claims))


def _node(settling: _Settling, sides: Sequence[tuple[_Source, NumaNode]], cpus: CpuSet) -> NumaNode:
    number = sides[0][1].id

    def settle(field: str, values: _Claims) -> Any:
        return settling.value("NUMA node", number, field, values)

    others = sorted({other for _, node in sides for other, _ in node.distances})
    pools_of: dict[int, list[tuple[_Source, HugePages]]] = {}
    for source, node in sides:
        for pool in node.hugepages:
            pools_of.setdefault(pool.size_bytes, []).append((source, pool))
    own = all(node.nearest_cpus in {EMPTY, node.cpus} for _, node in sides)
    near = cpus and own and any(node.nearest_cpus for _, node in sides)
    return NumaNode(
        id=number,
        cpus=cpus,
        memory_bytes=settling.field("NUMA node", number, "memory_bytes", sides),
        hugepages=tuple(
            HugePages(
                size,
                settle(f"number of {size} byte pages", [(source, pool.total) for source, pool in pools]),
                settle(f"number of free {size} byte pages", [(source, pool.free) for source, pool in pools]),
            )
            for size, pools in sorted(pools_of.items())
        ),
        distances=tuple(
            (
                other,
                settle(f"distance to {other}", [(s, dict(node.distances).get(other)) for s, node in sides]),
            )
            for other in others
        ),
        kind=settling.field("NUMA node", number, "kind", sides),
        nearest_cpus=cpus if near else settling.field("NUMA node", number, "nearest_cpus", sides),
        allowed=all(node.allowed for _, node in sides),
    )


def _placement(sources: Sequence[_Source]) -> dict[int, CpuSet]:
    """Node -> CPUs; a later source adds only CPUs that no earlier one has placed (the CPUs' own field warns)."""
    placed: dict[int, CpuSet] = {}
    taken = EMPTY
    for source in sources:
        for node in source.machine.numa:
            placed[node.id] = placed.get(node.id, EMPTY) | (node.cpus - taken)
        for node in source.machine.numa:
            taken |= node.cpus
    return placed


def _caches(settling: _Settling, sources: Sequence[_Source]) -> tuple[Cache, ...]:
    """Caches of one level and type never share a CPU, so that any common CPU tells that two are the same."""
    groups: list[list[tuple[_Source, Cache]]] = []
    exact: dict[tuple[int, str, CpuSet], int] = {}
    holder: dict[tuple[int, str, int], int] = {}
    for source in sources:
        earlier = len(groups)
        for cache in source.machine.caches:
            kind = (cache.level, cache.type)
            places = {holder.get((*kind, cpu), earlier) for cpu in cache.cpus}
            place = exact.get((*kind, cache.cpus), min(places, default=earlier))
            if place >= earlier:
                place = len(groups)
                groups.append([])
            groups[place].append((source, cache))
            exact.setdefault((*kind, cache.cpus), place)
            for cpu in cache.cpus:
                holder.setdefault((*kind, cpu), place)
    return ordered_caches(_cache(settling, sides) for sides in groups)


def _cache(settling: _Settling, sides: Sequence[tuple[_Source, Cache]]) -> Cache:
    first = sides[0][1]
    what = f"L{first.level} {first.type.lower()} cache of CPUs"
    cpus = settling.field(what, first.cpus, "cpus", sides)
    size = settling.value(what, cpus, "size", [(source, cache.size_bytes) for source, cache in sides])
    return Cache(first.level, first.type, cpus, size)


def _links(settling: _Settling, sources: Sequence[_Source]) -> tuple[Link, ...]:
    """Links by their two ends, in either direction."""
    claims: dict[frozenset[str], list[tuple[_Source, Link]]] = {}
    for source in sources:
        for link in source.machine.links:
            claims.setdefault(frozenset((link.a, link.b)), []).append((source, link))
    return tuple(
        Link(first.a, first.b, settling.field("link", f"{first.a} to {first.b}", "type", sides))
        for sides in claims.values()
        for _, first in sides[:1]
    )


def _equal(kept: Any, other: Any, _: CpuSet) -> Any:
    return kept if kept == other else None


def _same_cpus(kept: CpuSet, other: CpuSet, both: CpuSet) -> CpuSet | None:
    return None if (kept ^ other) & both else kept | other


def _same_bytes(kept: int, other: int, _: CpuSet) -> int | None:
    """Equal, or equal in MiB where one side is printed in whole MiB (numactl): then the finer one."""
    whole = 1 << 20
    if kept // whole == other // whole and 0 in {kept % whole, other % whole}:
        return max(kept, other)
    return kept if kept == other else None


def _same_class(kept: str, other: str, _: CpuSet) -> str | None:
    """Equal, or one side does not know the programming interface, the last two digits."""
    if kept[:4] == other[:4] and "00" in {kept[4:], other[4:]}:
        return max(kept, other)
    return kept if kept == other else None


def _both(kept: bool, other: bool, _: CpuSet) -> bool:
    return kept and other


_JOINS: dict[str, _Join] = {
    "siblings": _same_cpus,
    "cpus": _same_cpus,
    "local_cpus": _same_cpus,
    "nearest_cpus": _same_cpus,
    "memory_bytes": _same_bytes,
    "class_code": _same_class,
    "allowed": _both,
}
