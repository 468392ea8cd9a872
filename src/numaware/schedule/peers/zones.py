"""NUMA nodes as other schedulers know them: amounts per zone, and how the kubelet there was configured.

This is all that a NodeResourceTopology object tells: no CPU numbers, no device ids. Amounts are nano-units, as in
`Pod`. The order of the zones is that of the object, because a rule may depend on it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.workload.pod import Resources

Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
Scope = Literal["container", "pod"]

# What the kubelet allows unless told otherwise.
DEFAULT_MAX_NODES = 8


class PeerZone(msgspec.Struct, frozen=True):
    """One NUMA node: what is left there, what could be used when empty, and the distance to each node by id."""

    id: int
    available: Resources
    allocatable: Resources = ()
    costs: tuple[tuple[int, int], ...] = ()


class TopologyManager(msgspec.Struct, frozen=True):
    """The kubelet's settings; `max_nodes` is `topologyManagerMaxNUMANodes`."""

    policy: Policy = "none"
    scope: Scope = "container"
    max_nodes: int = DEFAULT_MAX_NODES


class Topology(msgspec.Struct, frozen=True):
    """One node of the cluster."""

    zones: tuple[PeerZone, ...]
    manager: TopologyManager = TopologyManager()
