"""Reads the topology file of NCCL (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`): NUMA nodes with their PCI trees.

The tree nests the way the hardware does: a `cpu` is one NUMA node, a `pci` below it a bridge or a function,
and a `gpu` or `nic` what NCCL uses there. Cloud providers write such files by hand and leave out what NCCL
can find itself: a function without a `gpu` or `net` below it is then known by its PCI address only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import EMPTY, MAX_ID, CpuSet
from numaware.machine.numa_of_cpus import home_nodes
from numaware.machine.topology import (
    PCI_ADDRESS,
    Cpu,
    Device,
    DeviceKind,
    Link,
    Machine,
    NumaNode,
    PciDevice,
)
from numaware.machine.xmltree import read_xml

_ADDRESS = re.compile(PCI_ADDRESS)
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,6})", re.ASCII | re.IGNORECASE)
_KINDS: dict[str, DeviceKind] = {"03": "gpu", "02": "nic"}


class _Place(msgspec.Struct, frozen=True):
    """Where in the tree an element stands."""

    numa: int | None
    cpus: CpuSet | None
    bridge: str | None = None


class _Collected(msgspec.Struct):
    """What the walk collects."""

    nodes: dict[int, CpuSet] = {}
    pci: dict[str, PciDevice] = {}
    devices: dict[str, Device] = {}
    nvlinks: list[tuple[str, str, int]] = []
    architectures: set[str] = set()
    warnings: list[str] = []


def read(data: bytes, source: str = "NCCL topology") -> Machine:
    """The NUMA nodes, PCI functions, GPUs and NICs of a NCCL topology file."""
    system = read_xml(data, "system", source)
    collected = _Collected()
    hosts = list(dict.fromkeys(cpu.get("host_hash") for cpu in system.iterfind("cpu")))
    if len(hosts) > 1:
        collected.warnings.append(f"the file describes {len(hosts)} machines; only the first is taken")
    try:
        for cpu in system.iterfind("cpu"):
            if cpu.get("host_hash") == hosts[0]:
                _walk(cpu, _numa_node(cpu, collected), collected)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    if not collected.nodes and not collected.pci and not collected.devices:
        raise InputError(source, "no <cpu>, <pci> or device found", hint="expected a NCCL topology file")
    return _machine(collected)


def _numa_node(cpu: Element, collected: _Collected) -> _Place:
    """The node of a `cpu`; NCCL writes -1 where the kernel knows none."""
    affinity = cpu.get("affinity")
    cpus = CpuSet.parse_hex(affinity) if affinity else None
    if architecture := cpu.get("arch"):
        collected.architectures.add(architecture)
    written = cpu.get("numaid", "-1").strip()
    if written == "-1":
        return _Place(None, cpus)
    number = int(written) if written.isascii() and written.isdecimal() and len(written) < 10 else -1
    if not 0 <= number <= MAX_ID:
        raise ValueError(f"{written[:20]!r} is not the id of a NUMA node")
    if number in collected.nodes:
        collected.warnings.append(f"NUMA node {number} is listed twice")
    collected.nodes[number] = collected.nodes.get(number, EMPTY) | (cpus or EMPTY)
    return _Place(number, cpus)


def _walk(element: Element, place: _Place, collected: _Collected) -> None:
    for child in element:
        if child.tag == "pci":
            _function(child, place, collected)
        elif child.tag == "nic":
            for net in child.iterfind("net"):
                _add(collected, net.get("name"), "nic", place)


def _function(element: Element, place: _Place, collected: _Collected) -> None:
    address = _address(element.get("busid", ""))
    below = msgspec.structs.replace(place, bridge=address)
    if address in collected.pci:
        collected.warnings.append(f"PCI function {address} is listed twice")
    class_code = _digits(element.get("class"), 6)
    collected.pci[address] = PciDevice(
        address=address,
        class_code=class_code,
        vendor=_digits(element.get("vendor"), 4),
        device=_digits(element.get("device"), 4),
        numa=place.numa,
        local_cpus=place.cpus,
        parent=place.bridge,
    )
    named = len(collected.devices)
    for gpu in element.iterfind("gpu"):
        number = gpu.get("dev", "")
        _add(collected, f"GPU{number}" if number.isdecimal() and len(number) < 6 else None, "gpu", below)
        collected.nvlinks.extend(_nvlinks(gpu, address))
    _walk(element, below, collected)
    if len(collected.devices) == named and class_code[:2] in _KINDS:
        _add(collected, address, _KINDS[class_code[:2]], below)


def _add(collected: _Collected, name: str | None, kind: DeviceKind, place: _Place) -> None:
    name = name or place.bridge
    if name:
        collected.devices.setdefault(name, Device(name, kind, place.bridge, place.cpus, place.numa))


def _nvlinks(gpu: Element, address: str) -> Iterator[tuple[str, str, int]]:
    for link in gpu.iterfind("nvlink"):
        count = link.get("count", "")
        if count.isdecimal() and len(count) < 4:
            yield address, _address(link.get("target", "")), int(count)


def _machine(collected: _Collected) -> Machine:
    homes, contradictions = home_nodes(dict(sorted(collected.nodes.items())))
    links = _gpu_links(collected)
    return Machine(
        architecture=collected.architectures.pop() if len(collected.architectures) == 1 else None,
        cpus=tuple(Cpu(id=cpu, numa=node) for cpu, node in homes.items()),
        numa=tuple(
            NumaNode(id=node, cpus=cpus, nearest_cpus=cpus) for node, cpus in sorted(collected.nodes.items())
        ),
        pci=tuple(collected.pci[address] for address in sorted(collected.pci)),
        devices=tuple(collected.devices.values()),
        links=links,
        warnings=(*collected.warnings, *contradictions),
    )


def _gpu_links(collected: _Collected) -> tuple[Link, ...]:
    """Direct NVLinks between GPUs in nvidia-smi's words; a link to a switch joins no two GPUs by itself."""
    gpus = [device for device in collected.devices.values() if device.kind == "gpu"]
    place = {device.pci: index for index, device in enumerate(gpus)}
    counts: dict[tuple[int, int], int] = {}
    for start, end, count in collected.nvlinks:
        if start == end or end not in place:
            continue
        a, b = sorted((place[start], place[end]))
        if counts.setdefault((a, b), count) != count:
            collected.warnings.append(
                f"{gpus[a].name} and {gpus[b].name} disagree on their number of NVLinks"
            )
    return tuple(Link(gpus[a].name, gpus[b].name, f"NV{count}") for (a, b), count in sorted(counts.items()))


def _address(text: str) -> str:
    address = text.strip().lower()
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"{text[:40]!r} is not a PCI address (expected a form such as 0000:3b:00.0)")
    return address


def _digits(text: str | None, width: int) -> str:
    """A hexadecimal id without its 0x, at full width; '' (or class 000000) where the file has none."""
    match = _HEX.fullmatch((text or "").strip())
    if match is None:
        return "" if width == 4 else "0" * width
    return match[1].lower().zfill(width)
