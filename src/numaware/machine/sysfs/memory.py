"""What kind of memory a NUMA node without CPUs is made of, and the evidence for it.

The kernel never says "this is HBM". It is worked out from the driver that brought the memory in (NVIDIA's, or
`kmem` for a DAX device whose path tells NVDIMM from CXL), from the bandwidth firmware promises, from the
kernel's memory tiers and, for Knights Landing, from the processor. Without any of them the kind stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from numaware.machine.cpuset import iter_bits
from numaware.machine.sysfs.source import Source, numbered
from numaware.machine.topology import MemoryKind

NODE = "sys/devices/system/node"

_NVIDIA = "proc/driver/nvidia/gpus"
_DAX = "sys/bus/dax"
_TIERS = "sys/devices/virtual/memory_tiering"
_GPU_NODE = re.compile(r"Node:\s*(\d{1,5})\b")


def gpu_nodes(source: Source) -> dict[int, str]:
    """Nodes that are the memory of an NVIDIA GPU, with the GPU's PCI address."""
    addresses = {}
    for address in source.names(_NVIDIA):
        node = _GPU_NODE.search(source.text(f"{_NVIDIA}/{address}/numa_status") or "")
        if node:
            addresses[int(node[1])] = address.lower()
    return addresses


def memory_kinds(
    source: Source, with_cpus: Iterable[int], without_cpus: Iterable[int], *, knights_landing: bool
) -> dict[int, MemoryKind]:
    """The kind of each node that has memory and whose kind is known."""
    ordinary, special = list(with_cpus), list(without_cpus)
    kinds: dict[int, MemoryKind] = dict.fromkeys(ordinary, "dram")
    if not special:
        return kinds
    devices = _dax_kinds(source)
    faster = _faster(source, ordinary, special)
    for node in special:
        if node in devices:
            kinds[node] = devices[node]
        elif node in faster or knights_landing:
            kinds[node] = "hbm"
    return kinds


def _dax_kinds(source: Source) -> dict[int, MemoryKind]:
    """Nodes made of a DAX device that `kmem` turned into ordinary memory."""
    kinds: dict[int, MemoryKind] = {}
    for name in source.names(f"{_DAX}/drivers/kmem"):
        node = source.known(f"{_DAX}/devices/{name}/target_node") if name.startswith("dax") else None
        path = source.tree.readlink(f"{_DAX}/devices/{name}") or ""
        if node is None:
            continue
        # ACPI0017 is the CXL root; without it a device on an NVDIMM bus is an NVDIMM.
        if "ACPI0017" in path or "/cxl" in path:
            kinds[node] = "cxl"
        elif "/ndbus" in path:
            kinds[node] = "nvm"
    return kinds


def _faster(source: Source, ordinary: list[int], special: list[int]) -> set[int]:
    """Nodes that are much faster than the memory beside the CPUs, by firmware's tables or the kernel's tiers."""
    bandwidths = [speed for node in ordinary if (speed := _bandwidth(source, node))]
    tiers = _tiers(source)
    ordinary_tiers = [tiers[node] for node in ordinary if node in tiers]
    faster = set()
    for node in special:
        bandwidth = _bandwidth(source, node)
        # Between DRAM in this socket and in the next there is a factor below two; HBM has several times DRAM's.
        if bandwidth and bandwidths and bandwidth >= 2 * min(bandwidths):
            faster.add(node)
        if node in tiers and ordinary_tiers and tiers[node] < min(ordinary_tiers):
            faster.add(node)
    return faster


def _bandwidth(source: Source, node: int) -> int | None:
    """What the nearest CPUs get from the node; access class 0 counts accelerators too and is the older one."""
    folder = f"{NODE}/node{node}"
    for_cpus = source.known(f"{folder}/access1/initiators/read_bandwidth")
    return for_cpus or source.known(f"{folder}/access0/initiators/read_bandwidth")


def _tiers(source: Source) -> dict[int, int]:
    """The memory tier of each node; a lower number is faster memory."""
    return {
        node: tier
        for tier in numbered(source.names(_TIERS), "memory_tier")
        for node in iter_bits(source.cpu_list(f"{_TIERS}/memory_tier{tier}/nodelist") or 0)
    }
