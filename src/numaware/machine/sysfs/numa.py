"""NUMA nodes: their CPUs, memory, huge pages and distances, and whom a node without CPUs is close to."""

from __future__ import annotations

import re

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet, list_form
from numaware.machine.sysfs.memory import NODE, gpu_nodes, memory_kinds
from numaware.machine.sysfs.source import Source, numbered
from numaware.machine.topology import HugePages, MemoryKind, NumaNode

_MEM_TOTAL = re.compile(rb"MemTotal:\s*(\d{1,15}) kB")
_HUGE = re.compile(r"hugepages-(\d{1,12})kB\Z")
_MAX_DISTANCE = 0xFFFF
_MAX_NODES = 1024

Distances = dict[int, tuple[tuple[int, int], ...]]


def read_nodes(
    source: Source, online: int, allowed: int | None, *, knights_landing: bool
) -> tuple[NumaNode, ...]:
    """Every node with a directory, ascending; a kernel built without NUMA has one node with everything."""
    ids = numbered(source.names(NODE), "node")
    if len(ids) > _MAX_NODES:
        raise InputError(
            source.tree.source, f"has {len(ids)} NUMA nodes; no kernel knows more than {_MAX_NODES}"
        )
    if not ids:
        return (_whole_machine(source, CpuSet.from_mask(online)),)
    cpus = {node: _cpus(source, node) & online for node in ids}
    _warn_of_overlap(source, cpus)
    memory = {node: memory_total(source, f"{NODE}/node{node}/meminfo") for node in ids}
    distances = _distances(source, ids)
    gpus = gpu_nodes(source)
    without_cpus = [node for node in ids if not cpus[node] and memory[node]]
    kinds = memory_kinds(
        source,
        [node for node in ids if cpus[node] and memory[node]],
        [node for node in without_cpus if node not in gpus],
        knights_landing=knights_landing,
    )
    return tuple(
        NumaNode(
            id=node,
            cpus=CpuSet.from_mask(cpus[node]),
            memory_bytes=memory[node],
            hugepages=read_huge_pages(source, f"{NODE}/node{node}/hugepages"),
            distances=distances.get(node, ()),
            kind="gpu" if node in gpus else kinds.get(node),
            nearest_cpus=CpuSet.from_mask(
                cpus[node] or _nearest(source, node, cpus, distances, gpus) & online
            ),
            allowed=allowed is None or bool(allowed >> node & 1),
        )
        for node in ids
    )


def memory_total(source: Source, path: str) -> int | None:
    """The total of a meminfo file, in bytes."""
    match = _MEM_TOTAL.search(source.raw(path) or b"")
    return int(match[1]) * 1024 if match else None


def _whole_machine(source: Source, cpus: CpuSet) -> NumaNode:
    memory = memory_total(source, "proc/meminfo")
    kind: MemoryKind | None = "dram" if memory else None
    pages = read_huge_pages(source, "sys/kernel/mm/hugepages")
    return NumaNode(id=0, cpus=cpus, memory_bytes=memory, hugepages=pages, kind=kind, nearest_cpus=cpus)


def _cpus(source: Source, node: int) -> int:
    return source.either(f"{NODE}/node{node}/cpumap", f"{NODE}/node{node}/cpulist") or 0


def _warn_of_overlap(source: Source, cpus: dict[int, int]) -> None:
    """Broken firmware lists a CPU in several nodes; each keeps it, and the CPU itself goes to the first."""
    seen = 0
    for node, members in cpus.items():
        if members & seen:
            source.warn(f"{NODE}/node{node}", f"CPUs {list_form(members & seen)} are also in an earlier node")
        seen |= members


def read_huge_pages(source: Source, folder: str) -> tuple[HugePages, ...]:
    """The pools in a folder of the kernel, by page size."""
    sizes = sorted(int(match[1]) * 1024 for name in source.names(folder) if (match := _HUGE.match(name)))
    pools = []
    for size in sizes:
        pool = f"{folder}/hugepages-{size >> 10}kB"
        total = source.known(f"{pool}/nr_hugepages")
        if total is not None:
            pools.append(HugePages(size, total, source.known(f"{pool}/free_hugepages")))
    return tuple(pools)


def _distances(source: Source, ids: list[int]) -> Distances:
    """A row has one number for each on-line node, in their order, and says nothing about which those are."""
    online = source.cpu_list(f"{NODE}/online")
    columns = ids if online is None else [node for node in ids if online >> node & 1]
    rows: Distances = {}
    for node in ids:
        path = f"{NODE}/node{node}/distance"
        text = source.text(path)
        if text is None:
            continue
        words = text.split()
        if len(words) != len(columns) or not all(map(_is_distance, set(words))):
            source.warn(path, f"{text[:40]!r} is not a row of {len(columns)} distances")
            continue
        rows[node] = tuple(zip(columns, map(int, words), strict=True))
    return rows


def _is_distance(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 5 and int(word) <= _MAX_DISTANCE


def _nearest(
    source: Source, node: int, cpus: dict[int, int], distances: Distances, gpus: dict[int, str]
) -> int:
    """The CPUs a node without any is attached to; 0 where nothing tells.

    Best known is the place of the GPU whose memory it is, then the initiators that firmware names (those of
    class 1 are always CPUs, of class 0 maybe accelerators), then the nodes at the least distance, unless all
    other nodes are equally far, which says nothing.
    """
    if node in gpus:
        return source.mask(f"sys/bus/pci/devices/{gpus[node]}/local_cpus") or 0
    for access in ("access1", "access0"):
        initiators = numbered(source.names(f"{NODE}/node{node}/{access}/initiators"), "node")
        if near := _union(cpus, initiators):
            return near
    row = dict(distances.get(node, ()))
    others = {other: distance for other, distance in row.items() if other != node and other not in gpus}
    if not others or min(others.values()) <= row.get(node, 0):
        return 0
    least = min(others.values())
    closest = [other for other, distance in others.items() if distance == least]
    return _union(cpus, closest) if len(closest) < len(others) else 0


def _union(cpus: dict[int, int], nodes: list[int]) -> int:
    mask = 0
    for node in nodes:
        mask |= cpus.get(node, 0)
    return mask
