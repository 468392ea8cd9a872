"""Sizes, kinds and lists as people say them: one place, so that every picture and comparison uses the same words.

Text from a captured machine is not ours: `printable` makes it safe to show, and everything that is shown went
through it.
"""

from __future__ import annotations

from collections.abc import Iterable

from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import DeviceKind, MemoryKind

MEMORY_KINDS: dict[MemoryKind, str] = {
    "dram": "DRAM",
    "hbm": "HBM",
    "cxl": "CXL memory",
    "nvm": "persistent memory",
    "gpu": "GPU memory",
}
DEVICE_KINDS: dict[DeviceKind, str] = {"gpu": "GPU", "nic": "NIC", "nvme": "NVMe", "other": "device"}

# The makers of what sits under NUMA nodes in servers, by PCI vendor id; others are shown by their id.
_VENDORS = {
    "1000": "Broadcom",
    "1002": "AMD",
    "1022": "AMD",
    "1077": "QLogic",
    "10de": "NVIDIA",
    "10ee": "Xilinx",
    "1137": "Cisco",
    "1179": "Toshiba",
    "1344": "Micron",
    "1414": "Microsoft",
    "1425": "Chelsio",
    "144d": "Samsung",
    "14e4": "Broadcom",
    "15ad": "VMware",
    "15b3": "Mellanox",
    "15b7": "SanDisk",
    "17db": "Cray",
    "1924": "Solarflare",
    "19e5": "Huawei",
    "1a03": "ASPEED",
    "1ae0": "Google",
    "1af4": "virtio",
    "1c5c": "SK hynix",
    "1c5f": "Memblaze",
    "1d0f": "Amazon",
    "1da3": "Habana",
    "1dd8": "Pensando",
    "1e0f": "Kioxia",
    "8086": "Intel",
}
TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = "\N{EN DASH}"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(amount: int) -> str:
    """Bytes in the largest unit that keeps the number whole (1280 KiB, 1536 GiB), else rounded."""
    if amount < 0:
        return f"-{size(-amount)}"
    whole = next((unit for unit in range(_unit(amount), -1, -1) if not amount & (1 << unit * 10) - 1), 0)
    return f"{amount >> whole * 10} {_UNITS[whole]}" if amount >> whole * 10 < 10_000 else rounded(amount)


def rounded(amount: int) -> str:
    """Bytes rounded half up to one decimal, for amounts that stand beside others."""
    unit = _unit(amount)
    if _UNITS[unit] == "TiB" and amount < 10 << 40:
        unit -= 1  # people know such machines by their gibibytes, and one decimal of a tebibyte would hide 50 of them
    tenths = (amount * 10 + (1 << unit * 10 >> 1)) >> unit * 10
    number = f"{tenths // 10}.{tenths % 10}" if tenths % 10 and tenths < 10_000 else str((tenths + 5) // 10)
    return f"{number} {_UNITS[unit]}"


def _unit(amount: int) -> int:
    """The largest unit that the amount has one of."""
    return min(max(0, (amount.bit_length() - 1) // 10), len(_UNITS) - 1)


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 core`, `2 cores`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def cpu_list(cpus: CpuSet) -> str:
    """The kernel's list form, except that a long regular one (every second CPU) is shown by its beginning and end."""
    written = str(cpus)
    runs = written.split(",")
    if len(runs) <= 8:
        return written
    ids = list(cpus)
    step = ids[1] - ids[0]
    if ids == list(range(ids[0], ids[-1] + 1, step)):
        return f"{runs[0]},{runs[1]},{runs[2]},…,{runs[-1]}"
    return written


def id_list(ids: Iterable[int]) -> str:
    """Any numbers in the form of a CPU list; firmware numbers packages beyond what a CPU set holds."""
    ordered = sorted(set(ids))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ",".join(shown if len(shown) <= 8 else [*shown[:3], "…", shown[-1]])


def vendor(pci_vendor: str) -> str:
    """Who made it; an unknown maker keeps the four digits of its id."""
    return _VENDORS.get(pci_vendor.lower(), pci_vendor)


def printable(text: str, longest: int = 200) -> str:
    """The text on one line without control characters (a captured name may hold terminal commands), and not endless."""
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:longest]
    )
    return shown + "…" if len(text) > longest else shown
