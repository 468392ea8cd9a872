"""Reads cAdvisor's MachineInfo in JSON: the machine as the kubelet itself sees it.

The kubelet builds its CPU and NUMA topology from this value, so that a saved copy (the kubelet's
`/spec`, or a test fixture) tells what its managers will reckon with. Caches come in three places:
those of one core with the core, those of a whole NUMA node with the node, and what lies between
(an L3 of several cores) with each core under an id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, get_args

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import EMPTY, MAX_ID, CpuSet
from numaware.machine.numa_of_cpus import home_nodes, near_by_distance
from numaware.machine.textfile import check_size
from numaware.machine.topology import Cache, CacheType, Cpu, HugePages, Machine, NumaNode, ordered_caches

MAX_CORES = 16_384

_Count = Annotated[int, msgspec.Meta(ge=0)]
_NodeId = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]

_CACHE_TYPES: dict[str, CacheType] = {kind: kind for kind in get_args(CacheType)}


class _HugePagesInfo(msgspec.Struct):
    page_size: _Count
    num_pages: _Count


class _CacheInfo(msgspec.Struct):
    size: _Count
    type: str
    level: _Count
    id: int | None = None


class _CoreInfo(msgspec.Struct):
    core_id: int
    thread_ids: list[int] | None = None
    caches: list[_CacheInfo] | None = None
    uncore_caches: list[_CacheInfo] | None = None
    socket_id: int | None = None


class _NodeInfo(msgspec.Struct):
    node_id: _NodeId
    memory: _Count | None = None
    hugepages: list[_HugePagesInfo] | None = None
    cores: list[_CoreInfo] | None = None
    caches: list[_CacheInfo] | None = None
    distances: list[_Count] | None = None


class _MachineInfo(msgspec.Struct):
    topology: list[_NodeInfo] | None
    num_cores: int | None = None
    memory_capacity: _Count | None = None


def read(data: bytes, source: str = "cAdvisor MachineInfo") -> Machine:
    """The machine of a MachineInfo document."""
    check_size(data, source)
    try:
        info = msgspec.json.decode(data, type=_MachineInfo)
        return _machine(info)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(source, f"not a MachineInfo in JSON: {error}") from None


def _machine(info: _MachineInfo) -> Machine:
    topology = sorted(info.topology or [], key=lambda node: node.node_id)
    ids = [node.node_id for node in topology]
    if len(set(ids)) != len(ids):
        raise ValueError("a NUMA node is listed twice")
    if sum(len(node.cores or []) for node in topology) > MAX_CORES:
        raise ValueError(f"more than {MAX_CORES} cores, which no kernel supports")
    cpus_of = {node.node_id: _threads(node) for node in topology}
    homes, warnings = home_nodes(cpus_of)
    if info.num_cores is not None and info.num_cores != len(homes):
        warnings.append(f"num_cores is {info.num_cores}, but the topology lists {len(homes)} CPUs")
    nodes = []
    for node in topology:
        distances = node.distances or []
        # A row has one value for each node that is online, in the order of their ids.
        if distances and len(distances) != len(ids):
            warnings.append(f"NUMA node {node.node_id} has {len(distances)} distances for {len(ids)} nodes")
            distances = []
        cpus = cpus_of[node.node_id]
        row = dict(zip(ids, distances, strict=False))
        nodes.append(
            NumaNode(
                id=node.node_id,
                cpus=cpus,
                memory_bytes=node.memory,
                hugepages=tuple(
                    sorted(
                        (HugePages(pool.page_size << 10, pool.num_pages) for pool in node.hugepages or []),
                        key=lambda pool: pool.size_bytes,
                    )
                ),
                distances=tuple(row.items()),
                nearest_cpus=cpus or near_by_distance(node.node_id, row, cpus_of),
            )
        )
    return Machine(
        cpus=_cpus(topology, homes),
        caches=_caches(topology, cpus_of),
        numa=tuple(nodes),
        memory_bytes=info.memory_capacity,
        warnings=tuple(warnings),
    )


def _threads(node: _NodeInfo) -> CpuSet:
    return CpuSet(thread for core in node.cores or [] for thread in core.thread_ids or [])


def _cpus(topology: Sequence[_NodeInfo], homes: dict[int, int]) -> tuple[Cpu, ...]:
    by_id: dict[int, Cpu] = {}
    for node in topology:
        for core in node.cores or []:
            siblings = CpuSet(core.thread_ids or [])
            for thread in siblings:
                numa = homes[thread]
                cpu = Cpu(thread, package=core.socket_id, core=core.core_id, numa=numa, siblings=siblings)
                by_id.setdefault(thread, cpu)
    return tuple(by_id[cpu] for cpu in homes)


def _caches(topology: Sequence[_NodeInfo], cpus_of: dict[int, CpuSet]) -> tuple[Cache, ...]:
    caches = set(_private_caches(topology, cpus_of))
    shared: dict[tuple[int, str, int, int | None], tuple[CpuSet, int]] = {}
    for node in topology:
        for core in node.cores or []:
            for cache in core.uncore_caches or []:
                if cache.id is not None:
                    # An id is unique in its socket at least, and no cache reaches beyond a socket.
                    key = (cache.level, cache.type, cache.id, core.socket_id)
                    known = shared.get(key, (EMPTY, cache.size))[0]
                    shared[key] = (known | CpuSet(core.thread_ids or []), cache.size)
    for (level, kind, _, _), (cpus, size) in shared.items():
        if kind in _CACHE_TYPES and cpus:
            caches.add(Cache(level, _CACHE_TYPES[kind], cpus, size))
    return ordered_caches(caches)


def _private_caches(topology: Sequence[_NodeInfo], cpus_of: dict[int, CpuSet]) -> Iterator[Cache]:
    """Caches listed with the only thing they serve, a core or a whole node."""
    for node in topology:
        owners = [(CpuSet(core.thread_ids or []), core.caches) for core in node.cores or []]
        owners.append((cpus_of[node.node_id], node.caches))
        for cpus, listed in owners:
            for cache in listed or []:
                if cache.type in _CACHE_TYPES and cpus:
                    yield Cache(cache.level, _CACHE_TYPES[cache.type], cpus, cache.size)
