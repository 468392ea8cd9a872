"""How near devices are to each other, in all that counts when a container gets several of them.

First the NUMA nodes and the distance between them, then what of PCIe lies in between (`closeness.py`), then NVLinks. Devices
below the same bridge are as near to everything else, so that 256 virtual functions cost no more than one. `closest_devices`
chooses by it; a `Nearness` comes from a machine's PCI functions, or from a table of `nvidia-smi topo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from numaware.machine.closeness import PciTree, way_up
from numaware.machine.topology import Machine

# What has to be crossed, the least first; SOC and PSB are words of older tables.
RANKS = {"PSB": 0, "PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4, "SOC": 4}
MOST_NVLINKS = 63
# Farther than any distance that firmware can give: nobody knows where one of the two is.
FARTHEST = 255
_LOCAL, _REMOTE = 10, 20


class Gap(NamedTuple):
    """What is between two devices: NUMA distance, rank of the PCIe word, and NVLinks, of which more are nearer."""

    distance: int
    rank: int
    nvlinks: int = 0


class Nearness:
    """Devices by id: the NUMA node of each (None where not known), and the gap between any two.

    `kin` of two devices is equal only if nothing but their ids tells them apart.
    """

    def __init__(
        self,
        nodes: Mapping[str, int | None],
        kin: Mapping[str, int],
        gaps: Mapping[tuple[int, int], Gap],
        nvlinks: Mapping[frozenset[str], int],
    ) -> None:
        self.nodes = nodes
        self.kin = kin
        self._gaps = gaps
        self._nvlinks = nvlinks

    def gap(self, a: str, b: str) -> Gap:
        found = self._gaps[self.kin[a], self.kin[b]]
        links = self._nvlinks.get(frozenset((a, b)), 0)
        return found._replace(nvlinks=min(links, MOST_NVLINKS)) if links else found


def of_functions(
    machine: Machine, addresses: Mapping[str, str], nvlinks: Mapping[frozenset[str], int] | None = None
) -> Nearness:
    """The nearness of PCI functions of a machine: id -> address; one that the machine has not is far from all."""
    functions = {function.address: function for function in machine.pci}
    tree = PciTree(machine)
    links = dict(nvlinks or {})
    linked = {name for pair in links for name in pair}
    numbers: dict[object, int] = {}
    kin: dict[str, int] = {}
    nodes: dict[str, int | None] = {}
    samples: dict[int, list[str]] = {}
    for name, address in addresses.items():
        function = functions.get(address)
        nodes[name] = function.numa if function else None
        # The same bridge above, or the same root bus, and the same CPUs near.
        above = way_up(function, functions)[1:2] or [address.rpartition(":")[0]]
        local = function.local_cpus if function else None
        key = name if function is None or name in linked else (above[0], nodes[name], local)
        kin[name] = numbers.setdefault(key, len(numbers))
        samples.setdefault(kin[name], []).append(address)
    distances = numa_distances(machine)
    gaps = {}
    for one, here in samples.items():
        for other, there in samples.items():
            pair = (here[0], there[0]) if one != other else (here[0], here[-1])
            known = all(address in functions for address in pair)
            rank = RANKS[tree.closeness(*pair)] if known and pair[0] != pair[1] else RANKS["SYS"]
            near = [functions[address].numa if known else None for address in pair]
            gaps[one, other] = Gap(numa_distance(distances, *near), rank)
    return Nearness(nodes, kin, gaps, links)


def numa_distances(machine: Machine) -> dict[tuple[int, int], int]:
    """How far each NUMA node says that others are."""
    return {(node.id, other): distance for node in machine.numa for other, distance in node.distances}


def numa_distance(distances: Mapping[tuple[int, int], int], a: int | None, b: int | None) -> int:
    """How far two NUMA nodes are from each other, as the farther way says; one that is not known is far from all."""
    if a is None or b is None:
        return FARTHEST
    # Firmware may give another distance for the way back.
    ways = [distances[pair] for pair in ((a, b), (b, a)) if pair in distances]
    return min(max(ways), FARTHEST) if ways else _LOCAL if a == b else _REMOTE
