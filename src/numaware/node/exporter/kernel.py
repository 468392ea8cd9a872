"""The kernel's counters of each NUMA node, as they are at this moment. What it does not tell is left out, never zero."""

from __future__ import annotations

import re
from typing import NamedTuple

from numaware.machine.sysfs.memory import NODE
from numaware.machine.sysfs.source import Source

# The columns of /proc/stat, in ticks. Guest time is counted in user and nice time already.
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE = ("idle", "iowait")
# Counter of the kernel -> name in the metric.
LOCALITY = {
    "numa_hit": "hit",
    "numa_miss": "miss",
    "numa_foreign": "foreign",
    "interleave_hit": "interleave_hit",
    "local_node": "local",
    "other_node": "other",
}
_MEMORY_LINE = re.compile(rb"^Node \d+ ([A-Za-z_]+(?:\([a-z]+\))?):\s+(\d{1,18}) kB", re.MULTILINE)
_COUNT_LINE = re.compile(rb"^([a-z_]+) (\d{1,20})$", re.MULTILINE)
_CPU_LINE = re.compile(rb"^cpu(\d{1,5})((?: \d{1,20}){4,10})", re.MULTILINE)


class Pages(NamedTuple):
    """One pool of huge pages."""

    size: int
    total: int
    free: int


def memory(source: Source, node: int) -> dict[str, int]:
    """Name in the metric -> bytes, of one NUMA node.

    The kernel has no estimate of what is available on one node; it is free memory, the file cache and the slabs that can be
    had back, which is too much by what the kernel keeps for itself.
    """
    data = source.raw(f"{NODE}/node{node}/meminfo")
    found = {name.decode(): int(size) << 10 for name, size in _MEMORY_LINE.findall(data or b"")}
    names = {
        "total": "MemTotal",
        "free": "MemFree",
        "used": "MemUsed",
        "filecache": "FilePages",
        "anon": "AnonPages",
        "slab": "Slab",
    }
    told = {metric: found[name] for metric, name in names.items() if name in found}
    if "MemFree" in found:
        back = ("Active(file)", "Inactive(file)", "SReclaimable")
        told["available"] = found["MemFree"] + sum(found.get(name, 0) for name in back)
    if data is not None and not told:
        source.warn(f"{NODE}/node{node}/meminfo", "no line of it can be read")
    return told


def locality(source: Source, node: int) -> dict[str, int]:
    """Name in the metric -> pages that were allocated so far, of one NUMA node."""
    data = source.raw(f"{NODE}/node{node}/numastat")
    found = {name.decode(): int(count) for name, count in _COUNT_LINE.findall(data or b"")}
    if data is not None and not found:
        source.warn(f"{NODE}/node{node}/numastat", "no line of it can be read")
    return {LOCALITY[name]: count for name, count in found.items() if name in LOCALITY}


def huge_pages(source: Source, node: int) -> list[Pages]:
    folder = f"{NODE}/node{node}/hugepages"
    pools = []
    for name in source.names(folder):
        size = name.removeprefix("hugepages-").removesuffix("kB")
        total = source.known(f"{folder}/{name}/nr_hugepages")
        free = source.known(f"{folder}/{name}/free_hugepages")
        if size.isascii() and size.isdigit() and len(size) < 13 and total is not None and free is not None:
            pools.append(Pages(int(size) << 10, total, free))
    return sorted(pools)


def ticks(source: Source) -> dict[int, tuple[int, ...]]:
    """CPU -> ticks spent in each of `MODES`."""
    data = source.raw("proc/stat")
    found = {
        int(cpu): tuple(int(count) for count in counts.split()[: len(MODES)])
        for cpu, counts in _CPU_LINE.findall(data or b"")
    }
    if data is not None and not found:
        source.warn("proc/stat", "no line of it tells a CPU's time")
    return found
