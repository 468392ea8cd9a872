"""Who made the machine and what it is called."""

from __future__ import annotations

from typing import NamedTuple

from numaware.machine.sysfs.cpuinfo import CpuInfo
from numaware.machine.sysfs.source import Source


class Identity(NamedTuple):
    """What the firmware calls the machine."""

    architecture: str | None
    vendor: str | None
    product: str | None


def read_identity(source: Source, info: CpuInfo) -> Identity:
    """From DMI where there is one, else from the device tree."""
    return Identity(
        architecture=_architecture(source, info),
        vendor=_first(source, "sys/class/dmi/id/sys_vendor", "sys/devices/virtual/dmi/id/sys_vendor"),
        product=_first(
            source,
            "sys/class/dmi/id/product_name",
            "sys/devices/virtual/dmi/id/product_name",
            "sys/firmware/devicetree/base/model",
            "proc/device-tree/model",
        ),
    )


def _architecture(source: Source, info: CpuInfo) -> str | None:
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
