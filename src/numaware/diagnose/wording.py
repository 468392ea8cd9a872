"""Amounts and NUMA nodes in a person's words."""

from __future__ import annotations

from collections.abc import Sequence

from numaware.machine.words import count as counted
from numaware.machine.words import size
from numaware.workload.demand import is_memory

_MOST_SETS = 4


def quantity_of(resource: str, count: int) -> str:
    """A bare amount: `3`, `1.5 GiB`."""
    return size(count) if is_memory(resource) else str(count)


def amount_of(resource: str, count: int) -> str:
    """An amount with its name: `8 CPUs`, `16 GiB of memory`, `2 nvidia.com/gpu`."""
    if resource == "cpu":
        return counted(count, "CPU")
    if is_memory(resource):
        return f"{size(count)} of {resource}"
    return f"{count} {resource}"


def node_list(nodes: Sequence[int]) -> str:
    """One set of NUMA nodes: `NUMA 0`, `NUMA 0+1`."""
    return "NUMA " + "+".join(map(str, nodes))


def some(sets: Sequence[Sequence[int]]) -> str:
    """A choice of NUMA node sets, cut short when there are many."""
    shown = " or ".join(node_list(nodes) for nodes in sets[:_MOST_SETS])
    return f"{shown} or {len(sets) - _MOST_SETS} more" if len(sets) > _MOST_SETS else shown or "no node"
