"""The I/O side of a hwloc XML file: PCI functions with the bridges above them, and the devices on top of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from numaware.machine.cpuset import CpuSet
from numaware.machine.hwloc_tree import Placed, cpu_set, number, type_of
from numaware.machine.topology import PCI_ADDRESS, Device, DeviceKind, PciDevice

# Where an object with these CPUs is: a NUMA node, or None for several.
NodeOf = Callable[[CpuSet], int | None]

_ADDRESS = re.compile(PCI_ADDRESS)
# Class, [vendor:device], [subsystem], revision, and since version 3 the programming interface.
_PCI_TYPE = re.compile(
    r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\](?: \[[0-9a-f:]*\])?(?: [0-9a-f]{2})?(?: ([0-9a-f]{2}))?",
    re.ASCII,
)
# Up to version 2 the type of a device is a number, since version 3 a sum of bits.
_TYPES = ("storage", "gpu", "network", "openfabrics", "dma", "coprocessor", "memory")
_TYPE_BITS = ("storage", "memory", "gpu", "coprocessor", "network", "openfabrics", "dma")


def pci_functions(objects: Sequence[Placed], node_of: NodeOf, warnings: list[str]) -> tuple[PciDevice, ...]:
    """Bridges and devices, by address."""
    functions: list[PciDevice] = []
    seen = set()
    for element, above in objects:
        address = _address(element)
        if address is None:
            continue
        if address in seen:
            warnings.append(f"PCI function {address} is listed twice")
        seen.add(address)
        match = _PCI_TYPE.match(element.get("pci_type", ""))
        class_code, vendor, device, interface = match.groups() if match else ("0000", "", "", None)
        cpus = _local_cpus(above)
        function = PciDevice(
            address=address,
            class_code=class_code + (interface or "00"),
            vendor=vendor,
            device=device,
            numa=None if cpus is None else node_of(cpus),
            local_cpus=cpus,
            parent=next(filter(None, map(_address, reversed(above))), None),
        )
        functions.append(function)
    return tuple(sorted(functions, key=lambda function: function.address))


def devices(objects: Sequence[Placed], version: int, node_of: NodeOf) -> tuple[Device, ...]:
    """The devices the operating system names, in the order of the file."""
    by_name: dict[str, Device] = {}
    for element, above in objects:
        name = element.get("name")
        if type_of(element) != "OSDev" or not name:
            continue
        function = next((around for around in reversed(above) if _address(around)), None)
        cpus = _local_cpus(above)
        device = Device(
            name=name,
            kind=_kind(element, function, version),
            pci=None if function is None else _address(function),
            cpus=cpus,
            numa=None if cpus is None else node_of(cpus),
        )
        by_name.setdefault(name, device)
    return tuple(by_name.values())


def _kind(element: Element, function: Element | None, version: int) -> DeviceKind:
    types = _device_types(number(element, "osdev_type"), version)
    name = element.get("name", "")
    if types & {"network", "openfabrics"}:
        return "nic"
    if "gpu" in types:
        return "gpu"
    if "coprocessor" in types:
        # CUDA, OpenCL and their kin name a GPU once more, but also other accelerators: the PCI class tells.
        display = function is not None and function.get("pci_type", "").startswith("03")
        return "gpu" if display or name.startswith("cuda") else "other"
    return "nvme" if "storage" in types and name.startswith("nvme") else "other"


def _device_types(code: int | None, version: int) -> set[str]:
    if code is None:
        return set()
    if version >= 3:
        return {name for bit, name in enumerate(_TYPE_BITS) if code >> bit & 1}
    return {_TYPES[code]} if code < len(_TYPES) else set()


def _address(element: Element) -> str | None:
    address = element.get("pci_busid", "").lower()
    return address if _ADDRESS.fullmatch(address) else None


def _local_cpus(above: Sequence[Element]) -> CpuSet | None:
    """The CPUs of the innermost object around that has any."""
    return next((cpus for element in reversed(above) if (cpus := cpu_set(element)) is not None), None)
