"""Logical CPUs: which exist, which are on-line, and which share a core, a cluster, a die, a package."""

from __future__ import annotations

from numaware.errors import InputError
from numaware.machine.cpuset import MAX_ID, CpuSet, iter_bits
from numaware.machine.sysfs.cpuinfo import CpuInfo
from numaware.machine.sysfs.source import Source, numbered
from numaware.machine.topology import Cpu

CPU = "sys/devices/system/cpu"


def read_cpus(source: Source, info: CpuInfo) -> list[Cpu]:
    """Every CPU the kernel has a directory for, off-line ones included, ascending."""
    ids = numbered(source.tree.names(CPU), "cpu", MAX_ID)
    known = source.cpu_list(f"{CPU}/online")
    if not ids:
        ids = list(iter_bits(known or 0)) or sorted(info.blocks)
    if not ids:
        raise InputError(
            source.tree.source, "no CPU is found in it", hint=f"expected {CPU}/cpu0 or proc/cpuinfo"
        )
    if known is None:
        online = [cpu for cpu in ids if source.number(f"{CPU}/cpu{cpu}/online") != 0]
    else:
        online = [cpu for cpu in ids if known >> cpu & 1]
    present = CpuSet(online).mask
    cores = _Cores(source, info, present)
    found = {cpu: cores.describe(cpu) for cpu in online}
    packages = _packages(source, found)
    return [
        Cpu(id=cpu, online=False)
        if cpu not in found
        else found[cpu]
        if found[cpu].package is not None
        else _in_package(found[cpu], packages.get(cpu))
        for cpu in ids
    ]


class _Cores:
    """What the topology directory of each CPU says, or /proc/cpuinfo where the kernel makes none."""

    def __init__(self, source: Source, info: CpuInfo, online: int) -> None:
        self._source = source
        self._info = info
        self._online = online
        # Kernels before 5.2 call the threads of a core `thread_siblings`, later ones also `core_cpus`.
        self._sibling_names = ("thread_siblings", "core_cpus")
        self._by_core: dict[tuple[int, int], int] | None = None

    def describe(self, cpu: int) -> Cpu:
        source = self._source
        folder = f"{CPU}/cpu{cpu}/topology"
        siblings = self._siblings(folder)
        if siblings is None and not source.tree.names(folder):
            return self._from_cpuinfo(cpu)
        return Cpu(
            id=cpu,
            package=source.known(f"{folder}/physical_package_id"),
            die=source.known(f"{folder}/die_id"),
            cluster=source.known(f"{folder}/cluster_id"),
            core=source.known(f"{folder}/core_id"),
            siblings=CpuSet.from_mask((siblings or 0) & self._online | 1 << cpu),
        )

    def _siblings(self, folder: str) -> int | None:
        first, second = self._sibling_names
        found = self._source.either(f"{folder}/{first}", f"{folder}/{first}_list")
        if found is None:
            found = self._source.either(f"{folder}/{second}", f"{folder}/{second}_list")
            if found is not None:
                self._sibling_names = (second, first)
        return found

    def _from_cpuinfo(self, cpu: int) -> Cpu:
        if self._by_core is None:
            self._by_core = {}
            for other in self._info.blocks:
                if self._online >> other & 1 and (place := self._place(other)) is not None:
                    self._by_core[place] = self._by_core.get(place, 0) | 1 << other
        place = self._place(cpu)
        siblings = self._by_core[place] if place is not None else 1 << cpu
        return Cpu(
            id=cpu,
            package=self._info.number(cpu, "physical id"),
            core=self._info.number(cpu, "core id"),
            siblings=CpuSet.from_mask(siblings),
        )

    def _place(self, cpu: int) -> tuple[int, int] | None:
        package, core = self._info.number(cpu, "physical id"), self._info.number(cpu, "core id")
        return None if package is None or core is None else (package, core)


def _packages(source: Source, cpus: dict[int, Cpu]) -> dict[int, int]:
    """A package number for each CPU whose kernel does not number packages but tells who shares one.

    Virtual machines and some POWER, s390 and RISC-V kernels say -1 for every package while `core_siblings`
    is right. Numbering the sets in the order of their first CPU is what lscpu does.
    """
    numbers: dict[int, int] = {}
    result: dict[int, int] = {}
    unnumbered = [cpu for cpu, found in cpus.items() if found.package is None]
    taken = {found.package for found in cpus.values() if found.package is not None}
    free = (number for number in range(MAX_ID + 1) if number not in taken)
    for cpu in unnumbered:
        folder = f"{CPU}/cpu{cpu}/topology"
        together = source.either(f"{folder}/core_siblings", f"{folder}/core_siblings_list")
        if together is None:
            together = source.either(f"{folder}/package_cpus", f"{folder}/package_cpus_list")
        if together is not None and together >> cpu & 1:
            if together not in numbers:
                numbers[together] = next(free)
            result[cpu] = numbers[together]
    if numbers:
        source.warn(
            f"{CPU}/cpu{min(result)}/topology/physical_package_id",
            "the kernel does not number the packages; they are numbered in the order of their first CPU",
        )
    return result


def _in_package(cpu: Cpu, package: int | None) -> Cpu:
    return Cpu(
        cpu.id, package=package, die=cpu.die, cluster=cpu.cluster, core=cpu.core, siblings=cpu.siblings
    )
