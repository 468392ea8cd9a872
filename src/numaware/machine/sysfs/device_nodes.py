"""The device nodes of PCI functions: what below /dev has to be opened to use them.

The kernel names each node of a driver in a file `uevent` below the function (`DEVNAME=dri/card0`), at most three folders
down; the device plugin hands these to containers. A function bound to vfio-pci has none of its own: it is used through its
IOMMU group.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaware.machine.sysfs.pci import PCI
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import PciDevice

VFIO = "vfio-pci"
_NAME = "DEVNAME="
_DEPTH = 3
# A disk has tens of files, a card with many ports some hundred.
_MOST_FOLDERS = 500
# Further functions, which have nodes of their own, and what is the same for every device.
_PASSED_OVER = frozenset(
    {"power", "msi_irqs", "subsystem", "driver", "physfn", "iommu", "iommu_group", "firmware_node"}
)


def read_device_nodes(source: Source, function: PciDevice) -> tuple[str, ...]:
    """The nodes of one function as paths below /dev, sorted; none for a function without a driver that makes any."""
    folder = source.tree.resolve(f"{PCI}/{function.address}")
    if folder is None:
        return ()
    if function.driver == VFIO:
        group = (source.tree.readlink(f"{folder}/iommu_group") or "").rpartition("/")[2]
        return ("/dev/vfio/vfio", f"/dev/vfio/{group}") if group.isdigit() else ()
    return tuple(sorted({f"/dev/{name}" for name in _names(source, folder)}))


def _names(source: Source, folder: str) -> Iterator[str]:
    level, looked_at = [folder], 0
    for depth in range(_DEPTH + 1):
        below = []
        for place in level:
            looked_at += 1
            if looked_at > _MOST_FOLDERS:
                return
            if depth:
                yield from _named(source.text(f"{place}/uevent"))
            for name in source.names(place):
                path = f"{place}/{name}"
                if name not in _PASSED_OVER and ":" not in name and source.tree.kind_at(path) == "folder":
                    below.append(path)
        level = below


def _named(uevent: str | None) -> Iterator[str]:
    for line in (uevent or "").splitlines():
        name = line.removeprefix(_NAME)
        if (
            name != line
            and name.isascii()
            and name.isprintable()
            and ".." not in name
            and 0 < len(name) < 200
        ):
            yield name
