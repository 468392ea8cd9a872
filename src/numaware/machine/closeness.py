"""How close two PCI functions are, in the words of `nvidia-smi topo`: PIX, PXB, PHB, NODE, SYS.

The words name what a transfer between the two has to cross. What decides is the lowest bridge above both.
A PCIe switch is not one bridge but one upstream port with a downstream port for each slot, so two cards in
one switch have that upstream port in common and one port each below it:

    root port --- upstream port -+- downstream port --- card A
                                 +- downstream port --- card B

PIX: the common bridge is reached through at most one port from either side, which is a single switch, or one
bridge that both hang from. PXB: there are more switches in between. PHB: no bridge in common, but the root
ports are on one root bus, so the way leads through one host bridge. NODE: other host bridges of one NUMA
node. SYS: between NUMA nodes, or nothing is known that would bring the two closer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numaware.machine.topology import Machine, PciDevice

Closeness = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]


class PciTree:
    """The bridges of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._functions = {function.address: function for function in machine.pci}
        self._nodes = {node.id: node.cpus for node in machine.numa if node.cpus}

    def closeness(self, a: str, b: str) -> Closeness:
        """The word for two functions by address; an address that the machine does not have is a KeyError."""
        ways = way_up(self._functions[a], self._functions), way_up(self._functions[b], self._functions)
        common = next((bridge for bridge in ways[0] if bridge in ways[1]), None)
        if common is not None:
            # A way begins with the function itself, which is no bridge to cross.
            crossed = max(way.index(common) - 1 for way in ways)
            return "PIX" if crossed <= 1 else "PXB"
        roots = [way[-1] for way in ways]
        if _bus(roots[0]) == _bus(roots[1]):
            return "PHB"
        nodes = {self._node(self._functions[a]), self._node(self._functions[b])}
        return "NODE" if len(nodes) == 1 and None not in nodes else "SYS"

    def _node(self, function: PciDevice) -> int | None:
        """The NUMA node of a function; firmware often says it only through the CPUs, or has nothing to choose."""
        if function.numa is not None:
            return function.numa
        if len(self._nodes) == 1:
            return next(iter(self._nodes))
        local = function.local_cpus
        within = [node for node, cpus in self._nodes.items() if local and local <= cpus]
        return within[0] if len(within) == 1 else None


def way_up(function: PciDevice | None, functions: Mapping[str, PciDevice]) -> list[str]:
    """A function and the bridges above it, lowest first; bridges that go in a circle are cut."""
    way: list[str] = []
    while function is not None and function.address not in way:
        way.append(function.address)
        function = functions.get(function.parent or "")
    return way


def _bus(address: str) -> str:
    """Domain and bus: functions without a bridge above are on a root bus, one for each host bridge."""
    return address.rpartition(":")[0]
