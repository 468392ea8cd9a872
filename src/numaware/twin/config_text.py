"""A kubelet's configuration as JSON, by the names that KubeletConfiguration has for it.

Recorded sessions and what agents report of their kubelets both hold one; each adds to it what is its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.twin.config import Amounts, KubeletConfig, MemoryReservation, Options


class ReservationText(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the system keeps of one NUMA node's memory."""

    numa_node: int
    limits: dict[str, str] = {}


class ConfigText(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The settings that decide about pods; what is the kubelet's default need not be said."""

    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: dict[str, str] = {}
    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: dict[str, str] = {}
    memory_manager_policy: str = "None"
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    reserved_system_cpus: str | None = msgspec.field(name="reservedSystemCPUs", default=None)
    reserved_memory: tuple[ReservationText, ...] = ()

    def configuration(self, version: str, gates: tuple[tuple[str, bool], ...]) -> KubeletConfig:
        """The same as the twin takes it; `ValueError` for an amount that is none."""
        return KubeletConfig(
            version=version,
            topology_policy=self.topology_manager_policy,
            topology_scope=self.topology_manager_scope,
            topology_options=_pairs(self.topology_manager_policy_options),
            cpu_policy=self.cpu_manager_policy,
            cpu_options=_pairs(self.cpu_manager_policy_options),
            memory_policy=self.memory_manager_policy,
            kube_reserved=amounts_of(self.kube_reserved),
            system_reserved=amounts_of(self.system_reserved),
            eviction_hard=_pairs(self.eviction_hard),
            reserved_cpus=self.reserved_system_cpus,
            reserved_memory=tuple(
                MemoryReservation(entry.numa_node, amounts_of(entry.limits)) for entry in self.reserved_memory
            ),
            feature_gates=gates,
        )


def amounts_of(amounts: Mapping[str, str]) -> Amounts:
    """Amounts by name, sorted; none may be negative."""
    found = tuple((name, Quantity.parse(text)) for name, text in sorted(amounts.items()))
    for name, quantity in found:
        if quantity.nano < 0:
            raise ValueError(f"{printable(name, 80)} is {quantity}, and no amount may be negative")
    return found


def _pairs(options: Mapping[str, str]) -> Options:
    return tuple(sorted(options.items()))
