"""Objects of `resource.k8s.io`, v1 as well as v1beta2 and v1beta1, into values.

The versions differ in little: v1beta1 keeps attributes of a device under `basic`, and the fields of a request beside its name,
where later ones have them under `exactly`. One set of wire types takes all three; what is not looked at is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.workload.dra.objects import (
    NUMA_NODE,
    PCIE_ROOT,
    Allotted,
    ClaimSpec,
    ClaimTemplate,
    Constraint,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSlice,
    DraObject,
)
from numaware.workload.manifest import objects
from numaware.workload.yamlfile import Node, documents

GROUP = "resource.k8s.io"
# What drivers called it before there was a standard, and some still do.
_OLD_NUMA_NAMES = ("numaNode", "numaNodeID", "numa")
# A driver in a CEL expression; everything else in it is kube-scheduler's to judge.
_DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([a-z0-9.-]{1,253})[\"']")
_MOST_NUMA = 1 << 16


class Wire(msgspec.Struct, rename="camel"):
    """Part of an object as it is written: camelCase keys, unknown ones passed over."""


class _Metadata(Wire):
    name: str = ""
    namespace: str = ""


class _Attribute(Wire):
    # Of these one is set; lists came with v1.36.
    int_: int | None = msgspec.field(default=None, name="int")
    string: str | None = None
    ints: tuple[int, ...] | None = None
    strings: tuple[str, ...] | None = None


_Attributes = dict[str, _Attribute]


class _Basic(Wire):
    attributes: _Attributes | None = None
    allow_multiple_allocations: bool | None = None


class _Device(Wire):
    name: str
    attributes: _Attributes | None = None
    allow_multiple_allocations: bool | None = None
    basic: _Basic | None = None


class _Pool(Wire):
    name: str = ""
    generation: int = 0


class _SliceSpec(Wire):
    driver: str
    pool: _Pool | None = None
    node_name: str | None = None
    devices: tuple[_Device, ...] | None = None


class SliceWire(Wire):
    """A ResourceSlice."""

    metadata: _Metadata
    spec: _SliceSpec

    @property
    def value(self) -> DeviceSlice:
        spec, pool = self.spec, self.spec.pool or _Pool()
        return DeviceSlice(
            self.metadata.name,
            spec.driver,
            pool.name,
            spec.node_name or "",
            pool.generation,
            tuple(_device(one, spec.driver) for one in spec.devices or ()),
        )


class _Cel(Wire):
    expression: str = ""


class _Selector(Wire):
    cel: _Cel | None = None


class _ClassSpec(Wire):
    selectors: tuple[_Selector, ...] | None = None
    extended_resource_name: str | None = None


class ClassWire(Wire):
    """A DeviceClass."""

    metadata: _Metadata
    spec: _ClassSpec | None = None

    @property
    def value(self) -> DeviceClass:
        spec = self.spec or _ClassSpec()
        words = [one.cel.expression for one in spec.selectors or () if one.cel]
        drivers = {name for text in words for name in _DRIVER.findall(text)}
        return DeviceClass(self.metadata.name, spec.extended_resource_name or "", tuple(sorted(drivers)))


class _Exactly(Wire):
    device_class_name: str = ""
    allocation_mode: str | None = None
    count: int | None = None


class _Request(Wire):
    name: str
    exactly: _Exactly | None = None
    first_available: tuple[_Exactly, ...] | None = None
    device_class_name: str | None = None
    allocation_mode: str | None = None
    count: int | None = None

    @property
    def value(self) -> DeviceRequest:
        inline = _Exactly(self.device_class_name or "", self.allocation_mode, self.count)
        ways = self.first_available or (self.exactly or inline,)
        counts = [None if one.allocation_mode == "All" else max(1, one.count or 1) for one in ways]
        known = [count for count in counts if count is not None]
        names = tuple(dict.fromkeys(one.device_class_name for one in ways if one.device_class_name))
        return DeviceRequest(self.name, names, max(known) if len(known) == len(counts) else None)


class _Constraint(Wire):
    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None


class _Requested(Wire):
    requests: tuple[_Request, ...] | None = None
    constraints: tuple[_Constraint, ...] | None = None


class _ClaimSpec(Wire):
    devices: _Requested | None = None

    @property
    def value(self) -> ClaimSpec:
        devices = self.devices or _Requested()
        return ClaimSpec(
            tuple(one.value for one in devices.requests or ()),
            tuple(
                Constraint(one.match_attribute, one.requests or ())
                for one in devices.constraints or ()
                if one.match_attribute
            ),
        )


class _Result(Wire):
    request: str
    driver: str
    pool: str
    device: str


class _Results(Wire):
    results: tuple[_Result, ...] | None = None


class _Allocation(Wire):
    devices: _Results | None = None

    @property
    def value(self) -> tuple[Allotted, ...]:
        results = self.devices.results if self.devices else None
        return tuple(Allotted(one.request, one.driver, one.pool, one.device) for one in results or ())


class _Consumer(Wire):
    uid: str = ""


class _ClaimStatus(Wire):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] | None = None


class ClaimWire(Wire):
    """A ResourceClaim."""

    metadata: _Metadata
    spec: _ClaimSpec | None = None
    status: _ClaimStatus | None = None

    @property
    def value(self) -> DeviceClaim:
        status = self.status or _ClaimStatus()
        return DeviceClaim(
            self.metadata.namespace or "default",
            self.metadata.name,
            (self.spec or _ClaimSpec()).value,
            status.allocation.value if status.allocation else None,
            tuple(one.uid for one in status.reserved_for or () if one.uid),
        )


class _Template(Wire):
    spec: _ClaimSpec | None = None


class TemplateWire(Wire):
    """A ResourceClaimTemplate."""

    metadata: _Metadata
    spec: _Template | None = None

    @property
    def value(self) -> ClaimTemplate:
        claimed = (self.spec or _Template()).spec or _ClaimSpec()
        return ClaimTemplate(self.metadata.namespace or "default", self.metadata.name, claimed.value)


_KINDS: dict[str, type[SliceWire | ClassWire | ClaimWire | TemplateWire]] = {
    "ResourceSlice": SliceWire,
    "DeviceClass": ClassWire,
    "ResourceClaim": ClaimWire,
    "ResourceClaimTemplate": TemplateWire,
}


def is_of_dra(node: Node, kind: str) -> bool:
    """Whether an object of a file is one of these; `kind` is what it is, or what the list that it is in holds."""
    group = (node.get("apiVersion").text or "").partition("/")[0]
    return kind in _KINDS and group in (GROUP, "")


def read_object(node: Node, kind: str) -> DraObject:
    """One object of a file; ValueError for what is not one."""
    try:
        found = msgspec.convert(node.plain(), type=_KINDS[kind])
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise ValueError(printable(str(error), 300)) from None
    if not found.metadata.name:
        raise ValueError("metadata.name is missing")
    return found.value


def scan(given: list[Node], source: str) -> list[DraObject]:
    """All such objects of a file that has been read; others in it are passed over. `InputError` for one that cannot be read."""
    found = []
    for _, kind, node in objects(given, source):
        if is_of_dra(node, kind):
            try:
                found.append(read_object(node, kind))
            except ValueError as error:
                raise InputError(
                    f"{source}:{node.line}",
                    Sentence("cannot be read as a {kind}: {problem}", kind=kind, problem=str(error)),
                ) from None
    return found


def read_file(data: bytes, source: str) -> list[DraObject]:
    """The same for a file that has to hold some."""
    found = scan(documents(data, source), source)
    if not found:
        raise InputError(
            source,
            Sentence("holds no ResourceSlice, ResourceClaim, ResourceClaimTemplate or DeviceClass"),
            hint="kubectl get resourceslices,resourceclaims,deviceclasses -A -o yaml prints them",
        )
    return found


def _device(wire: _Device, driver: str) -> Device:
    basic = wire.basic or _Basic()
    attributes = wire.attributes or basic.attributes or {}
    roots = next(_named(attributes, PCIE_ROOT, driver, _texts), ())
    numa: tuple[int, ...] = ()
    for name in (NUMA_NODE, *_OLD_NUMA_NAMES):
        numa = next(_named(attributes, name, driver, _numbers), ())
        if numa:
            break
    shared = bool(wire.allow_multiple_allocations or basic.allow_multiple_allocations)
    return Device(wire.name, numa, roots, shared)


def _named(
    attributes: _Attributes, name: str, driver: str, values: Callable[[_Attribute], tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """What the attribute says; one without a domain is the driver's own."""
    for key in (name,) if "/" in name else (f"{driver}/{name}", name):
        if key in attributes and (told := values(attributes[key])):
            yield told


def _numbers(attribute: _Attribute) -> tuple[int, ...]:
    told = (
        attribute.ints if attribute.ints is not None else () if attribute.int_ is None else (attribute.int_,)
    )
    # The kernel's -1 is no NUMA node.
    return tuple(dict.fromkeys(number for number in told if 0 <= number < _MOST_NUMA))


def _texts(attribute: _Attribute) -> tuple[str, ...]:
    if attribute.strings is not None:
        return attribute.strings
    return () if attribute.string is None else (attribute.string,)
