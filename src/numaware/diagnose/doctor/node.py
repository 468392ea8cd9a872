"""A node examined from its files: the machine, the kubelet with its files, the runtime under it, the system around it.

Every path lies below one root, so that `/`, a folder and an archive of a node are examined alike. The twin is started
with what is found and given the state files, as the kubelet would be at its next restart.
"""

from __future__ import annotations

from typing import NamedTuple

from numaware.diagnose.doctor import kubelet, system
from numaware.diagnose.doctor.check import Check, checked, trouble, unknown, worst_first
from numaware.diagnose.doctor.node_root import NodeRoot
from numaware.diagnose.finding import Finding, Message
from numaware.errors import InputError
from numaware.machine import sysfs
from numaware.machine.topology import Machine
from numaware.machine.tree import Tree
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.hardware import Hardware
from numaware.twin.inventory import hardware_of


class Examination(NamedTuple):
    """All checks, the worst first."""

    node: str
    checks: tuple[Check, ...]

    @property
    def findings(self) -> list[Finding]:
        return [one for check in self.checks for one in check.findings]


def examine(tree: Tree, version: str = DEFAULT_VERSION) -> Examination:
    """Look at all of it; what cannot be seen is unknown, never wrong."""
    root = NodeRoot(tree)
    name = (root.read("etc/hostname") or b"").decode(errors="replace").strip()[:80]
    machine, first = _machine(tree)
    hardware = _hardware(machine)
    processes = root.processes()
    setup = kubelet.find(root, processes, version)
    checks = [
        first,
        kubelet.process_check(processes),
        *kubelet.config_checks(setup, hardware),
        *kubelet.state_checks(root, setup, hardware),
        kubelet.podresources_check(root),
        kubelet.plugins_check(root, hardware),
        system.runtime_check(root, processes),
        system.cgroup_check(root, setup.settings_text("failCgroupV1"), version),
        system.driver_check(root, setup.settings_text("cgroupDriver")),
        system.services_check(processes),
        system.isolation_check(machine, setup.config),
    ]
    if root.forbidden:
        shown = sorted(set(root.forbidden))
        facts = {"paths": shown[:3], "count": len(shown)}
        checks.append(unknown("permissions", Message("doctor-forbidden", facts)))
    return Examination(name, tuple(worst_first(checks)))


def _machine(tree: Tree) -> tuple[Machine | None, Check]:
    try:
        machine = sysfs.read(tree)
    except InputError as error:
        unreadable = trouble("machine-unreadable", "/sys", {"message": error.problem})
        return None, checked("machine", Message("doctor-no-machine"), [unreadable])
    facts = {
        "nodes": len(machine.numa),
        "cpus": len(machine.online),
        "cores": machine.core_count,
        "memory": machine.memory_bytes or 0,
    }
    return machine, checked("machine", Message("doctor-machine", facts))


def _hardware(machine: Machine | None) -> Hardware | None:
    try:
        return hardware_of(machine) if machine is not None else None
    except ValueError:
        return None
