"""Cores for a machine whose source tells none, as `numactl --hardware` does; who assumes them says so."""

from __future__ import annotations

import msgspec

from numaware.machine.topology import Machine


def with_cores(machine: Machine) -> Machine:
    """The machine, each CPU without a core taken for a core of its own, in the package of its NUMA node."""
    cpus = tuple(
        cpu
        if cpu.siblings or cpu.core is not None
        else msgspec.structs.replace(cpu, core=cpu.id, package=cpu.numa)
        for cpu in machine.cpus
    )
    return msgspec.structs.replace(machine, cpus=cpus)
