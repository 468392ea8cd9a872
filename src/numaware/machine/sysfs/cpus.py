"""Logical CPUs: which exist, which are on-line, and which share a core, a cluster, a die, a package."""

from __future__ import annotations

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import MAX_ID, CpuSet, grouped, iter_bits
from numaware.machine.sysfs.cpuinfo import CpuInfo
from numaware.machine.sysfs.source import Source, numbered
from numaware.machine.topology import Cpu

CPU = "sys/devices/system/cpu"
# The most any kernel can be built for; ids may be sparse, so there are higher ones.
_MAX_CPUS = 8192


def read_cpus(source: Source, info: CpuInfo) -> list[Cpu]:
    """Every CPU the kernel has a directory for, off-line ones included, ascending."""
    ids = numbered(source.names(CPU), "cpu")
    known = source.cpu_list(f"{CPU}/online")
    if not ids:
        ids = list(iter_bits(known or 0)) or sorted(info.blocks)
    if len(ids) > _MAX_CPUS:
        raise InputError(source.tree.source, f"has {len(ids)} CPUs; no kernel runs more than {_MAX_CPUS}")
    if not ids:
        raise InputError(
            source.tree.source, "no CPU is found in it", hint=f"expected {CPU}/cpu0 or proc/cpuinfo"
        )
    if known is None:
        online = [cpu for cpu in ids if source.number(f"{CPU}/cpu{cpu}/online") != 0]
    else:
        online = [cpu for cpu in ids if known >> cpu & 1]
    cores = _Cores(source, info, CpuSet(online).mask)
    described = _number_packages(source, cores, {cpu: cores.describe(cpu) for cpu in online})
    return [described[cpu] if cpu in described else Cpu(id=cpu, online=False) for cpu in ids]


class _Cores:
    """What the topology directory of each CPU says, or /proc/cpuinfo where the kernel makes none."""

    def __init__(self, source: Source, info: CpuInfo, online: int) -> None:
        self._source = source
        self._info = info
        self._online = online
        # A kernel has the same files for every CPU, so the first one tells which are worth asking for.
        self._files: frozenset[str] = frozenset()
        self._by_core: dict[tuple[int, int], CpuSet] | None = None

    def describe(self, cpu: int) -> Cpu:
        folder = f"{CPU}/cpu{cpu}/topology"
        if not self._files:
            self._files = frozenset(self._source.names(folder))
        if not self._source.tree.is_folder(folder):
            return self._from_cpuinfo(cpu)
        # Kernels before 5.2 call the threads of a core `thread_siblings`, later ones also `core_cpus`.
        siblings = self._shared(folder, "thread_siblings", "core_cpus") or 0
        return Cpu(
            id=cpu,
            package=self._id(folder, "physical_package_id"),
            die=self._id(folder, "die_id"),
            cluster=self._id(folder, "cluster_id"),
            core=self._id(folder, "core_id"),
            siblings=CpuSet.from_mask(siblings & self._online | 1 << cpu),
        )

    def package_mates(self, cpu: int) -> int | None:
        """The CPUs of the same package, as the kernel lists them."""
        return self._shared(f"{CPU}/cpu{cpu}/topology", "core_siblings", "package_cpus")

    def _id(self, folder: str, name: str) -> int | None:
        return self._source.known(f"{folder}/{name}") if name in self._files else None

    def _shared(self, folder: str, *names: str) -> int | None:
        for name in names:
            if name in self._files and (cpus := self._source.mask(f"{folder}/{name}")) is not None:
                return cpus
            listed = f"{name}_list"
            if listed in self._files and (cpus := self._source.cpu_list(f"{folder}/{listed}")) is not None:
                return cpus
        return None

    def _from_cpuinfo(self, cpu: int) -> Cpu:
        if self._by_core is None:
            self._by_core = grouped(
                (place, other)
                for other in self._info.blocks
                if self._online >> other & 1 and (place := self._place(other)) is not None
            )
        place = self._place(cpu)
        return Cpu(
            id=cpu,
            package=self._info.number(cpu, "physical id"),
            core=self._info.number(cpu, "core id"),
            siblings=self._by_core[place] if place is not None else CpuSet([cpu]),
        )

    def _place(self, cpu: int) -> tuple[int, int] | None:
        package, core = self._info.number(cpu, "physical id"), self._info.number(cpu, "core id")
        return None if package is None or core is None else (package, core)


def _number_packages(source: Source, cores: _Cores, cpus: dict[int, Cpu]) -> dict[int, Cpu]:
    """The CPUs with a package number also where the kernel gives none but tells who shares a package.

    Virtual machines and some POWER, s390 and RISC-V kernels say -1 for every package while the sets are
    right. Numbering the sets in the order of their first CPU is what lscpu does.
    """
    taken = {cpu.package for cpu in cpus.values()}
    free = (number for number in range(MAX_ID + 1) if number not in taken)
    numbers: dict[int, int] = {}
    result = dict(cpus)
    for cpu in cpus.values():
        mates = cores.package_mates(cpu.id) if cpu.package is None else None
        if mates is None or not mates >> cpu.id & 1:
            continue
        if not numbers:
            source.warn(
                f"{CPU}/cpu{cpu.id}/topology/physical_package_id",
                "the kernel does not number the packages; they are numbered in the order of their first CPU",
            )
        if mates not in numbers:
            numbers[mates] = next(free)
        result[cpu.id] = msgspec.structs.replace(cpu, package=numbers[mates])
    return result
