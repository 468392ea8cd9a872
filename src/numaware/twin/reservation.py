"""What the kubelet keeps back for the system: the node reservation, and its split over NUMA nodes.

Mirrors `cm/node_container_manager_linux.go` (GetNodeAllocatableReservation) and `memorymanager/memory_manager.go`
(the check that `reservedMemory` adds up).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import ZERO, Quantity
from numaware.twin.config import KubeletConfig
from numaware.twin.errors import StartError
from numaware.twin.gotext import quoted
from numaware.twin.hardware import NumaHardware
from numaware.workload.demand import is_memory

_MEMORY_SIGNAL = "memory.available"


def node_reservation(config: KubeletConfig, numa: tuple[NumaHardware, ...]) -> dict[str, Quantity]:
    """kube-reserved + system-reserved + hard eviction, for resources the machine has; zero totals are left out."""
    known = {"cpu", "memory"} | {kind for node in numa for kind, _ in node.hugepages}
    total: dict[str, Quantity] = {}
    for amounts in (config.system_reserved, config.kube_reserved):
        for name, quantity in amounts:
            if name in known and not (name == "cpu" and config.reserved_cpus):
                total[name] = total.get(name, ZERO) + quantity
    if config.reserved_cpus:
        # --reserved-cpus takes the place of both CPU reservations.
        total["cpu"] = Quantity.of(len(CpuSet.parse(config.reserved_cpus)))
    for signal, threshold in config.eviction_hard:
        # KUBELET: a threshold of 100 % is left out like one of 0 % (parseThresholdStatement).
        if signal == _MEMORY_SIGNAL and threshold not in ("0%", "100%"):
            capacity = sum(node.memory_bytes for node in numa)
            total["memory"] = total.get("memory", ZERO) + eviction_threshold(threshold, capacity)
    return {name: quantity for name, quantity in sorted(total.items()) if quantity.nano}


def eviction_threshold(text: str, capacity: int) -> Quantity:
    """A hard eviction threshold: a quantity, or a percentage of the machine's memory."""
    if not text.endswith("%"):
        return Quantity.parse(text)
    # KUBELET: the percentage passes through a 32-bit float (parseThresholdStatement, GetThresholdQuantity).
    fraction: float = struct.unpack("f", struct.pack("f", _percentage(text) / 100))[0]
    return Quantity.of(int(capacity * fraction), "binary")


def _percentage(text: str) -> float:
    try:
        number = float(text[:-1])
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise ValueError(f"{text[:40]!r} is not a percentage from 0% to 100%")
    return float(struct.unpack("f", struct.pack("f", number))[0])


def reserved_memory(
    config: KubeletConfig, numa: tuple[NumaHardware, ...], reservation: Mapping[str, Quantity]
) -> dict[tuple[int, str], int]:
    """Bytes kept back per (node position, kind), after the checks the Memory Manager starts with."""
    position = {node.id: index for index, node in enumerate(numa)}
    totals: dict[str, Quantity] = {}
    split: dict[tuple[int, str], int] = {}
    for entry in config.reserved_memory:
        if entry.numa_node not in position:
            raise StartError(
                "memory",
                f"the reserved memory configuration references a NUMA node {entry.numa_node} "
                "that does not exist on this machine",
            )
        for kind, quantity in entry.limits:
            totals[kind] = totals.get(kind, ZERO) + quantity
            # KUBELET: totals add up over repeated entries of one node, but the node keeps only the last.
            split[position[entry.numa_node], kind] = quantity.value
    for kind in sorted(totals.keys() | {name for name in reservation if is_memory(name)}):
        configured = totals.get(kind, ZERO)
        determined = reservation.get(kind, ZERO)
        if configured.nano != determined.nano:
            raise StartError(
                "memory",
                f"the total amount {quoted(str(configured))} of type {quoted(kind)} is not equal to "
                f"the value {quoted(str(determined))} determined by Node Allocatable feature",
            )
    if not any(size for (_, kind), size in split.items() if kind == "memory"):
        raise StartError("memory", "[memorymanager] you should specify the system reserved memory")
    return split
