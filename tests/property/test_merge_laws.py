"""Merging sources about one machine loses nothing, invents nothing, and settles nothing in silence."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.machine.codec import to_builtins
from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.merge import merge
from numaware.machine.topology import Cpu, Device, Machine, NumaNode, PciDevice
from property.strategies import machines


@st.composite
def parts(draw: st.DrawFn) -> tuple[Machine, Machine, Machine]:
    """A machine and two sources that each know a part of it: some fields blank, some things left out."""
    whole = msgspec.structs.replace(draw(machines()), warnings=())
    return whole, _part(draw, whole), _part(draw, whole)


def _part(draw: st.DrawFn, whole: Machine) -> Machine:
    def some(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(item for item in items if draw(st.booleans()))

    def blank(item: Any, **unknown: object) -> Any:
        hidden = {field: value for field, value in unknown.items() if draw(st.booleans())}
        return msgspec.structs.replace(item, **hidden)

    cpus = tuple(
        blank(cpu, package=None, die=None, core=None, cluster=None, numa=None, siblings=EMPTY, kind=None)
        for cpu in some(whole.cpus)
    )
    known: Machine = blank(
        msgspec.structs.replace(
            whole,
            cpus=cpus,
            caches=tuple(blank(cache, size_bytes=None) for cache in some(whole.caches)),
            numa=tuple(_part_of_node(draw, node) for node in some(whole.numa)),
            pci=tuple(blank(function, driver=None, numa=None, vendor="") for function in some(whole.pci)),
            devices=tuple(blank(device, cpus=None, numa=None) for device in some(whole.devices)),
            links=some(whole.links),
        ),
        architecture=None,
        vendor=None,
        memory_bytes=None,
        isolated=EMPTY,
    )
    return known


def _part_of_node(draw: st.DrawFn, node: NumaNode) -> NumaNode:
    cpus = CpuSet(cpu for cpu in node.cpus if draw(st.booleans()))
    return msgspec.structs.replace(
        node,
        cpus=cpus,
        nearest_cpus=cpus if node.cpus else draw(st.sampled_from([EMPTY, node.nearest_cpus])),
        memory_bytes=draw(st.sampled_from([None, node.memory_bytes])),
        distances=tuple(pair for pair in node.distances if draw(st.booleans())),
        hugepages=tuple(pool for pool in node.hugepages if draw(st.booleans())),
    )


def unordered(machine: Machine) -> dict[str, Any]:
    """Everything but the order of devices and links, which is that of the sources, and the direction of links."""
    document = to_builtins(machine)
    document["devices"].sort(key=lambda device: device["name"])
    document["links"] = sorted((*sorted((link["a"], link["b"])), link["type"]) for link in document["links"])
    return document


def facts(machine: Machine) -> set[tuple[Any, ...]]:
    """The single facts that a machine holds; sets of CPUs are one fact for each CPU."""
    found: set[tuple[Any, ...]] = {
        (field, getattr(machine, field))
        for field in ("architecture", "vendor", "product", "model", "memory_bytes", "stated_core_count")
    }
    for cpu in machine.cpus:
        found |= _facts_of(Cpu, cpu.id, cpu)
    for node in machine.numa:
        found |= _facts_of(NumaNode, node.id, node)
    for function in machine.pci:
        found |= _facts_of(PciDevice, function.address, function)
    for device in machine.devices:
        found |= _facts_of(Device, device.name, device)
    for cache in machine.caches:
        found |= {("cache", cache.level, cache.type, cache.cpus, cache.size_bytes)}
    found |= {("link", frozenset((link.a, link.b)), link.type) for link in machine.links}
    return {fact for fact in found if fact[-1] is not None}


def _facts_of(kind: type, key: object, item: msgspec.Struct) -> set[tuple[Any, ...]]:
    found: set[tuple[Any, ...]] = set()
    for field in item.__struct_fields__:
        value = getattr(item, field)
        if isinstance(value, CpuSet):
            found |= {(kind, key, field, cpu) for cpu in value}
        elif isinstance(value, tuple):
            found |= {(kind, key, field, each) for each in value}
        elif value not in {None, "", "other"} and field != "allowed":
            found.add((kind, key, field, value))
    return found


@settings(max_examples=50)
@given(machines())
def test_one_source_is_the_machine(machine: Machine) -> None:
    assert merge([("a", machine)]) == machine


@settings(max_examples=50)
@given(machines())
def test_a_source_adds_nothing_to_itself(machine: Machine) -> None:
    machine = msgspec.structs.replace(machine, warnings=tuple(dict.fromkeys(machine.warnings)))
    assert merge([("a", machine), ("b", machine)]) == machine


@settings(max_examples=40)
@given(parts())
def test_the_order_of_sources_that_agree_does_not_matter(known: tuple[Machine, Machine, Machine]) -> None:
    whole, a, b = known
    there = merge([("a", a), ("whole", whole), ("b", b)])
    assert there.warnings == ()
    assert unordered(there) == unordered(merge([("b", b), ("a", a), ("whole", whole)]))
    assert unordered(merge([("a", a), ("b", b)])) == unordered(merge([("b", b), ("a", a)]))


@settings(max_examples=40)
@given(parts())
def test_parts_add_nothing_to_the_whole(known: tuple[Machine, Machine, Machine]) -> None:
    whole, a, b = known
    assert merge([("whole", whole), ("a", a), ("b", b)]) == whole


@settings(max_examples=40)
@given(parts())
def test_no_fact_of_sources_that_agree_is_lost_or_invented(known: tuple[Machine, Machine, Machine]) -> None:
    _, a, b = known
    assert facts(merge([("a", a), ("b", b)])) == facts(a) | facts(b)


@settings(max_examples=40)
@given(machines(), machines())
def test_what_is_not_taken_is_told(a: Machine, b: Machine) -> None:
    merged = merge([("first", a), ("second", b)])
    for cpu in b.cpus:
        kept = next(each for each in merged.cpus if each.id == cpu.id)
        for field in ("online", "package", "core", "numa", "kind"):
            value = getattr(cpu, field)
            if value is not None and getattr(kept, field) != value:
                assert any(f" {field} is " in text and "in first but" in text for text in merged.warnings)
