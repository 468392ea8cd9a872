"""Devices by the names people know them by: GPUs, network and InfiniBand interfaces, NVMe disks."""

from __future__ import annotations

import re

from numaware.machine.sysfs.pci import PRINTABLE, address_on
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import MANAGEMENT_VENDORS, Device, DeviceKind, PciDevice

_CLASS = "sys/class"
_CARD = re.compile(r"card\d+\Z")
_KINDS: tuple[tuple[DeviceKind, str, re.Pattern[str]], ...] = (
    ("nic", "net", PRINTABLE),
    ("nic", "infiniband", PRINTABLE),
    ("nvme", "block", re.compile(r"nvme\d+n\d+\Z")),
)
_NVIDIA = "10de"


def read_devices(source: Source, pci: tuple[PciDevice, ...]) -> tuple[Device, ...]:
    """Named devices that sit behind a PCI function, by kind and then in the order of the bus."""
    functions = {function.address: function for function in pci}
    devices = _gpus(source, pci)
    for kind, folder, names in _KINDS:
        for name, address in _class_members(source, folder, names):
            if address in functions:
                devices.append(_device(name, kind, functions[address]))
    return tuple(devices)


def _class_members(source: Source, folder: str, names: re.Pattern[str]) -> list[tuple[str, str]]:
    """Names of a device class with the PCI function each belongs to; older kernels link only its `device`."""
    members = []
    for name in filter(names.match, source.names(f"{_CLASS}/{folder}")):
        path = f"{_CLASS}/{folder}/{name}"
        address = address_on(source.tree.readlink(path) or source.tree.readlink(f"{path}/device"))
        if address is not None:
            members.append((name, address))
    return members


def _gpus(source: Source, pci: tuple[PciDevice, ...]) -> list[Device]:
    """NVIDIA's are numbered in the order of the bus, as nvidia-smi does; others go by their DRM card."""
    cards = {address: name for name, address in reversed(_class_members(source, "drm", _CARD))}
    gpus = []
    numbered = 0
    for function in pci:
        if function.class_code[:2] not in ("03", "12"):
            continue
        card = cards.get(function.address)
        if function.vendor == _NVIDIA:
            gpus.append(_device(f"GPU{numbered}", "gpu", function, card))
            numbered += 1
        elif function.vendor not in MANAGEMENT_VENDORS:
            gpus.append(_device(card or function.address, "gpu", function))
    return gpus


def _device(name: str, kind: DeviceKind, function: PciDevice, alias: str | None = None) -> Device:
    return Device(name, kind, function.address, function.local_cpus, function.numa, alias)
