"""Metrics of the NUMA nodes: what they are, what their CPUs and memory do, and how local memory is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping

from numaware.machine import sysfs
from numaware.machine.codec import page_size_name
from numaware.machine.cpuset import iter_bits
from numaware.machine.sysfs.memory import NODE
from numaware.machine.sysfs.numa import read_huge_pages
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree
from numaware.node.exporter import kernel
from numaware.node.exporter.families import Family, Sample, counter, gauge, info

_TICKS = os.sysconf("SC_CLK_TCK")
# A machine changes when a CPU or memory is plugged in, and reading all of it takes longer than the rest of a scrape.
_MACHINE_SECONDS = 300.0
# Device functions that are listed one by one; a switch full of virtual functions would be thousands.
_MOST_DEVICES = 256
# Bridges and the like are no devices that anybody places a pod by.
_DEVICE_CLASSES = {"01": "storage", "02": "network", "03": "gpu", "0b": "processor", "12": "accelerator"}
# The kernel's name -> name in the metric, and what it is.
_MEMORY = {
    "MemTotal": ("total", "Memory"),
    "MemFree": ("free", "Memory that nobody uses"),
    "MemUsed": ("used", "Memory that is used"),
    kernel.AVAILABLE: ("available", "Memory that could be had: free, file cache and reclaimable slab"),
    "FilePages": ("filecache", "File cache"),
    "AnonPages": ("anon", "Anonymous memory"),
    "Slab": ("slab", "Slab memory of the kernel"),
}
_LOCALITY = {
    "numa_hit": ("hit", "Pages allocated here as intended."),
    "numa_miss": ("miss", "Pages allocated here although another NUMA node was preferred."),
    "numa_foreign": ("foreign", "Pages meant for here that were allocated elsewhere."),
    "interleave_hit": ("interleave_hit", "Interleaved pages allocated here as intended."),
    "local_node": ("local", "Pages allocated here by a CPU of this NUMA node."),
    "other_node": ("other", "Pages allocated here by a CPU of another NUMA node."),
}


class MachineMetrics:
    """Reads the files below `root` each time it is asked."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._machine: Machine | None = None
        self._read_at = 0.0
        # NUMA node -> ticks that were busy, and all of them, at the scrape before.
        self._before: dict[int, tuple[int, int]] = {}
        # What is told of the machine itself, until it is read again.
        self._static: list[Family] = []

    def machine(self) -> Machine:
        """The machine, read again once in a while."""
        now = time.monotonic()
        if self._machine is None or now - self._read_at > _MACHINE_SECONDS:
            self._machine = sysfs.read(open_tree(self._root))
            self._static = list(_topology(self._machine))
            self._read_at = now
        return self._machine

    def collect(self, source: Source) -> Iterator[Family]:
        machine = self.machine()
        for warning in machine.warnings[:1]:
            source.warn("sysfs", warning)
        yield from self._static
        yield from self._cpu_time(machine, source)
        sizes = _by_name(machine, lambda numa: kernel.memory(source, numa))
        for field, (name, what) in _MEMORY.items():
            text = f"{what} of the NUMA node."
            yield gauge(f"numa_node_memory_{name}_bytes", text, ["numa"], sizes.get(field, []))
        yield from _huge_pages(machine, source)
        pages = _by_name(machine, lambda numa: kernel.locality(source, numa))
        for field, (name, text) in _LOCALITY.items():
            yield counter(f"numa_node_{name}_pages", text, ["numa"], pages.get(field, []))

    def _cpu_time(self, machine: Machine, source: Source) -> Iterator[Family]:
        ticks = kernel.ticks(source)
        seconds: list[Sample] = []
        ratios: list[Sample] = []
        for numa in machine.numa:
            members = [ticks[cpu] for cpu in iter_bits(numa.cpus.mask) if cpu in ticks]
            if not members:
                continue
            sums = {
                mode: sum(member[place] for member in members if place < len(member))
                for place, mode in enumerate(kernel.MODES)
            }
            seconds += [((str(numa.id), mode), count / _TICKS) for mode, count in sums.items()]
            total = sum(sums.values())
            busy = total - sum(sums[mode] for mode in kernel.IDLE)
            before_busy, before_total = self._before.get(numa.id, (0, 0))
            # The kernel's idle time may step back a little.
            if total > before_total:
                share = (busy - before_busy) / (total - before_total)
                ratios.append(((str(numa.id),), min(1.0, max(0.0, share))))
            self._before[numa.id] = (busy, total)
        yield counter("numa_node_cpu_seconds", "CPU time by what it was spent on.", ["numa", "mode"], seconds)
        yield gauge(
            "numa_node_cpu_usage_ratio",
            "Share of CPU time that was not idle since the last scrape (since boot, at the first).",
            ["numa"],
            ratios,
        )


def _topology(machine: Machine) -> Iterator[Family]:
    yield gauge("numa_nodes", "NUMA nodes of the machine.", [], [((), len(machine.numa))])
    cpus = [((str(numa.id),), len(numa.cpus)) for numa in machine.numa]
    yield gauge("numa_node_cpus_count", "Online CPUs of the NUMA node.", ["numa"], cpus)
    packages = {cpu.id: cpu.package for cpu in machine.cpus}
    nodes = []
    for numa in machine.numa:
        sockets = sorted({packages[cpu] for cpu in numa.cpus if packages.get(cpu) is not None}, key=str)
        nodes.append((str(numa.id), str(numa.cpus), ",".join(map(str, sockets)), numa.kind or ""))
    labels = ["numa", "cpulist", "socket", "kind"]
    yield info("numa_node", "What the NUMA node is made of.", labels, nodes)
    yield gauge(
        "numa_node_distance",
        "Distance to another NUMA node as firmware tells it; 10 is local.",
        ["numa", "to"],
        [
            ((str(numa.id), str(other)), distance)
            for numa in machine.numa
            for other, distance in numa.distances
        ],
    )
    devices = [
        (str(function.numa), function.address, kind)
        for function in machine.pci
        if (kind := _DEVICE_CLASSES.get(function.class_code[:2])) and function.numa is not None
    ]
    labels = ["numa", "device", "class"]
    yield info("numa_node_device", "A PCI device of the NUMA node.", labels, devices[:_MOST_DEVICES])


def _by_name(machine: Machine, read: Callable[[int], Mapping[str, int]]) -> dict[str, list[Sample]]:
    """The kernel's name -> a sample for each NUMA node that `read` knows it of."""
    values: dict[str, list[Sample]] = {}
    for numa in machine.numa:
        for name, number in read(numa.id).items():
            values.setdefault(name, []).append(((str(numa.id),), number))
    return values


def _huge_pages(machine: Machine, source: Source) -> Iterator[Family]:
    total: list[Sample] = []
    free: list[Sample] = []
    for numa in machine.numa:
        for pool in read_huge_pages(source, f"{NODE}/node{numa.id}/hugepages"):
            if pool.free is not None:
                values = (str(numa.id), page_size_name(pool.size_bytes))
                total.append((values, pool.total))
                free.append((values, pool.free))
    labels = ["numa", "size"]
    yield gauge("numa_node_hugepages", "Huge pages of the NUMA node, in pages.", labels, total)
    yield gauge("numa_node_hugepages_free", "Huge pages that nobody uses, in pages.", labels, free)
