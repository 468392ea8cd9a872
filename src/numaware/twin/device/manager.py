"""The Device Manager: hints and allocation of what device plugins offer.

Mirrors `devicemanager/manager.go` and `topology_hints.go` (v1.20 to v1.37). Where the kubelet picks at random (its sets have
no order), the twin picks the lowest ids; how many devices come from which class (aligned, unaligned, without
topology) is the kubelet's. Devices of one resource are bits in a mask, in ascending order of id.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate

import msgspec

from numaware.machine.cpuset import iter_bits
from numaware.twin.errors import unexpected
from numaware.twin.hardware import Layout, PluginResource, lowest, mask_order, sums
from numaware.twin.rules import Rules
from numaware.twin.topology.hints import IMPOSSIBLE, Answer, Hint, Hints, of_size
from numaware.workload.demand import ContainerDemand, Demand

_NOTHING: Mapping[str, int] = {}
# pod uid -> container -> resource -> mask of devices
Owned = dict[str, dict[str, dict[str, int]]]


class DeviceState(msgspec.Struct, frozen=True, gc=False):
    """Who owns which devices, what the state file last said of it, and what the pod last served may use again.

    KUBELET: the file is written on allocation but not when gone pods are dropped, so `file` can lag behind `owned`.
    """

    owned: Owned
    file: Owned
    taken: dict[str, int]
    reuse: tuple[str, Mapping[str, int]] = ("", _NOTHING)

    def reusable(self, uid: str, resource: str) -> int:
        return self.reuse[1].get(resource, 0) if self.reuse[0] == uid else 0


class Inventory:
    """The devices of one resource as masks: healthy ones, those on each NUMA node, those without topology."""

    def __init__(self, resource: PluginResource, layout: Layout, rules: Rules) -> None:
        self.name = resource.name
        self.prefers = resource.prefers
        self.ids = tuple(device.id for device in resource.devices)
        position = {node: index for index, node in enumerate(layout.ids)}
        self.healthy = 0
        self.placed = 0
        self.on_node = [0] * len(layout.ids)
        self.nodes: list[int] = []
        # As announced: a plugin may name NUMA nodes that the machine does not have, and the kubelet writes them down.
        self.announced = tuple(tuple(sorted(set(device.numa))) for device in resource.devices)
        bearing = 0
        for index, device in enumerate(resource.devices):
            bit = 1 << index
            if device.healthy:
                self.healthy |= bit
            nodes = 0
            for node in device.numa:
                if node in position:
                    nodes |= 1 << position[node]
                    self.on_node[position[node]] |= bit
            self.nodes.append(nodes)
            bearing |= nodes
            if device.numa:
                self.placed |= bit
        self.groups = _groups(self.nodes, self.healthy)
        self.single = all(not nodes & (nodes - 1) for nodes in self.nodes)
        self.has_topology = bool(self.placed)
        self._aligned: dict[int, int] = {}
        # The NUMA nodes that hints may name; since v1.36 only those with such devices, all of them if there are none.
        self._hinted = bearing if rules.device_nodes and bearing else layout.full
        self.places = tuple(
            (1 << position, on) for position, on in enumerate(self.on_node) if self._hinted >> position & 1
        )

    @cached_property
    def masks(self) -> Sequence[int]:
        """The sets of NUMA nodes that hints may name, in the kubelet's order."""
        every = mask_order(len(self.on_node))
        if self._hinted == every[-1]:
            return every
        return [mask for mask in every if not mask & ~self._hinted]

    @cached_property
    def _largest(self) -> list[int]:
        """The most devices that touch any one, any two, ... NUMA nodes; worked out only for a kubelet that gives hints."""
        if self.single:
            most = sorted((on.bit_count() for on in self.on_node), reverse=True)
            return [0, *accumulate(most)]
        largest = [0] * (len(self.on_node) + 1)
        for mask, count in enumerate(self.count_by_mask((1 << len(self.ids)) - 1)):
            size = mask.bit_count()
            largest[size] = max(largest[size], count)
        return largest

    def count_by_mask(self, devices: int) -> list[int]:
        """For every NUMA mask, how many of `devices` touch it."""
        if self.single:
            return sums([(on & devices).bit_count() for on in self.on_node])
        inside = [0]
        for on in self.on_node:
            inside += [touching | on & devices for touching in inside]
        return [touching.bit_count() for touching in inside]

    def smallest(self, count: int, nodes: int) -> int:
        """The fewest NUMA nodes that could hold `count` devices if all were free and healthy."""
        return min(bisect_left(self._largest, count, 1), nodes)

    def nodes_of(self, devices: int) -> int:
        """The NUMA nodes, as a mask, that have some of these devices."""
        nodes = 0
        for index in iter_bits(devices):
            nodes |= self.nodes[index]
        return nodes

    def names(self, devices: int) -> tuple[str, ...]:
        """The ids of these devices, ascending."""
        return tuple(self.ids[index] for index in iter_bits(devices))

    def aligned(self, nodes: int) -> int:
        """The devices on any of these NUMA nodes; few sets of them come true."""
        devices = self._aligned.get(nodes)
        if devices is None:
            devices = 0
            for position in iter_bits(nodes):
                devices |= self.on_node[position]
            self._aligned[nodes] = devices
        return devices


