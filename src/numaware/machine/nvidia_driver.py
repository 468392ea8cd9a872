"""What NVIDIA's driver says in /proc/driver/nvidia of its GPUs: UUID and number, without its library.

The device plugin reads it where NVML is not at hand, and MIG's access files in any case. A driver inside some sandboxes shows
none of it; then a GPU goes by its PCI address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from numaware.machine.sysfs.pci import ADDRESS
from numaware.machine.sysfs.source import Source

_GPUS = "proc/driver/nvidia/gpus"
_MINORS = "proc/driver/nvidia-caps/mig-minors"
_UUID = re.compile(r"GPU UUID:\s*(GPU-[0-9a-fA-F-]{8,64})\s*")
_MINOR = re.compile(r"Device Minor:\s*(\d{1,5})\s*", re.ASCII)
_ACCESS = re.compile(r"gpu(\d{1,5})/gi(\d{1,5})(?:/ci(\d{1,5}))?/access (\d{1,5})", re.ASCII)

# GPU's minor, GPU instance, and compute instance or None for the GPU instance itself.
MigKey = tuple[int, int, int | None]


class DriverGpu(msgspec.Struct, frozen=True):
    """One GPU as its driver lists it."""

    uuid: str = ""
    minor: int | None = None


def read_gpus(source: Source) -> dict[str, DriverGpu]:
    """PCI address -> GPU; empty where there is no driver, or it shows nothing."""
    found = {}
    for name in source.names(_GPUS):
        if ADDRESS.match(name):
            text = source.text(f"{_GPUS}/{name}/information") or ""
            uuid, minor = _UUID.search(text), _MINOR.search(text)
            found[name.lower()] = DriverGpu(uuid[1] if uuid else "", int(minor[1]) if minor else None)
    return found


def read_mig_nodes(source: Source) -> Mapping[MigKey, str]:
    """The device node that opens each GPU instance and compute instance."""
    lines = (source.text(_MINORS) or "").splitlines()
    return {
        (
            int(match[1]),
            int(match[2]),
            int(match[3]) if match[3] else None,
        ): f"/dev/nvidia-caps/nvidia-cap{match[4]}"
        for line in lines
        if (match := _ACCESS.fullmatch(line.strip()))
    }
