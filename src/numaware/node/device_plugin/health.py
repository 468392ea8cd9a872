"""What is announced of a resource: every device that was ever there, and what is wrong with it now, if anything.

A device that vanishes stays announced, as unhealthy: the kubelet then keeps counting it, gives it to nobody, and can tell
whoever holds it. It is healthy again as soon as it is back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from numaware.machine.topology import Machine
from numaware.node.device_plugin.inventory import Resource, Unit

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


def judged(
    before: Mapping[str, Announced],
    resource: Resource | None,
    machine: Machine,
    faults: Collection[Fault] = (),
) -> dict[str, Announced]:
    """What is announced of a resource after another look, by the unit's id."""
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
