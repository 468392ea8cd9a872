"""PCI functions and the bridges above them."""

from __future__ import annotations

import re

from numaware.machine.cpuset import MAX_ID, CpuSet
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import PCI_ADDRESS, PciDevice

PCI = "sys/bus/pci/devices"

ADDRESS = re.compile(PCI_ADDRESS + r"\Z")
_ON_PATH = re.compile(rf"(?<=/){PCI_ADDRESS}(?=/|\Z)")
# Names of drivers and interfaces, as the kernel allows them.
PRINTABLE = re.compile(r"[!-~]{1,64}\Z")
_HEX = re.compile(rb"0x([0-9a-fA-F]{1,6})\s*\Z")


def read_pci(source: Source) -> tuple[PciDevice, ...]:
    """Every PCI function, by address."""
    names = [name for name in source.names(PCI) if ADDRESS.match(name)]
    listed = {name.lower() for name in names}
    functions = (_function(source, name, listed) for name in names)
    return tuple(sorted(functions, key=lambda function: function.address))


def address_on(path: str | None) -> str | None:
    """The last PCI address on a path of /sys/devices: the function that the thing at its end belongs to."""
    addresses = _ON_PATH.findall(path or "")
    return addresses[-1].lower() if addresses else None


def _function(source: Source, name: str, listed: set[str]) -> PciDevice:
    link = f"{PCI}/{name}"
    folder = source.tree.resolve(link) or link
    numa = source.known(f"{folder}/numa_node")
    local = source.either(f"{folder}/local_cpus", f"{folder}/local_cpulist")
    return PciDevice(
        address=name.lower(),
        class_code=_hex(source, f"{folder}/class", 6) or "000000",
        vendor=_hex(source, f"{folder}/vendor", 4) or "",
        device=_hex(source, f"{folder}/device", 4) or "",
        driver=_basename(source.tree.readlink(f"{folder}/driver")),
        numa=numa if numa is not None and numa <= MAX_ID else None,
        local_cpus=None if local is None else CpuSet.from_mask(local),
        parent=_bridge(folder, listed),
        virtual_function_of=_physical(source.tree.readlink(f"{folder}/physfn")),
    )


def _bridge(folder: str, listed: set[str]) -> str | None:
    """The nearest function above, on the path of the device, that the capture has kept."""
    above = (address.lower() for address in reversed(_ON_PATH.findall(folder.rpartition("/")[0])))
    return next((address for address in above if address in listed), None)


def _hex(source: Source, path: str, digits: int) -> str | None:
    data = source.raw(path)
    if data is None:
        return None
    match = _HEX.match(data.strip(b"\x00 \t\n\r"))
    if match is None:
        source.warn(path, "not a number of the form 0x8086")
        return None
    return match[1].decode().lower().zfill(digits)


def _basename(target: str | None) -> str | None:
    name = (target or "").rstrip("/").rpartition("/")[2]
    return name if PRINTABLE.match(name) else None


def _physical(target: str | None) -> str | None:
    name = _basename(target)
    return name.lower() if name and ADDRESS.match(name) else None
