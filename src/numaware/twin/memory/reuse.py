"""Memory of init containers that are over, which the containers after them in the pod use again.

Mirrors `updatePodReusableMemory` and `updateInitContainersMemoryBlocks` of `memorymanager/policy_static.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from numaware.twin.memory.state import NOTHING, Block, MemoryState
from numaware.twin.rules import Rules
from numaware.workload.demand import ContainerDemand


def take_over(
    mine: dict[str, tuple[Block, ...]], blocks: tuple[Block, ...], earlier: tuple[ContainerDemand, ...]
) -> None:
    """Shrink the blocks of earlier init containers by what the new container took over from them.

    The sum over a pod's containers then stays what the pod really holds; blocks of size zero stay listed.
    """
    for block in blocks:
        left = block.size
        for container in earlier:
            held = mine.get(container.name)
            if not left or not container.ends or held is None:
                continue
            shrunk = []
            for old in held:
                taken = min(old.size, left) if (old.kind, old.nodes) == (block.kind, block.nodes) else 0
                left -= taken
                shrunk.append(Block(old.nodes, old.kind, old.size - taken))
            mine[container.name] = tuple(shrunk)


def reusable_after(
    reusable: Mapping[tuple[int, str], int], blocks: tuple[Block, ...], *, ends: bool
) -> Mapping[tuple[int, str], int]:
    """What the pod's next containers may use again: an ended init container adds, any other takes away."""
    changed = dict(reusable)
    for block in blocks:
        place, size = (block.nodes, block.kind), block.size
        old = changed.get(place, 0)
        changed[place] = max(old, size) if ends else max(0, old - size)
    return changed


def reused_before_23(
    state: MemoryState, uid: str, wanted: ContainerDemand, blocks: tuple[Block, ...], rules: Rules
) -> MemoryState:
    """The state after a container of `uid` was charged `blocks`, with what the next one may use again.

    KUBELET: v1.22 means to forget what other pods left but forgets what this one left, each time it remembers another
    pod, which then stays for good (updatePodReusableMemory). So a container uses again only what the init container right
    before it had. v1.21 used nothing again.
    """
    if not rules.memory_reuse:
        return state
    last, left = state.reuse
    haunted = state.haunted or (last != uid and bool(left))
    mine = left if last == uid and not haunted else NOTHING
    if mine or wanted.ends:
        mine = reusable_after(mine, blocks, ends=wanted.ends)
    return MemoryState(state.nodes, state.blocks, (uid, mine), haunted)
