"""The part of a kubelet's configuration that its resource managers act on, as a value.

`kubelet_config.py` reads it from real files and flags; `validation.py` and `kubelet.py` refuse it with the kubelet's own words.
"""

from __future__ import annotations

import msgspec

from numaware.machine.quantity import Quantity

# Sorted pairs, so that a configuration is hashable and equal configurations are equal.
Options = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, Quantity], ...]

DEFAULT_VERSION = "v1.35.0"


class MemoryReservation(msgspec.Struct, frozen=True):
    """One entry of `reservedMemory`: what the system keeps of one NUMA node."""

    numa_node: int
    limits: Amounts


class KubeletConfig(msgspec.Struct, frozen=True):
    """A kubelet's policies, options and reservations, with the kubelet's defaults.

    `reserved_cpus` is `reservedSystemCPUs` as written, None when not set. `eviction_hard` is None when not set;
    whoever reads a real configuration fills in the kubelet's built-in default.
    """

    version: str = DEFAULT_VERSION
    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Options = ()
    cpu_policy: str = "none"
    cpu_options: Options = ()
    memory_policy: str = "None"
    kube_reserved: Amounts = ()
    system_reserved: Amounts = ()
    eviction_hard: Options = ()
    reserved_cpus: str | None = None
    reserved_memory: tuple[MemoryReservation, ...] = ()
    feature_gates: tuple[tuple[str, bool], ...] = ()
