"""Who made the machine and what it is called."""

from __future__ import annotations

from numaware.machine.sysfs.cpuinfo import CpuInfo
from numaware.machine.sysfs.source import Source

_DMI = ("sys/class/dmi/id", "sys/devices/virtual/dmi/id")


def read_vendor(source: Source) -> str | None:
    """Who made the machine, by DMI."""
    return _first(source, *(f"{folder}/sys_vendor" for folder in _DMI))


def read_product(source: Source) -> str | None:
    """What the firmware calls the machine: in DMI where there is one, else in the device tree."""
    names = (f"{folder}/product_name" for folder in _DMI)
    return _first(source, *names, "sys/firmware/devicetree/base/model", "proc/device-tree/model")


def read_architecture(source: Source, info: CpuInfo) -> str | None:
    """What `uname -m` says: in /proc since Linux 6.1, and in a note that hwloc leaves in its captures."""
    architecture = source.text("proc/sys/kernel/arch")
    if architecture is not None:
        return architecture
    for line in (source.text("proc/hwloc-nofile-info") or "").splitlines():
        key, _, value = line.partition(":")
        if key == "Architecture" and value.strip():
            return value.strip()
    return info.architecture


def _first(source: Source, *paths: str) -> str | None:
    return next((text for path in paths if (text := source.text(path)) is not None), None)
