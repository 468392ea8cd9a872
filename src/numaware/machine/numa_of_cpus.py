"""Which CPU lives on which NUMA node, and which CPUs a node without any is near to.

The kernel puts every CPU on exactly one node. A source that lists a CPU on two nodes contradicts itself:
the first node keeps it, and the contradiction becomes a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

from numaware.machine.cpuset import EMPTY, CpuSet


def home_nodes(cpus_of: Mapping[int, CpuSet]) -> tuple[dict[int, int], list[str]]:
    """CPU -> node, ascending by CPU, and a warning for each node that claims CPUs of an earlier one."""
    homes: dict[int, int] = {}
    warnings = []
    taken = EMPTY
    for node, cpus in cpus_of.items():
        if claimed := cpus & taken:
            warnings.append(f"NUMA node {node} lists CPUs {claimed} that another node lists too")
        homes.update(dict.fromkeys(cpus - taken, node))
        taken |= cpus
    return dict(sorted(homes.items())), warnings


def near_by_distance(node: int, row: Mapping[int, int], cpus_of: Mapping[int, CpuSet]) -> CpuSet:
    """The CPUs at the least distance from a node without any; nothing if several nodes are all equally far."""
    far = {other: distance for other, distance in row.items() if other != node and cpus_of.get(other)}
    least = min(far.values(), default=0)
    closest = [other for other, distance in far.items() if distance == least]
    if len(closest) == len(far) > 1:
        return EMPTY
    return CpuSet.union(cpus_of[other] for other in closest)
