"""The parts of a machine as a tree (package > NUMA node > shared cache > cores), and the folding of alike parts.

A part holds one entry for each instance it stands for. Alike neighbours merge position by position, all the way
down, so that 64 equal nodes become one part with 64 numbers, and nothing that differs is ever folded away.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby

import msgspec

from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.drawing.box import Core, Role
from numaware.machine.drawing.devices import Hardware
from numaware.machine.topology import Cache, Cpu, Machine, NumaNode


class Part(msgspec.Struct, frozen=True):
    """A package, a NUMA node or a group of cores. `shape` is equal for parts that look alike apart from their numbers."""

    role: Role
    shape: Hashable
    ids: tuple[int | None, ...] = (None,)
    cpus: tuple[CpuSet, ...] = ()
    cores: tuple[Core, ...] = ()
    cache: Cache | None = None
    nodes: tuple[NumaNode, ...] = ()
    hardware: tuple[tuple[Hardware, ...], ...] = ()
    children: tuple[Part, ...] = ()


def fold(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Alike neighbours as one part."""
    folded: list[Part] = []
    for _, group in groupby(parts, key=lambda part: part.shape):
        folded += [_merge(run) for run in _runs_of_memory(list(group))]
    return tuple(folded)


def _runs_of_memory(parts: list[Part]) -> Iterable[list[Part]]:
    """Split where memory differs by more than firmware takes for itself: a missing module must not be folded away."""
    run: list[Part] = []
    for part in parts:
        sizes = zip(_memory(run[0]), _memory(part), strict=False) if run else ()
        if any(abs(a - b) * 16 > max(a, b) for a, b in sizes):
            yield run
            run = []
        run.append(part)
    yield run


def _memory(part: Part) -> list[int]:
    own = [node.memory_bytes or 0 for node in part.nodes]
    return own + [amount for child in part.children for amount in _memory(child)]


