"""Which PCI functions a resource takes, and whether two resources could ever take the same one."""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.machine.topology import MANAGEMENT_VENDORS, PciDevice

_GPU_CLASSES = ("03", "12")
_BRIDGES = "06"


class Selector(msgspec.Struct, frozen=True):
    """What a function has to be; of what is not named, anything. Classes are prefixes, all else is the whole word."""

    kind: Literal["gpu", "physical", "virtual"]
    vendors: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    physical: tuple[str, ...] = ()

    def takes(self, function: PciDevice) -> bool:
        if (self.kind == "virtual") != (function.virtual_function_of is not None):
            return False
        if function.class_code.startswith(_BRIDGES):
            return False
        if self.kind == "gpu" and function.vendor in MANAGEMENT_VENDORS:
            return False
        classes = self._classes
        return (
            (not classes or function.class_code.startswith(classes))
            and (not self.vendors or function.vendor in self.vendors)
            and (not self.devices or function.device in self.devices)
            and (not self.drivers or function.driver in self.drivers)
            and (not self.addresses or function.address in self.addresses)
            and (not self.physical or function.virtual_function_of in self.physical)
        )

    def overlaps(self, other: Selector) -> bool:
        """Whether one function could be taken by both: nothing that they name keeps them apart."""
        if (self.kind == "virtual") != (other.kind == "virtual"):
            return False
        for mine, theirs in (
            (self.vendors, other.vendors),
            (self.devices, other.devices),
            (self.drivers, other.drivers),
            (self.addresses, other.addresses),
            (self.physical, other.physical),
        ):
            if mine and theirs and not {*mine} & {*theirs}:
                return False
        mine, theirs = self._classes, other._classes
        if not mine or not theirs:
            return True
        return any(a.startswith(b) or b.startswith(a) for a in mine for b in theirs)

    @property
    def _classes(self) -> tuple[str, ...]:
        return _GPU_CLASSES if self.kind == "gpu" else self.classes
