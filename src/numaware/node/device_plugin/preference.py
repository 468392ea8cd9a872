"""Which devices the plugin would like a container to have: whole ones close to each other, shared ones spread.

The kubelet asks before it allocates (GetPreferredAllocation), with what is free on the NUMA nodes that the Topology Manager
has settled on, and follows the answer if it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from numaware.machine.closest_devices import closest
from numaware.machine.nearness import Nearness, of_functions
from numaware.node.device_plugin.inventory import Resource, Survey


def nearness_of(resource: Resource, survey: Survey) -> Nearness:
    """How near the devices of a resource are to each other; asked for once for each look at the machine."""
    addresses = {unit.id: unit.address for unit in resource.units.values()}
    names = {unit.address: unit.id for unit in resource.units.values()}
    links = {
        frozenset(names[address] for address in pair): count
        for pair, count in survey.nvlinks.items()
        if pair <= names.keys()
    }
    return of_functions(survey.machine, addresses, links)


def preferred(
    resource: Resource,
    nearness: Nearness,
    available: Collection[str],
    must_include: Collection[str],
    size: int,
) -> tuple[str, ...]:
    """The ids that the container should have, sorted; a ValueError where so many cannot be had, or one is not ours."""
    if not resource.shared:
        return closest(nearness, available, size, must_include)
    return _spread(resource, {*available}, {*must_include}, size)


def _spread(resource: Resource, available: set[str], must_include: set[str], size: int) -> tuple[str, ...]:
    """One after the other from the device, and there from the unit, of which least is taken; among equals the first by id."""
    free = available | must_include
    everything = dict(resource.ids())
    unknown = sorted(free - everything.keys())
    if unknown:
        raise ValueError(f"{unknown[0]} is no device of this resource")
    if not len(must_include) <= size <= len(free):
        raise ValueError(f"{size} devices, {len(must_include)} of them set, cannot be taken from {len(free)}")
    devices: Counter[str] = Counter()
    units: Counter[str] = Counter()

    def take(name: str) -> None:
        devices[everything[name].address] += 1
        units[everything[name].id] += 1

    for name in everything.keys() - free | must_include:
        take(name)
    chosen = set(must_include)
    while len(chosen) < size:
        best = min(
            free - chosen,
            key=lambda name: (devices[everything[name].address], units[everything[name].id], name),
        )
        chosen.add(best)
        take(best)
    return tuple(sorted(chosen))