class DeviceManager:
    """All plugin resources of one kind of machine."""

    def __init__(self, layout: Layout, resources: tuple[PluginResource, ...], rules: Rules) -> None:
        self.layout = layout
        self.rules = rules
        self.inventories = {resource.name: Inventory(resource, layout, rules) for resource in resources}

    def initial(self) -> DeviceState:
        return DeviceState({}, {}, {})

    def free(self, state: DeviceState, resource: str) -> int:
        return self.inventories[resource].healthy & ~state.taken.get(resource, 0)

    # Hints

    def hints(self, state: DeviceState, uid: str, wanted: ContainerDemand | Demand) -> Answer:
        """For a container, or for a pod as a whole."""
        asked = [pair for pair in wanted.devices if pair[0] in self.inventories]
        if not asked:
            return {}
        mine = state.owned.get(uid, {})
        if not isinstance(wanted, Demand):
            held = mine.get(wanted.name, {})
            return {
                name: self._hints(state, name, count, held.get(name, 0), state.reusable(uid, name))
                for name, count in asked
            }
        # KUBELET: what the pod's init containers left does not count for the pod as a whole (GetPodTopologyHints).
        held = taken_of({uid: mine})
        return {name: self._hints(state, name, count, held.get(name, 0), 0) for name, count in asked}

    def _hints(self, state: DeviceState, name: str, count: int, held: int, reusable: int) -> Hints | None:
        inventory = self.inventories[name]
        if not inventory.has_topology:
            return None
        if held:
            if held.bit_count() != count:
                return IMPOSSIBLE
            return self._masks(inventory, held, 0, count)
        free = self.free(state, name)
        if (free | reusable).bit_count() < count:
            return IMPOSSIBLE
        return self._masks(inventory, free, reusable, count)

    def _masks(self, inventory: Inventory, devices: int, reusable: int, count: int) -> Hints:
        # KUBELET: devices without topology are in no set of nodes, so with some of them among others a request may be
        # called impossible although enough devices are free (generateDeviceTopologyHints).
        nodes = len(self.layout.ids)
        smallest = inventory.smallest(count, nodes)
        if smallest == 1 and not reusable:
            narrow = [node for node, on in inventory.places if (on & devices).bit_count() >= count]
            return Hints(partial(self._wide_enough, inventory, devices, count), narrow)
        placed = reusable & inventory.placed
        missing = count - placed.bit_count()
        masks = self._wide_enough(inventory, devices & ~reusable, missing)
        if placed:
            needed = [inventory.nodes[index] for index in iter_bits(placed)]
            masks = [mask for mask in masks if all(mask & device for device in needed)]
        return Hints(masks, of_size(masks, smallest))

    def _wide_enough(self, inventory: Inventory, devices: int, wanted: int) -> list[int]:
        inside = inventory.count_by_mask(devices)
        return [mask for mask in inventory.masks if inside[mask] >= wanted]

    # Allocation

    def allocate(self, state: DeviceState, uid: str, wanted: ContainerDemand, hint: Hint) -> DeviceState:
        owned, file, taken, (last, left) = state.owned, state.file, state.taken, state.reuse
        asked = [pair for pair in wanted.devices if pair[0] in self.inventories]
        if not asked and last == uid:
            return state
        mine = owned[uid].get(wanted.name, {}) if uid in owned else {}
        if not asked and not mine:
            return DeviceState(owned, file, taken, (uid, {}))
        reusable = dict(left) if last == uid else {}
        got = {}
        for name, count in asked:
            devices = self._pick(
                state, uid, wanted.name, name, count, mine.get(name), reusable.get(name, 0), hint
            )
            if devices:
                got[name] = devices
        if got:
            mine = {**mine, **{name: mine.get(name, 0) | devices for name, devices in got.items()}}
            taken = {**taken, **{name: taken.get(name, 0) | devices for name, devices in got.items()}}
            owned = file = {**owned, uid: {**owned.get(uid, {}), wanted.name: mine}}
        if reusable or wanted.ends:
            for name, devices in mine.items():
                held = reusable.get(name, 0)
                reusable[name] = held | devices if wanted.ends else held & ~devices
        return DeviceState(owned, file, taken, (uid, reusable))

    def _pick(
        self,
        state: DeviceState,
        uid: str,
        container: str,
        name: str,
        count: int,
        held: int | None,
        reusable: int,
        hint: Hint,
    ) -> int:
        inventory = self.inventories[name]
        missing = count - (held or 0).bit_count()
        if held is not None and missing:
            raise unexpected(
                f'pod "{uid}" container "{container}" changed request for resource "{name}" '
                f"from {held.bit_count()} to {count}",
                name,
            )
        if self.rules.device_health:
            if not inventory.healthy:
                raise unexpected(
                    f"no healthy devices present; cannot allocate unhealthy devices {name}", name
                )
            if (held or 0) & ~inventory.healthy:
                raise unexpected(
                    f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {name}",
                    name,
                )
        if not missing:
            return 0
        picked = lowest(reusable, missing)
        missing -= picked.bit_count()
        if not missing:
            return picked
        free = self.free(state, name) & ~picked
        if free.bit_count() < missing:
            raise unexpected(
                f"requested number of devices unavailable for {name}. "
                f"Requested: {missing}, Available: {free.bit_count()}",
                name,
            )
        if not inventory.has_topology or hint.mask is None:
            return picked | lowest(free, missing)
        aligned = free & inventory.aligned(hint.mask)
        if missing < aligned.bit_count():
            return picked | lowest(aligned, missing)
        picked |= aligned
        missing -= aligned.bit_count()
        if inventory.prefers:
            # The plugin chooses among all that is free, whether it has topology or not.
            return picked | lowest(free & ~aligned, missing)
        for group in (free & inventory.placed & ~aligned, free & ~inventory.placed):
            more = lowest(group, missing)
            picked |= more
            missing -= more.bit_count()
        return picked

    # Release

    def release(self, state: DeviceState, uid: str) -> DeviceState:
        if uid not in state.owned:
            return state
        owned = dict(state.owned)
        del owned[uid]
        return DeviceState(owned, state.file, taken_of(owned), state.reuse)

    def restore(self, state: DeviceState) -> DeviceState:
        """A restarted kubelet believes its file, then hears of the pods that are gone."""
        return DeviceState(state.file, state.file, taken_of(state.file))


def _groups(nodes: list[int], healthy: int) -> tuple[int, ...] | None:
    """Masks of devices that nothing but their number tells apart; None unless their numbers come group by group.

    Devices are taken lowest first, so only then does it not matter which ones of a group are taken.
    """
    groups: dict[int, int] = {}
    last = None
    for device in iter_bits(healthy):
        if nodes[device] != last and nodes[device] in groups:
            return None
        last = nodes[device]
        groups[last] = groups.get(last, 0) | 1 << device
    return tuple(groups.values())


def taken_of(owned: Owned) -> dict[str, int]:
    """The devices that somebody owns, by resource."""
    taken: dict[str, int] = {}
    for containers in owned.values():
        for resources in containers.values():
            for name, devices in resources.items():
                taken[name] = taken.get(name, 0) | devices
    return taken
