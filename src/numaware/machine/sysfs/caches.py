"""Caches of every level and the CPUs that share each."""

from __future__ import annotations

from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.cpus import CPU
from numaware.machine.sysfs.source import Source, numbered
from numaware.machine.topology import Cache, CacheType, Cpu, ordered_caches

_TYPES: dict[bytes, CacheType] = {b"Data": "Data", b"Instruction": "Instruction"}
_MAX_LEVEL = 9


def read_caches(source: Source, cpus: list[Cpu]) -> tuple[Cache, ...]:
    """Each cache once, by level, type and first CPU; parts of a cache that belong to off-line CPUs are gone."""
    online = CpuSet(cpu.id for cpu in cpus if cpu.online).mask
    sizes: dict[tuple[int, CacheType, int], int | None] = {}
    # By index, the CPUs whose cache there was seen from an earlier one: most directories need no reading.
    covered: dict[int, int] = {}
    # Caches of one size at one place in like lists are of one level and type: these need not be read again.
    alike: dict[tuple[tuple[int, ...], int, int | None], tuple[int, CacheType] | None] = {}
    for cpu in cpus:
        if not cpu.online or (covered and all(members >> cpu.id & 1 for members in covered.values())):
            continue
        folder = f"{CPU}/cpu{cpu.id}/cache"
        indexes = tuple(numbered(source.names(folder), "index"))
        for index in indexes:
            if covered.get(index, 0) >> cpu.id & 1:
                continue
            cache = f"{folder}/index{index}"
            shared = source.either(f"{cache}/shared_cpu_map", f"{cache}/shared_cpu_list")
            size = _size(source, f"{cache}/size")
            place = (indexes, index, size)
            if place not in alike:
                alike[place] = _level_and_type(source, cache)
            what = alike[place]
            if shared is None or what is None:
                continue
            # Some ia64 kernels leave the map empty: such a cache belongs to the core.
            members = (shared or cpu.siblings.mask) & online | 1 << cpu.id
            covered[index] = covered.get(index, 0) | members
            sizes.setdefault((*what, members), size)
    return ordered_caches(
        Cache(level, kind, CpuSet.from_mask(members), size) for (level, kind, members), size in sizes.items()
    )


def _level_and_type(source: Source, cache: str) -> tuple[int, CacheType] | None:
    """None for what has no level: it cannot be placed."""
    level = source.known(f"{cache}/level")
    if level is None or not 0 < level <= _MAX_LEVEL:
        return None
    kind = (source.raw(f"{cache}/type") or b"").strip(b"\x00 \t\n\r")
    return level, _TYPES.get(kind, "Unified")


def _size(source: Source, path: str) -> int | None:
    """`512K`, as every kernel writes it; a bare number means the same."""
    text = source.text(path)
    if text is None:
        return None
    digits = text.removesuffix("K")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
        source.warn(path, f"{text[:40]!r} is not a cache size")
        return None
    return int(digits) * 1024 or None
