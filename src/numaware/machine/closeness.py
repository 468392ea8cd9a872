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
from itertools import combinations
from typing import Literal

import msgspec

from numaware.machine.topology import Device, Link, Machine, PciDevice

# A table of more devices is no use to anybody, and it grows with their square.
MOST_DEVICES = 64

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

    def certain(self, a: str, b: str) -> Closeness | None:
        """The same, but nothing where SYS would only mean that a NUMA node is not known."""
        word = self.closeness(a, b)
        known = self._node(self._functions[a]) is not None and self._node(self._functions[b]) is not None
        return word if known or word != "SYS" else None

    def _node(self, function: PciDevice) -> int | None:
        """The NUMA node of a function; firmware often says it only through the CPUs, or has nothing to choose."""
        if function.numa is not None:
            return function.numa
        if len(self._nodes) == 1:
            return next(iter(self._nodes))
        local = function.local_cpus
        within = [node for node, cpus in self._nodes.items() if local and local <= cpus]
        return within[0] if len(within) == 1 else None


def with_links(machine: Machine) -> Machine:
    """The machine with a link for every two devices of which the PCI tree tells; what a source has told stays.

    A card with several names goes by its first, and a virtual function is its card. For what is shown or written; readers
    leave it out, as it follows from what they say.
    """
    functions = {function.address: function for function in machine.pci}
    named: dict[str, Device] = {}
    for device in machine.devices:
        function = functions.get(device.pci or "")
        if function and function.virtual_function_of is None:
            named.setdefault(function.address, device)
    if not 1 < len(named) <= MOST_DEVICES:
        return machine
    tree = PciTree(machine)
    known = {frozenset((link.a, link.b)) for link in machine.links}
    links = [
        Link(named[a].name, named[b].name, word)
        for a, b in combinations(named, 2)
        if frozenset((named[a].name, named[b].name)) not in known and (word := tree.certain(a, b))
    ]
    return msgspec.structs.replace(machine, links=(*machine.links, *links))


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
