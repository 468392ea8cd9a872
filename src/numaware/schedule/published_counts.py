"""What is published of a node that no agent of ours describes: how much of what each NUMA node has, could give, has left."""

from __future__ import annotations

import msgspec

from numaware.diagnose.reason import Code
from numaware.machine.node_topology import Amounts, ZoneCounts
from numaware.twin.config import DEFAULT_VERSION, Options
from numaware.workload.demand import is_memory


def amount(amounts: Amounts, name: str) -> int:
    """One amount out of several, 0 where it is not named."""
    return next((number for known, number in amounts if known == name), 0)


class Counts(msgspec.Struct, frozen=True):
    """All that is known of a node; None is "nobody has told".

    `devices` is how many of each the node has in all, broken ones included (the capacity in the node's status).
    `current` is False when pods may have come since the counts were taken. `missing` is what else would have to be known
    of a pod that wants anything of its own.
    """

    zones: tuple[ZoneCounts, ...]
    policy: str | None = None
    scope: str | None = None
    version: str = DEFAULT_VERSION
    cpu_policy: str | None = None
    cpu_options: Options | None = None
    topology_options: Options | None = None
    memory_policy: str | None = None
    threads: int | None = None
    devices: Amounts = ()
    current: bool = True
    missing: tuple[Code, ...] = ()

    def total(self, name: str) -> int:
        """What all zones together could give."""
        return sum(amount(zone.allocatable, name) for zone in self.zones)

    def knows_devices(self, name: str) -> bool:
        """Whether the devices of the zones are all there are, each healthy and on one zone."""
        return amount(self.devices, name) == self.total(name)

    @property
    def memory_was_used(self) -> bool:
        return any(
            amount(zone.available, kind) < could
            for zone in self.zones
            for kind, could in zone.allocatable
            if is_memory(kind)
        )
