"""What the kernel's account of a process's memory (`/proc/PID/numa_maps`) says in all."""

from __future__ import annotations

from numaware.node.affinity.migration import _ON_NODE, _page_size


def bytes_by_node(numa_maps: str) -> dict[int, int]:
    """NUMA node -> bytes that the process has there."""
    total: dict[int, int] = {}
    for line in numa_maps.splitlines():
        for place, count in _ON_NODE.findall(line):
            total[int(place)] = total.get(int(place), 0) + int(count) * _page_size(line)
    return total
