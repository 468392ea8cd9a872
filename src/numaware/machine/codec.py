"""A `Machine` as JSON and back: the stable shape that scripts and other programs read.

`encode` writes keys in one fixed order and nothing but what the value holds, so that equal machines give
equal bytes. `decode` takes its own output, or what a person cut down from it: unknown fields are ignored,
missing ones take the model's defaults, and derived ones (packages, counts) are never read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from numaware.errors import InputError
from numaware.machine.cpuset import EMPTY, MAX_ID, CpuSet
from numaware.machine.topology import (
    Bytes,
    Cache,
    Cpu,
    Device,
    HugePages,
    Link,
    Machine,
    MemoryKind,
    NumaNode,
    PciDevice,
)

# Sizes up to this many bytes cover a 65,536-CPU machine; more is not a topology.
MAX_JSON_BYTES = 64 << 20

_Numbered = TypeVar("_Numbered", Cpu, NumaNode)
# What is written only where it is not this.
_LEFT_OUT = {"cluster": None, "allowed": True}
_PAGE_SUFFIXES = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def encode(machine: Machine) -> bytes:
    """The machine as indented UTF-8 JSON with a final newline."""
    document = to_builtins(machine)
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_as_text(document))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def to_builtins(machine: Machine) -> dict[str, Any]:
    """The machine as plain dictionaries and lists, in the documented shape."""
    document: dict[str, Any] = {
        "machine": {
            "architecture": machine.architecture,
            "vendor": machine.vendor,
            "product": machine.product,
        },
        "cpus": _plain(machine.cpus),
        "packages": _plain(machine.packages),
        "coreCount": machine.core_count,
        "cpuCount": len(machine.online),
        "caches": _plain(machine.caches),
        "numa": [_node(node) for node in machine.numa],
        "pci": _plain(machine.pci),
        "devices": _plain(machine.devices),
        "links": _plain(machine.links),
        "memoryBytes": machine.memory_bytes,
        "offlineCpus": str(machine.offline),
        "isolatedCpus": str(machine.isolated),
        "nohzFullCpus": str(machine.nohz_full),
        "warnings": list(machine.warnings),
    }
    if machine.model is not None:
        document["machine"]["model"] = machine.model
    if machine.stated_core_count is not None:
        document["statedCoreCount"] = machine.stated_core_count
    return document


def _as_text(value: Any) -> Any:
    """The same with valid text only: the name of a device or a file in a capture may be any bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _as_text(item) for name, item in value.items()}
    return [_as_text(item) for item in value] if isinstance(value, list) else value


def page_size_name(size_bytes: int) -> str:
    """A page size as Kubernetes writes it in `hugepages-2Mi`."""
    for suffix, unit in _PAGE_SUFFIXES:
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{suffix}"
    return str(size_bytes)


def page_size_bytes(name: str) -> int:
    """The inverse of `page_size_name`."""
    digits, factor = name, 1
    for suffix, unit in _PAGE_SUFFIXES:
        if name.endswith(suffix):
            digits, factor = name.removesuffix(suffix), unit
    if digits.isascii() and digits.isdecimal() and len(digits) <= 16:
        return int(digits) * factor
    raise ValueError(f"{name[:40]!r} is not a page size (expected a form such as 2Mi or 1Gi)")


def _plain(values: Iterable[msgspec.Struct]) -> list[dict[str, Any]]:
    """Values by the names and in the order of their fields."""
    plain = (msgspec.to_builtins(value, enc_hook=str) for value in values)
    return [
        {
            name: list(field) if isinstance(field, tuple) else field
            for name, field in document.items()
            if name not in _LEFT_OUT or field is not _LEFT_OUT[name]
        }
        for document in plain
    ]


def _node(node: NumaNode) -> dict[str, Any]:
    (document,) = _plain([node])
    document["hugepages"] = {
        page_size_name(pool.size_bytes): {"total": pool.total, "free": pool.free} for pool in node.hugepages
    }
    document["distances"] = {str(other): distance for other, distance in node.distances}
    return document


class _Wire(msgspec.Struct, rename="camel"):
    """A JSON object as it stands on the wire: camelCase keys, unknown ones ignored."""


class _PoolWire(_Wire):
    total: Bytes
    free: Bytes | None = None


class _NodeWire(_Wire):
    id: int
    cpus: CpuSet = EMPTY
    memory_bytes: Bytes | None = None
    hugepages: dict[str, _PoolWire] = {}
    distances: dict[Bytes, Bytes] = {}
    kind: MemoryKind | None = None
    nearest_cpus: CpuSet = EMPTY
    allowed: bool = True


class _IdentityWire(_Wire):
    architecture: str | None = None
    vendor: str | None = None
    product: str | None = None
    model: str | None = None


class _MachineWire(_Wire):
    """Fields have the names they have in `Machine`, whatever they are called on the wire."""

    cpus: list[Cpu]
    numa: list[_NodeWire]
    machine: _IdentityWire = msgspec.field(default_factory=_IdentityWire)
    caches: tuple[Cache, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    memory_bytes: Bytes | None = None
    stated_core_count: Bytes | None = None
    isolated: CpuSet = msgspec.field(name="isolatedCpus", default=EMPTY)
    nohz_full: CpuSet = msgspec.field(name="nohzFullCpus", default=EMPTY)
    warnings: tuple[str, ...] = ()


def decode(data: bytes, source: str = "topology JSON") -> Machine:
    """Read what `encode` wrote; `source` names the file in an error."""
    if len(data) > MAX_JSON_BYTES:
        raise InputError(source, f"larger than {MAX_JSON_BYTES >> 20} MiB, which no topology is")
    try:
        wire = msgspec.json.decode(data, type=_MachineWire, dec_hook=_cpu_list)
        return _machine(wire)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(source, f"not a topology in JSON: {error}") from None


def _machine(wire: _MachineWire) -> Machine:
    fields = structs.asdict(wire) | structs.asdict(wire.machine)
    del fields["machine"]
    fields["cpus"] = _unique("CPU", sorted(wire.cpus, key=lambda cpu: cpu.id))
    nodes = (_numa_node(node) for node in sorted(wire.numa, key=lambda node: node.id))
    return Machine(**fields | {"numa": _unique("NUMA node", nodes)})


def _numa_node(wire: _NodeWire) -> NumaNode:
    pools = {page_size_bytes(name): pool for name, pool in wire.hugepages.items()}
    if len(pools) < len(wire.hugepages):
        raise ValueError(f"NUMA node {wire.id} lists a huge page size twice")
    return NumaNode(
        **{
            **structs.asdict(wire),
            "hugepages": tuple(
                HugePages(size, pools[size].total, pools[size].free) for size in sorted(pools)
            ),
            "distances": tuple(sorted(wire.distances.items())),
        }
    )


def _unique(what: str, items: Iterable[_Numbered]) -> tuple[_Numbered, ...]:
    """The items as a tuple; a bad or repeated id is an error, since everything else refers to items by id."""
    unique = tuple(items)
    for index, item in enumerate(unique):
        if not 0 <= item.id <= MAX_ID:
            raise ValueError(f"{what} id {item.id} is not between 0 and {MAX_ID}")
        if index and unique[index - 1].id == item.id:
            raise ValueError(f"{what} {item.id} is listed twice")
    return unique


def _cpu_list(kind: type, value: Any) -> Any:
    if kind is CpuSet and isinstance(value, str):
        return CpuSet.parse(value)
    raise ValueError(f"expected a CPU list such as 0-3,8, got {str(value)[:40]!r}")
