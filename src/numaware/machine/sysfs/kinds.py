"""Performance and efficiency cores, where a machine has both."""

from __future__ import annotations

from numaware.machine.cpuset import iter_bits
from numaware.machine.sysfs.cpus import CPU
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import CoreKind, Cpu


def read_kinds(source: Source, cpus: list[Cpu]) -> dict[int, CoreKind]:
    """The kind of each CPU of a hybrid machine; nothing for a machine whose cores are all alike."""
    online = [cpu for cpu in cpus if cpu.online]
    return _by_counters(source) or _by_capacity(source, online) or _by_frequency(source, online)


def _by_counters(source: Source) -> dict[int, CoreKind]:
    """Intel kernels since 5.13 have a device of performance counters for each kind of core."""
    performance = source.cpu_list("sys/devices/cpu_core/cpus") or 0
    efficiency = (source.cpu_list("sys/devices/cpu_atom/cpus") or 0) | (
        source.cpu_list("sys/devices/cpu_lowpower/cpus") or 0
    )
    if not (performance and efficiency):
        return {}
    kinds: dict[int, CoreKind] = dict.fromkeys(iter_bits(performance), "P")
    return kinds | dict.fromkeys(iter_bits(efficiency), "E")


def _by_capacity(source: Source, cpus: list[Cpu]) -> dict[int, CoreKind]:
    """ARM and RISC-V kernels rate each CPU against the best one (1024)."""
    capacity = _per_core(source, cpus, "cpu_capacity")
    if not capacity or 4 * max(capacity.values()) < 5 * min(capacity.values()):
        return {}
    least = min(capacity.values())
    return {cpu: "E" if 4 * rated < 5 * least else "P" for cpu, rated in capacity.items()}


def _by_frequency(source: Source, cpus: list[Cpu]) -> dict[int, CoreKind]:
    """Older kernels only show that some cores have a lower base frequency and a lower top one too.

    Favoured cores of one kind differ in one of the two, never in both; and no efficiency core has threads.
    """
    base = _per_core(source, cpus, "cpufreq/base_frequency")
    if not base or 10 * max(base.values()) < 11 * min(base.values()):
        return {}
    top = _per_core(source, cpus, "cpufreq/cpuinfo_max_freq")
    slow = {cpu for cpu, frequency in base.items() if 10 * frequency < 11 * min(base.values())}
    fast = base.keys() - slow
    threads = {cpu.id: len(cpu.siblings) for cpu in cpus}
    if base.keys() != top.keys() or any(threads[cpu] > 1 for cpu in slow):
        return {}
    if max(top[cpu] for cpu in slow) >= min(top[cpu] for cpu in fast):
        return {}
    return {cpu: "E" if cpu in slow else "P" for cpu in base}


def _per_core(source: Source, cpus: list[Cpu], name: str) -> dict[int, int]:
    """A number of each CPU, read once for each core; empty unless every core has it."""
    numbers: dict[int, int] = {}
    for cpu in cpus:
        if cpu.id in numbers:
            continue
        number = source.known(f"{CPU}/cpu{cpu.id}/{name}")
        if not number:
            return {}
        numbers |= dict.fromkeys((cpu.id, *cpu.siblings), number)
    return numbers
