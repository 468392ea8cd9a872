"""What the Static policy keeps: what is left of each NUMA node, and what each container was charged."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.machine.cpuset import iter_bits

UINT64 = (1 << 64) - 1
NOTHING: Mapping[tuple[int, str], int] = {}


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Memory of one kind charged to the nodes of a mask."""

    nodes: int
    kind: str
    size: int


class NodeMemory(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many (container, kind) pairs use a node, the group it belongs to, and what is free of each kind."""

    assignments: int
    cells: int
    free: tuple[int, ...]


class MemoryState(msgspec.Struct, frozen=True, gc=False):
    """Per node what is left, per container what it was charged, and what the pod last served may use again.

    `haunted` where the kubelet still remembers what an earlier pod might have used again (until `Rules.reuse_per_pod`);
    `pods` holds what pods were charged as a whole (`pod_blocks.py`).
    """

    nodes: tuple[NodeMemory, ...]
    blocks: dict[str, dict[str, tuple[Block, ...]]]
    reuse: tuple[str, Mapping[tuple[int, str], int]] = ("", NOTHING)
    haunted: bool = False
    pods: dict[str, tuple[Block, ...]] = {}

    def reusable(self, uid: str) -> Mapping[tuple[int, str], int]:
        return self.reuse[1] if self.reuse[0] == uid else NOTHING


def ungrouped(nodes: tuple[NodeMemory, ...], masks: list[int]) -> list[int]:
    """The masks that no group of nodes stands in the way of: single nodes of none, several that are free or are the group."""
    used = sum(1 << position for position, node in enumerate(nodes) if node.assignments)
    grouped = sum(1 << position for position, node in enumerate(nodes) if node.cells & (node.cells - 1))
    groups = {node.cells for node in nodes if node.assignments}
    return [
        mask
        for mask in masks
        if (
            not mask & used or (mask in groups and is_group(nodes, mask))
            if mask & (mask - 1)
            else not mask & grouped
        )
    ]


def is_group(nodes: tuple[NodeMemory, ...], mask: int) -> bool:
    """Whether every node of a mask that is in use already belongs to exactly that group."""
    return all(nodes[position].cells == mask for position in iter_bits(mask) if nodes[position].assignments)


def group_sums(nodes: tuple[NodeMemory, ...], cells: int) -> tuple[int, ...]:
    """Free memory of each kind summed over a group; reserved follows from it."""
    return tuple(
        sum(amounts) & UINT64
        for amounts in zip(*(nodes[position].free for position in iter_bits(cells)), strict=True)
    )


def changed(free: tuple[int, ...], index: int, difference: int) -> tuple[int, ...]:
    if len(free) == 1:
        return ((free[0] + difference) & UINT64,)
    return (*free[:index], (free[index] + difference) & UINT64, *free[index + 1 :])
