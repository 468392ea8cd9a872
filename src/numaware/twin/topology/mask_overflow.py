"""NUMA ids that have no bit in the kubelet's masks: POWER machines number the memory of their GPUs from 255 downwards.

Mirrors `cm/topologymanager/bitmask` (v1.18 to v1.37): a mask is 64 bits, a larger id makes no mask at all, and nobody looks at the
error. The kubelet starts, and whoever uses that mask crashes: hints over such a node, and the mask of all nodes that every merge
begins with. Called by `node.py` for machines that have such an id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaware.twin.errors import KubeletPanic
from numaware.workload.demand import ContainerDemand, Demand

if TYPE_CHECKING:
    from numaware.twin.kubelet import Kubelet

LARGEST_ID = 63
_IN_HINTS = "runtime error: invalid memory address or nil pointer dereference"
_IN_MERGE = "interface conversion: bitmask.BitMask is nil, not *bitmask.bitMask"


def check_masks(kubelet: Kubelet, wanted: Demand) -> None:
    """Raise `KubeletPanic` if the kubelet would crash on a pod with these demands."""
    if kubelet.policy is not None:
        first = wanted if kubelet.by_pod or not wanted.containers else wanted.containers[0]
        # KUBELET: hints are asked for first (IterateBitMasks hands out nil), then merged (And of nil).
        raise KubeletPanic(_IN_HINTS if _has_hints(kubelet, first) else _IN_MERGE)
    if kubelet.memory and any(part.memory for part in wanted.containers):
        # KUBELET: without a hint the Memory Manager makes its own (getDefaultHint).
        raise KubeletPanic(_IN_HINTS)


def _has_hints(kubelet: Kubelet, wanted: Demand | ContainerDemand) -> bool:
    """Whether a manager walks over the sets of NUMA nodes for this; the CPU Manager only over those that have CPUs, the Device
    Manager since v1.36 only over those that have such devices.
    """
    inventories = kubelet.devices.inventories
    layout = kubelet.layout
    last = max((number for number, cpus in zip(layout.ids, layout.node_cpus, strict=True) if cpus), default=0)
    return (
        any(
            inventories[name].has_topology
            and layout.ids[inventories[name].places[-1][0].bit_length() - 1] > LARGEST_ID
            for name, _ in wanted.devices
            if name in inventories
        )
        or bool(kubelet.cpus and wanted.cpus and last > LARGEST_ID)
        or bool(kubelet.memory and wanted.memory)
    )
