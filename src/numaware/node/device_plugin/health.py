"""What is announced of a resource: every device that was ever there, and what is wrong with it now, if anything.

A device that vanishes stays announced, as unhealthy: the kubelet then keeps counting it, gives it to nobody, and can tell
whoever holds it. It is healthy again as soon as it is back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from numaware.machine.topology import Machine
from numaware.node.device_plugin.inventory import Resource, Survey, Unit

# Errors of programs that run on a GPU, not of the GPU: NVIDIA's plugin passes over the same ones.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})


class Fault(msgspec.Struct, frozen=True):
    """A critical error that NVIDIA's driver reported: of a GPU, or of one slice of it."""

    address: str
    xid: int
    gpu_instance: int | None = None

    def strikes(self, unit: Unit) -> bool:
        if unit.address != self.address or self.xid in APPLICATION_XIDS:
            return False
        return self.gpu_instance is None or unit.part is None or unit.part.gpu_instance == self.gpu_instance


class Announced(msgspec.Struct, frozen=True):
    """A unit, and what is wrong with it; "" for a healthy one."""

    unit: Unit
    problem: str = ""


def standing(known: Mapping[Fault, bool], survey: Survey) -> dict[Fault, bool]:
    """The faults that still count after another look, and of each whether its GPU has been under repair since.

    A fault is over when the GPU was away from its driver (unbound, removed, its driver loaded anew), or the driver had said that
    it must be reset, and neither is so any more. That nothing is heard for a while makes no GPU healthy; nor does a driver
    that cannot be asked.
    """
    if survey.driver_problem:
        return dict(known)
    drivers = {function.address: function.driver for function in survey.machine.pci}
    after = {}
    for fault, repaired in known.items():
        gpu = survey.gpus.get(fault.address)
        if gpu is None or gpu.repair or drivers.get(fault.address) is None:
            after[fault] = True
        elif not repaired:
            after[fault] = False
    return after


def judged(
    before: Mapping[str, Announced],
    resource: Resource | None,
    machine: Machine,
    faults: Collection[Fault] = (),
    repairs: Collection[str] = (),
) -> dict[str, Announced]:
    """What is announced of a resource after another look, by the unit's id; `repairs` are addresses of GPUs to be repaired."""
    present = resource.units if resource else {}
    functions = {function.address: function for function in machine.pci}
    after = {}
    for name in sorted(before.keys() | present.keys()):
        known = before.get(name)
        unit = present.get(name)
        fault = next((fault for fault in faults if unit and fault.strikes(unit)), None)
        if unit is None and known is not None:
            function = functions.get(known.unit.address)
            problem = "vanished" if function is None else _no_longer(known.unit, function.driver)
            after[name] = Announced(known.unit, problem)
        elif unit is not None and fault is not None:
            after[name] = Announced(unit, f"Xid {fault.xid}")
        elif unit is not None and unit.address in repairs:
            after[name] = Announced(unit, "has to be drained or reset, its driver says")
        elif unit is not None:
            lost = known is not None and known.unit.driver is not None and unit.driver is None
            # The driver that it had is remembered until it has one again.
            driver = known.unit.driver if lost and known else unit.driver
            after[name] = Announced(
                msgspec.structs.replace(unit, driver=driver), "lost its driver" if lost else ""
            )
    return after


def _no_longer(unit: Unit, driver: str | None) -> str:
    if unit.driver is not None and driver is None:
        return "lost its driver"
    return f"bound to {driver} now" if driver != unit.driver else "no longer listed by its driver"
