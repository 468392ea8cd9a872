"""The memory of a pod that has it as a whole, and how its containers share it.

Mirrors `AllocatePod` of `memorymanager/policy_static.go` (v1.36 and later, gate PodLevelResourceManagers, scope pod).
"""

from __future__ import annotations

from numaware.twin.empty_pools import lacking_memory
from numaware.twin.errors import empty_shared_pool
from numaware.twin.memory.state import Block, MemoryState
from numaware.twin.memory.static import StaticMemory
from numaware.twin.topology.hints import Hint
from numaware.workload.demand import Demand


def allocate_pod(
    memory: StaticMemory, state: MemoryState, uid: str, wanted: Demand, hint: Hint
) -> MemoryState:
    """The state after the pod was charged its own memory, once.

    KUBELET: nobody looks whether it was charged before. After a restart it is charged again, and what was charged before is
    never given back (AllocatePod).
    """
    if wanted.qos != "Guaranteed":
        return state
    problem, kind = lacking_memory(wanted)
    if problem:
        raise empty_shared_pool(problem, kind)
    nodes = memory.choose(state, uid, wanted.memory, hint)
    whole = _blocks(nodes, dict(wanted.memory))
    return MemoryState(
        memory.charge(state.nodes, whole),
        {**state.blocks, uid: _parts(nodes, wanted)},
        state.reuse,
        state.haunted,
        {**state.pods, uid: whole},
    )


def _parts(nodes: int, wanted: Demand) -> dict[str, tuple[Block, ...]]:
    """Container -> its part of the pod's memory; sizes of what is shared are what nobody has for himself."""
    parts: dict[str, tuple[Block, ...]] = {}
    left = dict(wanted.memory)
    for container in wanted.containers:
        if container.memory:
            parts[container.name] = _blocks(nodes, dict(container.memory))
            if not container.ends:
                for kind, size in container.memory:
                    left[kind] = left.get(kind, 0) - size
        elif container.ends:
            parts[container.name] = _blocks(nodes, left)
    return {
        container.name: parts.get(container.name, _blocks(nodes, left)) for container in wanted.containers
    }


def _blocks(nodes: int, sizes: dict[str, int]) -> tuple[Block, ...]:
    return tuple(Block(nodes, kind, size) for kind, size in sorted(sizes.items()) if size)
