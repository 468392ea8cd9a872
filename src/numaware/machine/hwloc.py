"""Reads hwloc's XML (`lstopo FILE.xml`), in the formats of its versions 1 to 3.

The file is one tree of objects with the CPUs of each as a mask. Three things need a word:

* hwloc gives a NUMA node without CPUs (HBM, CXL, GPU memory) the CPUs it is nearest to. Where several nodes
  name the same CPUs, these belong to ordinary memory first, then to the lower id, which is how kernels number
  nodes; the other nodes have no CPUs of their own, only near ones.
* A PCI bridge or device hangs below whatever it is local to; from there come its CPUs, and its NUMA node if
  these CPUs are all of one node.
* CPUs that are offline or forbidden are left out by hwloc, not told apart; `warnings` names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

from numaware.errors import InputError
from numaware.machine.cpuset import EMPTY, CpuSet, grouped
from numaware.machine.hwloc_io import devices, pci_functions
from numaware.machine.hwloc_tree import (
    Placed,
    cpu_set,
    enclosing,
    infos,
    kernel_id,
    number,
    parse_mask,
    type_of,
    walk,
)
from numaware.machine.numa_of_cpus import home_nodes
from numaware.machine.topology import (
    Cache,
    CacheType,
    CoreKind,
    Cpu,
    HugePages,
    Machine,
    MemoryKind,
    NumaNode,
    ordered_caches,
)
from numaware.machine.xmltree import read_xml

_CACHE = re.compile(r"(?:L\d(i?))?Cache")
_CACHE_TYPES: dict[str, CacheType] = {"0": "Unified", "1": "Data", "2": "Instruction"}
# The first word found in a node's subtype decides: `CXL-DRAM` is CXL memory.
_MEMORY_KINDS: tuple[tuple[str, MemoryKind], ...] = (
    ("CXL", "cxl"),
    ("GPU", "gpu"),
    ("NVM", "nvm"),
    ("MCDRAM", "hbm"),
    ("HBM", "hbm"),
    ("DRAM", "dram"),
)
_CORE_TYPES: dict[str, CoreKind] = {"IntelCore": "P", "IntelAtom": "E"}
_MEANS_LATENCY = 4
_RATIO = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)

# Node -> (other node -> distance).
_Distances = dict[int, dict[int, int]]


def read(data: bytes, source: str = "hwloc XML") -> Machine:
    """The machine of a hwloc XML file."""
    topology = read_xml(data, "topology", source)
    try:
        return _machine(topology)
    except ValueError as error:
        raise InputError(source, str(error)) from None


def _machine(topology: Element) -> Machine:
    objects = list(walk(topology))
    if not objects:
        raise ValueError("no object in it (expected what `lstopo FILE.xml` writes)")
    root = objects[0][0]
    major = topology.get("version", "1").partition(".")[0]
    version = int(major) if major.isascii() and major.isdecimal() and len(major) < 4 else 1
    nodes = _node_elements(objects)
    homes = _homes(nodes)
    own = dict.fromkeys(nodes, EMPTY) | grouped((node, cpu) for cpu, node in homes.items())

    def node_of(cpus: CpuSet) -> int | None:
        node = homes.get(cpus.first()) if cpus else None
        return node if node is not None and cpus <= own[node] else None

    cpus, warnings = _cpus(objects, root, homes, _core_kinds(topology))
    said = {**infos(topology), **infos(root)}
    models = {infos(element).get("CPUModel") for element, _ in objects if type_of(element) == "Package"}
    models.add(said.get("CPUModel"))
    models.discard(None)
    return Machine(
        architecture=said.get("Architecture"),
        vendor=said.get("DMISysVendor"),
        product=said.get("DMIProductName"),
        model=models.pop() if len(models) == 1 else None,
        cpus=cpus,
        caches=_caches(objects),
        numa=_numa(nodes, own, root, _distances(topology, objects, nodes)),
        pci=pci_functions(objects, node_of, warnings),
        devices=devices(objects, version, node_of),
        memory_bytes=None if nodes else number(root, "local_memory"),
        warnings=tuple(warnings),
    )


def _cpus(
    objects: Sequence[Placed], root: Element, homes: dict[int, int], kinds: dict[int, CoreKind]
) -> tuple[tuple[Cpu, ...], list[str]]:
    """The CPUs by id, and a warning that names those the file counts but does not describe."""
    online = cpu_set(root, "online_cpuset")
    allowed = cpu_set(root, "allowed_cpuset")
    by_id: dict[int, Cpu] = {}
    for element, above in objects:
        cpu = kernel_id(element) if type_of(element) == "PU" else None
        if cpu is None:
            continue
        if cpu in by_id:
            raise ValueError(f"CPU {cpu} is listed twice; the file describes several machines or is damaged")
        core = enclosing(above, "Core")
        cluster = next((group for group in reversed(above) if group.get("subtype") == "Cluster"), None)
        by_id[cpu] = Cpu(
            id=cpu,
            online=online is None or cpu in online,
            allowed=allowed is None or cpu in allowed,
            package=number(enclosing(above, "Package")),
            die=number(enclosing(above, "Die")),
            cluster=number(cluster),
            core=number(core),
            numa=homes.get(cpu),
            siblings=EMPTY if core is None else cpu_set(core) or EMPTY,
            kind=kinds.get(cpu),
        )
    absent = (cpu_set(root, "complete_cpuset") or EMPTY) - CpuSet(by_id)
    warnings = (
        [f"CPUs {absent} are offline or forbidden; hwloc does not say which"] if by_id and absent else []
    )
    return tuple(by_id[cpu] for cpu in sorted(by_id)), warnings


def _caches(objects: Sequence[Placed]) -> tuple[Cache, ...]:
    caches = set()
    for element, _ in objects:
        match = _CACHE.fullmatch(type_of(element))
        level = number(element, "depth")
        cpus = cpu_set(element)
        if match and level and cpus:
            kind = _CACHE_TYPES.get(element.get("cache_type", "2" if match[1] else "0"), "Unified")
            caches.add(Cache(level, kind, cpus, number(element, "cache_size") or None))
    return ordered_caches(caches)


def _node_elements(objects: Sequence[Placed]) -> dict[int, Element]:
    nodes: dict[int, Element] = {}
    for element, _ in objects:
        node = kernel_id(element) if type_of(element) == "NUMANode" else None
        if node is not None and nodes.setdefault(node, element) is not element:
            raise ValueError(
                f"NUMA node {node} is listed twice; the file describes several machines or is damaged"
            )
    return dict(sorted(nodes.items()))


def _homes(nodes: dict[int, Element]) -> dict[int, int]:
    """CPU -> its own node; see the module's text for nodes that name the same CPUs."""
    own_first = sorted(nodes, key=lambda node: (_memory_kind(nodes[node]) not in {None, "dram"}, node))
    homes, _ = home_nodes({node: cpu_set(nodes[node]) or EMPTY for node in own_first})
    return homes


