"""The kernel's counters of each NUMA node, as they are at this moment. What it does not tell is left out, never zero."""

from __future__ import annotations

import re

from numaware.machine.sysfs.memory import NODE
from numaware.machine.sysfs.source import Source

# The columns of /proc/stat, in ticks. Guest time is counted in user and nice time already.
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE = ("idle", "iowait")
# What the kernel tells of the whole machine only.
AVAILABLE = "MemAvailable"
_MEMORY_LINE = re.compile(rb"^Node \d+ ([A-Za-z_]+(?:\([a-z]+\))?):\s+(\d{1,18}) kB", re.MULTILINE)
_COUNT_LINE = re.compile(rb"^([a-z_]+) (\d{1,20})$", re.MULTILINE)
_CPU_LINE = re.compile(rb"^cpu(\d{1,5})((?: \d{1,20}){4,10})", re.MULTILINE)


def memory(source: Source, node: int) -> dict[str, int]:
    """The kernel's name -> bytes, of one NUMA node.

    The kernel has no estimate of what is available on one node; it is free memory, the file cache and the slabs that can be
    had back, which is too much by what the kernel keeps for itself.
    """
    data = source.raw(f"{NODE}/node{node}/meminfo")
    sizes = {name.decode(): int(size) << 10 for name, size in _MEMORY_LINE.findall(data or b"")}
    if "MemFree" in sizes:
        back = ("Active(file)", "Inactive(file)", "SReclaimable")
        sizes[AVAILABLE] = sizes["MemFree"] + sum(sizes.get(name, 0) for name in back)
    if data is not None and not sizes:
        source.warn(f"{NODE}/node{node}/meminfo", "no line of it can be read")
    return sizes


def locality(source: Source, node: int) -> dict[str, int]:
    """The kernel's name -> pages that were allocated so far, of one NUMA node."""
    data = source.raw(f"{NODE}/node{node}/numastat")
    pages = {name.decode(): int(count) for name, count in _COUNT_LINE.findall(data or b"")}
    if data is not None and not pages:
        source.warn(f"{NODE}/node{node}/numastat", "no line of it can be read")
    return pages


def ticks(source: Source) -> dict[int, tuple[int, ...]]:
    """CPU -> ticks spent in each of `MODES`."""
    data = source.raw("proc/stat")
    spent = {
        int(cpu): tuple(int(count) for count in counts.split()[: len(MODES)])
        for cpu, counts in _CPU_LINE.findall(data or b"")
    }
    if data is not None and not spent:
        source.warn("proc/stat", "no line of it tells a CPU's time")
    return spent
