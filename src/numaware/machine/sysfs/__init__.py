"""A machine as its Linux kernel describes it in `/sys` and `/proc`, live or captured.

Each module reads one subject from a `Source`; this one puts the parts together. Where the files contradict
each other or lstopo, the kernel's own numbers win and nothing is left out: CPUs and nodes that are off-line
or forbidden by a cgroup are listed as such.
"""

from __future__ import annotations

import msgspec

from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.sysfs.caches import read_caches
from numaware.machine.sysfs.cgroup import read_allowed
from numaware.machine.sysfs.cpuinfo import read_cpuinfo
from numaware.machine.sysfs.cpus import CPU, read_cpus
from numaware.machine.sysfs.devices import read_devices
from numaware.machine.sysfs.identity import read_architecture, read_product, read_vendor
from numaware.machine.sysfs.kinds import read_kinds
from numaware.machine.sysfs.numa import memory_total, read_nodes
from numaware.machine.sysfs.pci import read_pci
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import Machine
from numaware.machine.tree import Tree

__all__ = ["read"]


def read(tree: Tree) -> Machine:
    """The machine in the tree; an InputError only if it shows no CPU at all."""
    source = Source(tree)
    info = read_cpuinfo(source)
    cpus = read_cpus(source, info)
    online = CpuSet(cpu.id for cpu in cpus if cpu.online).mask
    allowed = read_allowed(source)
    nodes = read_nodes(source, online, allowed.nodes, knights_landing=info.is_knights_landing())
    node_of = {cpu: node.id for node in reversed(nodes) for cpu in node.cpus}
    kinds = read_kinds(source, cpus)
    caches = read_caches(source, cpus)
    pci = read_pci(source)
    total = memory_total(source, "proc/meminfo")
    return Machine(
        architecture=read_architecture(source, info),
        vendor=read_vendor(source),
        product=read_product(source),
        model=info.model,
        cpus=tuple(
            msgspec.structs.replace(
                cpu,
                numa=node_of.get(cpu.id),
                kind=kinds.get(cpu.id) if cpu.online else None,
                allowed=allowed.cpus is None or bool(allowed.cpus >> cpu.id & 1),
            )
            for cpu in cpus
        ),
        caches=caches,
        numa=nodes,
        pci=pci,
        devices=read_devices(source, pci),
        isolated=_set(source, f"{CPU}/isolated"),
        nohz_full=_set(source, f"{CPU}/nohz_full"),
        memory_bytes=total if total is not None else sum(node.memory_bytes or 0 for node in nodes) or None,
        warnings=source.warnings,
    )


def _set(source: Source, path: str) -> CpuSet:
    """A list of CPUs that old kernels leave out and some print as `(null)` where there are none."""
    data = source.raw(path)
    if data is None or b"null" in data:
        return EMPTY
    return CpuSet.from_mask(source.cpu_list(path) or 0)