def _numa(
    nodes: dict[int, Element], own: dict[int, CpuSet], root: Element, distances: _Distances
) -> tuple[NumaNode, ...]:
    allowed = cpu_set(root, "allowed_nodeset")
    return tuple(
        NumaNode(
            id=node,
            cpus=own[node],
            memory_bytes=number(element, "local_memory"),
            hugepages=_huge_pages(element),
            distances=tuple(sorted(distances.get(node, {}).items())),
            kind=_memory_kind(element),
            nearest_cpus=cpu_set(element) or EMPTY,
            allowed=allowed is None or node in allowed,
        )
        for node, element in nodes.items()
    )


def _huge_pages(node: Element) -> tuple[HugePages, ...]:
    """The page sizes above the smallest, which is the ordinary one."""
    pools = {
        size: number(page, "count") or 0
        for page in node.iterfind("page_type")
        if (size := number(page, "size"))
    }
    return tuple(HugePages(size, pools[size]) for size in sorted(pools)[1:])


def _memory_kind(node: Element) -> MemoryKind | None:
    subtype = node.get("subtype", "").upper()
    return next((kind for word, kind in _MEMORY_KINDS if word in subtype), None)


def _core_kinds(topology: Element) -> dict[int, CoreKind]:
    """P or E by the processor's own name for its cores, else by efficiency where there are exactly two kinds."""
    named: dict[int, CoreKind] = {}
    ranked: dict[int, CpuSet] = {}
    kinds = topology.findall("cpukind")
    for kind in kinds:
        cpus = parse_mask(kind.get("cpuset", "0x0"))
        if core_type := _CORE_TYPES.get(infos(kind).get("CoreType", "")):
            named.update(dict.fromkeys(cpus, core_type))
        if (rank := number(kind, "forced_efficiency")) is not None:
            ranked[rank] = ranked.get(rank, EMPTY) | cpus
    if named or len(kinds) != 2 or len(ranked) != 2:
        return named
    slow, fast = (ranked[rank] for rank in sorted(ranked))
    return {**dict.fromkeys(slow, "E"), **dict.fromkeys(fast, "P")}


def _distances(topology: Element, objects: Sequence[Placed], nodes: dict[int, Element]) -> _Distances:
    """The matrix of latencies between NUMA nodes, from wherever the version keeps it."""
    for matrix in topology.iterfind("distances2"):
        kind = number(matrix, "kind") or 0
        if matrix.get("type") == "NUMANode" and kind & _MEANS_LATENCY:
            indexes = _numbers(matrix, "indexes", len(nodes))
            if matrix.get("indexing") == "gp":
                by_gp = {number(element, "gp_index"): node for node, element in nodes.items()}
                indexes = [by_gp.get(index, -1) for index in indexes]
            return _square(indexes, _numbers(matrix, "u64values", len(nodes) ** 2), nodes)
    return _old_distances(objects, nodes)


def _old_distances(objects: Sequence[Placed], nodes: dict[int, Element]) -> _Distances:
    """Version 1 keeps the matrix with an object above the nodes, as ratios to a base, in the order of the nodes.

    That order is the file's where all nodes are at one depth; elsewhere it is not certain, and nothing is taken.
    """
    numa_elements = [(element, len(above)) for element, above in objects if type_of(element) == "NUMANode"]
    if len({depth for _, depth in numa_elements}) != 1:
        return {}
    for holder, _ in objects:
        for matrix in holder.iterfind("distances"):
            base = matrix.get("latency_base", "")
            values = [latency.get("value", "") for latency in matrix.iterfind("latency")]
            if len(values) == len(nodes) ** 2 and all(map(_RATIO.fullmatch, (base, *values))):
                scaled = [round(Fraction(value) * Fraction(base)) for value in values]
                return _square([number(element) or 0 for element, _ in numa_elements], scaled, nodes)
    return {}


def _square(indexes: Sequence[int], values: Sequence[int], nodes: dict[int, Element]) -> _Distances:
    width = len(indexes)
    if len(values) != width**2 or not set(indexes) <= nodes.keys():
        return {}
    return {
        row: dict(zip(indexes, values[at * width : (at + 1) * width], strict=True))
        for at, row in enumerate(indexes)
    }


def _numbers(matrix: Element, name: str, most: int) -> list[int]:
    """The numbers of all elements of that name, which hwloc breaks into short runs; nothing if beyond `most`."""
    parts = [part.text or "" for part in matrix.iterfind(name)]
    if sum(map(len, parts)) > 22 * most:
        return []
    words = " ".join(parts).split()
    return [int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 21]