def _merge(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    return msgspec.structs.replace(
        parts[0],
        ids=tuple(number for part in parts for number in part.ids),
        cpus=tuple(cpus for part in parts for cpus in part.cpus),
        nodes=tuple(node for part in parts for node in part.nodes),
        hardware=tuple(devices for part in parts for devices in part.hardware),
        children=tuple(
            _merge(list(column)) for column in zip(*(part.children for part in parts), strict=True)
        ),
    )


class Survey:
    """A machine indexed once, and its parts built from it."""

    def __init__(
        self, machine: Machine, hardware: tuple[Hardware, ...], *, fold_caches: bool, fold_nodes: bool
    ) -> None:
        self.machine = machine
        self.fold_caches = fold_caches
        self.fold_nodes = fold_nodes
        self.cpus = {cpu.id: cpu for cpu in machine.cpus}
        self.nodes = {node.id: node for node in machine.numa}
        self.hardware: dict[int | None, list[Hardware]] = {}
        for item in hardware:
            self.hardware.setdefault(item.numa, []).append(item)
        self.members: dict[int | None, list[Cpu]] = {}
        self.in_package: dict[int | None, list[int]] = {}
        for cpu in machine.cpus:
            self.members.setdefault(cpu.numa, []).append(cpu)
            self.in_package.setdefault(cpu.package, []).append(cpu.id)
        level = max((cache.level for cache in machine.caches if cache.type == "Unified"), default=0)
        self.caches = [cache for cache in machine.caches if cache.level == level and cache.type == "Unified"]
        self.cache_of = {number: cache for cache in self.caches for number in cache.cpus}

    def top(self) -> tuple[Part, ...]:
        """Packages with their nodes, then nodes that stand in no single package, then CPUs no node has."""
        inside: dict[int | None, list[Part]] = {}
        for number in sorted({*self.nodes, *(n for n in self.hardware if n is not None)}):
            node = self.node(number)
            homes = self.packages_of(node)
            inside.setdefault(homes[0] if len(homes) == 1 else None, []).append(node)
        for package, stray in self.strays().items():
            inside.setdefault(package, []).append(stray)
        # A machine of one node per package reads the same either way; the package box is kept, as people count sockets.
        packages = [
            self.package(number, inside[number]) for number in sorted(n for n in inside if n is not None)
        ]
        parts = (*packages, *inside.get(None, ()))
        return fold(parts) if self.fold_nodes else parts

    def package(self, number: int, nodes: list[Part]) -> Part:
        cpus = CpuSet(self.in_package.get(number, ()))
        shape = ("package", tuple(node.shape for node in nodes))
        children = fold(nodes) if self.fold_nodes else tuple(nodes)
        return Part("package", shape, ids=(number,), cpus=(cpus,), children=children)

    def node(self, number: int) -> Part:
        known = self.nodes.get(number, NumaNode(number))
        members = self.members.get(number, [])
        children = self.groups(members)
        hardware = tuple(self.hardware.get(number, ()))
        shape = (
            "numa",
            number in self.nodes,
            known.kind,
            known.allowed,
            bool(known.memory_bytes),
            tuple((pool.size_bytes, pool.total) for pool in known.hugepages),
            len(known.cpus),
            tuple(child.shape for child in children),
            tuple((item.kind, item.make) for item in hardware),
        )
        return Part(
            "numa",
            shape,
            ids=(number,),
            cpus=(known.cpus or CpuSet(cpu.id for cpu in members),),
            nodes=(known,),
            hardware=(hardware,),
            children=fold(children) if self.fold_caches else children,
        )

    def strays(self) -> dict[int | None, Part]:
        """CPUs without a NUMA node, by package: all of them where the kernel has no NUMA, else the offline ones."""
        by_package: dict[int | None, list[Cpu]] = {}
        for cpu in self.members.get(None, []):
            if cpu.online:
                by_package.setdefault(cpu.package, []).append(cpu)
        strays = {}
        for package, members in by_package.items():
            children = self.groups(members)
            shape = ("stray", tuple(child.shape for child in children))
            folded = fold(children) if self.fold_caches else children
            cpus = CpuSet(cpu.id for cpu in members)
            strays[package] = Part("numa", shape, cpus=(cpus,), children=folded)
        return strays

    def packages_of(self, node: Part) -> list[int]:
        """The packages of the node's CPUs, or for memory without CPUs of the CPUs it is nearest to."""
        near = node.cpus[0] or node.nodes[0].nearest_cpus
        packages = {self.cpus[number].package for number in near if number in self.cpus}
        return sorted(package for package in packages if package is not None)

    def groups(self, members: list[Cpu]) -> tuple[Part, ...]:
        """The cores of one place, by the last cache they share."""
        cores = self.cores(members)
        by_cache: dict[CpuSet, list[Core]] = {}
        for core in cores:
            cache = self.cache_of.get(core.threads.first())
            by_cache.setdefault(cache.cpus if cache else EMPTY, []).append(core)
        # A cache of each core's own divides nothing: one group then says it for all.
        if by_cache and all(len(group) == 1 for group in by_cache.values()) and len(by_cache) > 1:
            by_cache = {EMPTY: cores}
        return tuple(self.group(group, bool(key)) for key, group in by_cache.items())

    def group(self, cores: list[Core], shares_cache: bool) -> Part:
        cpus = CpuSet.union(core.threads for core in cores)
        cache = self.cache_of.get(cores[0].threads.first()) if shares_cache else None
        shape = (
            None if cache is None else (cache.level, cache.size_bytes, cache.cpus <= cpus),
            tuple((len(core.threads), core.kind, core.marks, core.known) for core in cores),
        )
        return Part("cache" if cache else "cores", shape, cpus=(cpus,), cores=tuple(cores), cache=cache)

    def cores(self, members: list[Cpu]) -> list[Core]:
        """Threads gathered into cores, by the first thread."""
        here = CpuSet(cpu.id for cpu in members)
        seen = EMPTY
        cores = []
        for cpu in members:
            if cpu.id in seen:
                continue
            threads = (cpu.siblings & here) | CpuSet([cpu.id])
            seen |= threads
            cores.append(
                Core(
                    threads,
                    cpu.kind,
                    offline=CpuSet(n for n in threads if not self.cpus[n].online),
                    isolated=threads & self.machine.isolated,
                    forbidden=CpuSet(n for n in threads if not self.cpus[n].allowed),
                    known=bool(cpu.siblings) or not cpu.online,
                )
            )
        return cores
