"""Devices as people look for them: by name, under the NUMA node they hang on, those behind one PCIe switch together.

A network card has several names (`mlx5_0`, `eth0`) and one address, a virtual function belongs to its card, and
a GPU without a driver has no name at all. Each piece of hardware is shown once.
"""

from __future__ import annotations

from itertools import groupby

import msgspec

from numaware.machine.closeness import way_up
from numaware.machine.drawing.box import Box
from numaware.machine.topology import MANAGEMENT_VENDORS, Device, DeviceKind, Machine, PciDevice
from numaware.machine.words import DEVICE_KINDS, TIMES, count, printable, vendor

# PCI classes worth showing without a name: what pods are placed by. Prefix of the six digits, longest first.
_CLASSES: tuple[tuple[str, DeviceKind], ...] = (
    ("0108", "nvme"),
    ("0b40", "other"),
    ("02", "nic"),
    ("03", "gpu"),
    ("12", "other"),
)
_ORDER: tuple[DeviceKind, ...] = ("gpu", "nic", "nvme", "other")
# More alike devices than this under one node become one line: a storage server has 24 equal drives.
_FOLD_FROM = 5


class Hardware(msgspec.Struct, frozen=True):
    """One piece of hardware: all names it has, where it is, and how many virtual functions it offers."""

    kind: DeviceKind
    names: tuple[str, ...]
    pci: PciDevice | None
    numa: int | None
    functions: int = 0

    @property
    def title(self) -> str:
        if self.names:
            return self.names[0]
        # Without a name, what is neither GPU, NIC nor drive is here by its class: it computes something.
        return "accelerator" if self.kind == "other" else DEVICE_KINDS[self.kind]

    @property
    def make(self) -> str:
        return printable(vendor(self.pci.vendor), 40) if self.pci and self.pci.vendor else ""


def hardware(machine: Machine) -> tuple[Hardware, ...]:
    """What is worth showing, GPUs first, each piece once."""
    pci = {device.address: device for device in machine.pci}
    virtual: dict[str, int] = {}
    for device in machine.pci:
        if device.virtual_function_of in pci:
            virtual[device.virtual_function_of] = virtual.get(device.virtual_function_of, 0) + 1
    named: dict[str, list[Device]] = {}
    for named_device in machine.devices:
        address = named_device.pci
        if address in pci and pci[address].virtual_function_of in pci:
            continue
        named.setdefault(address or f"name {named_device.name}", []).append(named_device)
    items = [_named(group, pci, virtual) for group in named.values()]
    items += [
        Hardware(kind, (), device, device.numa, virtual.get(device.address, 0))
        for device in machine.pci
        if device.address not in named
        and device.virtual_function_of not in pci
        and (kind := _class_kind(device)) is not None
    ]
    return tuple(sorted(items, key=_order))


def boxes(placed: tuple[Hardware, ...], machine: Machine, hue: int | None) -> tuple[Box, ...]:
    """The hardware of one place as boxes: a box for each switch that several share, then the rest."""
    bridges = {device.address: device for device in machine.pci}
    shared: dict[str, list[Hardware]] = {}
    for item in placed:
        above = way_up(item.pci, bridges)[1:]
        shared.setdefault(above[-1] if above else "", []).append(item)
    switches: list[Box] = []
    alone: list[Hardware] = []
    for root, items in shared.items():
        # Functions of one card share everything and prove no switch; two slots below one root port do.
        slots = {item.pci.address.rpartition(".")[0] for item in items if item.pci}
        if root and len(slots) > 1:
            inside = _devices(items, hue)
            switches.append(Box("switch", "PCIe switch", aside=printable(root, 20), hue=hue, children=inside))
        else:
            alone += items
    return (*switches, *_devices(sorted(alone, key=_order), hue))


def _devices(items: list[Hardware], hue: int | None) -> tuple[Box, ...]:
    def alike(item: Hardware) -> tuple[str, ...]:
        chip = (item.pci.vendor, item.pci.device) if item.pci else ("", "")
        return (item.kind, *chip, str(item.functions))

    result: list[Box] = []
    for _, group in groupby(items, key=alike):
        members = list(group)
        result += (
            [_folded(members, hue)] if len(members) >= _FOLD_FROM else [_box(item, hue) for item in members]
        )
    return tuple(result)


def _box(item: Hardware, hue: int | None) -> Box:
    kind = DEVICE_KINDS[item.kind]
    named_by_title = item.kind == "other" or item.title.upper().startswith(kind.upper())
    facts = [] if named_by_title else [kind]
    facts += [item.make] if item.make else []
    facts += [printable(name, 40) for name in item.names[1:]]
    if item.functions:
        facts.append(f"{count(item.functions, 'virtual function')}")
    if item.pci and item.pci.driver and item.pci.driver.startswith(("vfio", "uio", "igb_uio")):
        facts.append(f"driver {printable(item.pci.driver, 40)}")
    address = item.pci.address if item.pci else ""
    return Box("device", printable(item.title, 40), aside=printable(address, 20), facts=tuple(facts), hue=hue)


def _folded(items: list[Hardware], hue: int | None) -> Box:
    """Many alike: how many, and the first and last of them."""
    first, last = items[0], items[-1]
    kind = DEVICE_KINDS[first.kind]
    names = f"{first.title} … {last.title}" if first.names and last.names else ""
    addresses = f"{first.pci.address} … {last.pci.address}" if first.pci and last.pci else ""
    facts = [fact for fact in (printable(names, 60), first.make) if fact]
    if first.functions:
        facts.append(f"{count(first.functions, 'virtual function')} each")
    return Box(
        "device",
        f"{len(items)} {TIMES} {kind}",
        aside=addresses,
        facts=tuple(facts),
        hue=hue,
        copies=len(items),
    )


def _named(group: list[Device], pci: dict[str, PciDevice], virtual: dict[str, int]) -> Hardware:
    first = min(group, key=lambda device: (_ORDER.index(device.kind), len(device.name), device.name))
    names = (
        first.name,
        *(device.name for device in group),
        *(device.alias for device in group if device.alias),
    )
    function = pci.get(first.pci) if first.pci else None
    if function is None and first.pci:
        function = PciDevice(first.pci, "", "", "")
    nodes = (device.numa for device in group if device.numa is not None)
    numa = next(nodes, function.numa if function else None)
    # A GPU that nobody has named goes by its address, which is shown anyway.
    own = tuple(dict.fromkeys(name for name in names if name != first.pci))
    return Hardware(first.kind, own, function, numa, virtual.get(first.pci or "", 0))


def _class_kind(device: PciDevice) -> DeviceKind | None:
    kind = next((kind for prefix, kind in _CLASSES if device.class_code.startswith(prefix)), None)
    return None if kind == "gpu" and device.vendor in MANAGEMENT_VENDORS else kind


def _order(item: Hardware) -> tuple[int, str, int, str, str]:
    """GPUs, NICs, drives, the rest; named before nameless; GPU2 before GPU10."""
    stem = item.title.rstrip("0123456789")
    digits = item.title[len(stem) :]
    address = item.pci.address if item.pci else ""
    number = int(digits) if 0 < len(digits) < 10 and digits.isascii() else 0
    return (_ORDER.index(item.kind), stem if item.names else "\U0010ffff", number, item.title, address)
