"""Which CPU lives on which NUMA node, worked out from the CPU lists of the nodes.

The kernel puts every CPU on exactly one node. A source that lists a CPU on two nodes contradicts itself:
the first node keeps it, and the contradiction is told.
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
