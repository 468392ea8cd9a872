"""Which devices of plugins are close to one another, as far as the discovered machine tells.

Plugins name their devices by PCI address, or by whatever their vendor's tools print; discovery knows both. What the NUMA
nodes of two devices tell already (NODE, SYS) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from numaware.machine.closeness import PciTree
from numaware.machine.topology import Machine
from numaware.twin.hardware import DeviceLink, PluginResource

# A table of more devices is no use to anybody, and it grows with their square.
MOST_DEVICES = 32
_BY_NUMA = ("NODE", "SYS")


def links_between(machine: Machine, resources: Sequence[PluginResource]) -> tuple[DeviceLink, ...]:
    """The links worth telling, devices in the order of resource and id; none where there are too many devices."""
    devices = sorted((resource.name, device.id) for resource in resources for device in resource.devices)
    if len(devices) > MOST_DEVICES:
        return ()
    tree = PciTree(machine)
    functions = {function.address for function in machine.pci}
    by_name = {
        name: device for device in machine.devices for name in (device.alias, device.pci, device.name) if name
    }
    known_links = {frozenset((link.a, link.b)): link.type for link in machine.links}

    def kind(a: str, b: str) -> str | None:
        one, other = by_name.get(a), by_name.get(b)
        if one and other and (link := known_links.get(frozenset((one.name, other.name)))):
            return link
        places = [device.pci if device and device.pci else name for name, device in ((a, one), (b, other))]
        return tree.closeness(*places) if functions.issuperset(places) else None

    pairs = ((a, b, kind(a[1], b[1])) for a, b in combinations(devices, 2))
    return tuple(DeviceLink(a, b, word) for a, b, word in pairs if word and word not in _BY_NUMA)
