"""On which NUMA nodes the memory of each pod really lies, from the kernel's control groups, version 1 and 2.

Version 2 counts bytes, version 1 pages; both tell anonymous and file memory, and what cannot be moved out. A pod's group
is known by the pod's uid in its name, which systemd writes with underscores.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from numaware.machine.sysfs.source import Source

# Version 2, version 1, and version 2 beside version 1.
_ROOTS = ("sys/fs/cgroup", "sys/fs/cgroup/memory", "sys/fs/cgroup/unified")
_POD = re.compile(r"(?:kubepods(?:-[a-z]+)*-)?pod([0-9a-f]{8}[-_0-9a-f]{24,28})(?:\.slice)?\Z")
_TYPES = ("anon", "file", "unevictable")
_LINE = re.compile(rb"^(hierarchical_)?([a-z_]+)(?:=\d+)?((?: N\d{1,4}=\d{1,20})+)$", re.MULTILINE)
_NODE = re.compile(rb"N(\d+)=(\d+)")
_DEPTH = 4
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Type -> NUMA node -> bytes.
Memory = dict[str, dict[int, int]]


def pod_groups(source: Source, most: int) -> dict[str, str]:
    """Pod uid -> path of its group, at most so many."""
    paths: dict[str, str] = {}
    for root in _ROOTS:
        for uid, path in _groups(source, root, 0):
            paths.setdefault(uid, path)
            if len(paths) >= most:
                return paths
    return paths


def _groups(source: Source, folder: str, depth: int) -> Iterator[tuple[str, str]]:
    for name in source.names(folder):
        pod = _POD.match(name)
        if pod:
            yield pod[1].replace("_", "-"), f"{folder}/{name}"
        elif depth < _DEPTH and _leads_to_pods(name, depth):
            yield from _groups(source, f"{folder}/{name}", depth + 1)


def _leads_to_pods(name: str, depth: int) -> bool:
    """`kubepods`, its parts for the classes of service, and the folders that some put above it."""
    return "kube" in name or (depth > 0 and name in ("burstable", "besteffort", "guaranteed"))


def pod_memory(source: Source, group: str) -> Memory | None:
    """What the kernel counts for the group with all below it; None where it does not."""
    path = f"{group}/memory.numa_stat"
    data = source.raw(path)
    if data is None:
        return None
    version1 = b"total=" in data
    memory: Memory = {}
    for hierarchical, kind, nodes in _LINE.findall(data):
        name = kind.decode()
        if name in _TYPES and (not version1 or hierarchical):
            unit = _PAGE if version1 else 1
            memory[name] = {int(node): int(count) * unit for node, count in _NODE.findall(nodes)}
    if not memory:
        source.warn(path, "no line of it can be read")
        return None
    return memory


def pod_names(source: Source, folder: str = "var/log/pods") -> dict[str, tuple[str, str]]:
    """Pod uid -> namespace and name, from the folders that the kubelet keeps their logs in."""
    names = {}
    for entry in source.names(folder):
        parts = entry.split("_")
        if len(parts) == 3:
            names[parts[2]] = (parts[0], parts[1])
    return names
