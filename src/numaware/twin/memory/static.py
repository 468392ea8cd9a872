"""The Memory Manager's Static policy: hints, allocation, release, and the check after a restart.

Mirrors `memorymanager/policy_static.go` (v1.21 to v1.37). A node's memory is charged either to single-node allocations or to
one group of nodes (`cells`), never to both. Sizes are unsigned 64-bit as in the kubelet: they wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from numaware.twin.empty_pools import lacking_memory
from numaware.twin.errors import AdmissionError, KubeletPanic, StartError, unexpected
from numaware.twin.hardware import Layout, NumaHardware, mask_order, positions, sums
from numaware.twin.memory.reuse import reusable_after, reused_before_23, take_over
from numaware.twin.memory.state import (
    NOTHING,
    UINT64,
    Block,
    MemoryState,
    NodeMemory,
    changed,
    group_sums,
    is_group,
    ungrouped,
)
from numaware.twin.rules import Rules
from numaware.twin.topology.hints import IMPOSSIBLE, Answer, Hint, Hints, of_size
from numaware.twin.topology.merge import narrower
from numaware.workload.demand import Amounts, ContainerDemand, Demand

# Distinct requests whose answer on an empty machine is remembered; machines beyond 8 nodes have long answers.
_MOST_REQUESTS = 64
# Distinct charges that are kept to be shared.
_MOST_CHARGES = 1024


class StaticMemory:
    """The Static policy on one kind of machine; `system` is what is reserved per node position and kind."""

    def __init__(
        self,
        layout: Layout,
        numa: tuple[NumaHardware, ...],
        system: Mapping[tuple[int, str], int],
        rules: Rules,
    ) -> None:
        self.layout = layout
        self.rules = rules
        self.system = system
        self.totals = tuple({**dict(node.hugepages), "memory": node.memory_bytes} for node in numa)
        self.kinds = tuple(sorted({kind for totals in self.totals for kind in totals}))
        self.allocatable = tuple(self._allocatable(position) for position in range(len(numa)))
        self._index = {kind: index for index, kind in enumerate(self.kinds)}
        # Kind -> the nodes that do not have it.
        self._lacking = {
            kind: sum(1 << position for position, totals in enumerate(self.totals) if kind not in totals)
            for kind in self.kinds
        }
        self._fitting: dict[Amounts, tuple[list[int], int]] = {}
        self._charged: dict[tuple[str, int, Amounts], dict[str, tuple[Block, ...]]] = {}
        self._allocatable_sums = {
            kind: sums([amounts[index] for amounts in self.allocatable])
            for index, kind in enumerate(self.kinds)
        }

    def _allocatable(self, position: int) -> tuple[int, ...]:
        totals = self.totals[position]
        # KUBELET: unsigned subtraction; huge pages larger than the node's memory leave an enormous number.
        pages = sum(size for kind, size in totals.items() if kind != "memory")
        return tuple(
            (totals.get(kind, 0) - self.system.get((position, kind), 0) - (pages if kind == "memory" else 0))
            & UINT64
            for kind in self.kinds
        )

    def initial(self) -> MemoryState:
        return MemoryState(
            tuple(NodeMemory(0, 1 << position, free) for position, free in enumerate(self.allocatable)), {}
        )

    def reserved(self, state: MemoryState, position: int, index: int) -> int:
        """What containers hold of one kind on one node."""
        return (self.allocatable[position][index] - state.nodes[position].free[index]) & UINT64

    # Hints

    def hints(self, state: MemoryState, uid: str, wanted: ContainerDemand | Demand) -> Answer:
        """For a container, or for a pod as a whole."""
        if not wanted.memory:
            return {}
        if isinstance(wanted, Demand) and wanted.own and lacking_memory(wanted)[0]:
            return {kind: IMPOSSIBLE for kind, _ in wanted.memory}
        mine = state.blocks.get(uid)
        if mine:
            for container in wanted.containers if isinstance(wanted, Demand) else (wanted,):
                if container.name in mine:
                    # KUBELET: the first container that holds memory is compared with the whole pod's request, so pods of
                    # several containers lose their memory hints at a restart (GetPodTopologyHints).
                    return _regenerated(mine[container.name], wanted.memory)
        hints = self._hints(state, uid, wanted.memory)
        # KUBELET: memory that fits nowhere is an empty answer, which the Topology Manager reads as "no preference".
        return {kind: hints for kind, _ in wanted.memory} if hints.possible else {}

    def _hints(self, state: MemoryState, uid: str, wanted: Amounts) -> Hints:
        """One list for all kinds: a mask counts only if every kind fits."""
        self._crash_on_missing(wanted, self.layout.full)
        ever, smallest = self._ever_fitting(wanted)
        if not self.rules.narrowest_before_groups:
            ever = ungrouped(state.nodes, ever)
            smallest = ever[0].bit_count() if ever else len(self.totals)
        reusable = state.reusable(uid)
        find = partial(self._fitting_now, state.nodes, ever, wanted, reusable)
        if smallest > 1 or reusable:
            masks = find()
            return Hints(masks, of_size(masks, smallest))
        return Hints(find, self._single_nodes(state.nodes, ever, wanted))

    def _single_nodes(self, nodes: tuple[NodeMemory, ...], ever: list[int], wanted: Amounts) -> list[int]:
        """Those nodes that hold the request alone and belong to no group."""
        masks = []
        for mask in ever:
            if mask & (mask - 1):
                break
            node = nodes[mask.bit_length() - 1]
            if node.cells & (node.cells - 1):
                continue
            for kind, size in wanted:
                if node.free[self._index[kind]] < size:
                    break
            else:
                masks.append(mask)
        return masks

    def _fitting_now(
        self,
        nodes: tuple[NodeMemory, ...],
        candidates: list[int],
        wanted: Amounts,
        reusable: Mapping[tuple[int, str], int],
    ) -> list[int]:
        candidates = ungrouped(nodes, candidates)
        for kind, size in wanted:
            index = self._index[kind]
            free = sums([node.free[index] for node in nodes])
            if reusable:
                candidates = [
                    mask
                    for mask in candidates
                    if (free[mask] + reusable.get((mask, kind), 0)) & UINT64 >= size
                ]
            else:
                candidates = [mask for mask in candidates if free[mask] & UINT64 >= size]
        return candidates

    def _ever_fitting(self, wanted: Amounts) -> tuple[list[int], int]:
        """The masks that could hold the request on an empty machine, and how many nodes the narrowest of them has."""
        known = self._fitting.get(wanted)
        if known is None:
            masks: Sequence[int] = mask_order(len(self.totals))
            for kind, size in wanted:
                allocatable = self._allocatable_sums[kind]
                masks = [mask for mask in masks if allocatable[mask] & UINT64 >= size]
            if len(self._fitting) >= _MOST_REQUESTS:
                self._fitting.clear()
            known = self._fitting[wanted] = list(masks), masks[0].bit_count() if masks else len(self.totals)
        return known

    def _crash_on_missing(self, wanted: Amounts, nodes: int) -> None:
        # KUBELET: a huge page size that one of the nodes looked at does not have is a nil pointer in its table. At a
        # restart that is every size some node of a group has, whether anybody asked for it or not.
        for kind, _ in wanted:
            if self._lacking.get(kind, self.layout.full) & nodes:
                raise KubeletPanic("runtime error: invalid memory address or nil pointer dereference")

    # Allocation

    def allocate(
        self,
        state: MemoryState,
        uid: str,
        wanted: ContainerDemand,
        earlier: tuple[ContainerDemand, ...],
        hint: Hint,
    ) -> MemoryState:
        """Charge one container; `earlier` are the init containers before it, whose memory it may take over.

        KUBELET: v1.36 charges a container that may have no memory of its own nothing, and writes that down
        (`Rules.memory_asked_for`); it may still find no NUMA nodes for it.
        """
        nodes, held, reusable = state.nodes, state.blocks, state.reusable(uid)
        known = held.get(uid)
        blocks = known.get(wanted.name) if known else None
        if blocks is None:
            chosen = self.choose(state, uid, wanted.memory, hint)
            mine = self._mine(wanted.name, chosen, wanted.memory)
            blocks = mine[wanted.name]
            nodes = self.charge(nodes, blocks, reusable)
            if known:
                mine = {**known, **mine}
                if self.rules.memory_reuse:
                    take_over(mine, blocks, earlier)
            held = {**held, uid: mine}
        if not self.rules.reuse_per_pod:
            charged = MemoryState(nodes, held, state.reuse, state.haunted)
            return reused_before_23(charged, uid, wanted, blocks, self.rules)
        if reusable or wanted.ends:
            reusable = reusable_after(reusable, blocks, ends=wanted.ends)
        return MemoryState(nodes, held, (uid, reusable), pods=state.pods)

    def _mine(self, name: str, nodes: int, wanted: Amounts) -> dict[str, tuple[Block, ...]]:
        """What a pod's only container is charged; one object for all pods that are charged the same."""
        key = name, nodes, wanted
        mine = self._charged.get(key)
        if mine is None:
            if len(self._charged) >= _MOST_CHARGES:
                self._charged.clear()
            mine = self._charged[key] = {name: tuple([Block(nodes, kind, size) for kind, size in wanted])}
        return mine

    def choose(self, state: MemoryState, uid: str, wanted: Amounts, hint: Hint) -> int:
        nodes, preferred = hint
        if nodes is not None and not nodes & (nodes - 1) and self._fits(state, nodes, wanted):
            return nodes
        if nodes is None:
            default = _best(self._hints(state, uid, wanted)) if wanted else None
            if default is None:
                raise _refused(
                    "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                )
            if preferred and not default.preferred:
                raise _refused("failed to find the default preferred hint")
            nodes, preferred = default
        if nodes is not None and not self._fits(state, nodes, wanted):
            hints = self._hints(state, uid, wanted)
            # KUBELET: v1.21 gives up a group when it ends with the hint's highest node (isHintInGroup).
            upwards = nodes.bit_length() if self.rules.memory_extends_upwards else 0
            wider, preferred_wider = (
                [mask for mask in masks if mask & nodes == nodes and mask.bit_length() > upwards]
                for masks in (hints.masks, hints.preferred)
            )
            extended = _best(Hints(wider, preferred_wider))
            if extended is None:
                raise _refused("failed to find NUMA nodes to extend the current topology hint")
            if preferred and not extended.preferred:
                raise _refused("failed to find the extended preferred hint")
            nodes = extended.mask
        mask = nodes or 0
        # KUBELET: a single node is not checked: best-effort may charge it although it belongs to a group.
        if self.rules.memory_groups and mask & (mask - 1) and not is_group(state.nodes, mask):
            raise _refused("preferred hint violates NUMA node allocation")
        return mask

    def _fits(self, state: MemoryState, nodes: int, wanted: Amounts) -> bool:
        self._crash_on_missing(wanted, nodes)
        if not nodes & (nodes - 1):
            held = state.nodes[nodes.bit_length() - 1].free
        else:
            held = group_sums(state.nodes, nodes)
        enough = True
        for kind, size in wanted:
            enough = enough and held[self._index[kind]] >= size
        return enough

    def charge(
        self,
        before: tuple[NodeMemory, ...],
        blocks: tuple[Block, ...],
        reusable: Mapping[tuple[int, str], int] = NOTHING,
    ) -> tuple[NodeMemory, ...]:
        nodes = list(before)
        for block in blocks:
            mask, left = block.nodes, block.size
            if reusable:
                left = max(0, left - reusable.get((mask, block.kind), 0))
            index = self._index[block.kind]
            for position in positions(mask):
                node = nodes[position]
                used = min(node.free[index], left)
                left -= used
                nodes[position] = NodeMemory(node.assignments + 1, mask, changed(node.free, index, -used))
        return tuple(nodes)

    # Release

    def release(self, state: MemoryState, uid: str, containers: Sequence[str] | None = None) -> MemoryState:
        """The pod, or these containers of it, are over: their memory goes back, lowest node first.

        KUBELET: a restarted kubelet admits init containers that are over again and wants memory for them once more, which
        can cost a running pod its admission.
        """
        mine = state.blocks.get(uid)
        if mine is None:
            return state
        nodes, left, pods = state.nodes, dict(mine), state.pods
        for name in sorted(mine) if containers is None else containers:
            blocks = left.pop(name, ())
            if uid not in pods:
                nodes = self._given_back(nodes, blocks)
        held = dict(state.blocks)
        if left:
            held[uid] = left
        else:
            del held[uid]
            if uid in pods:
                # What a pod has as a whole it keeps until its last container is gone.
                nodes = self._given_back(nodes, pods[uid])
                pods = {other: blocks for other, blocks in pods.items() if other != uid}
        return MemoryState(nodes, held, state.reuse, state.haunted, pods)

    def _given_back(
        self, before: tuple[NodeMemory, ...], blocks: tuple[Block, ...]
    ) -> tuple[NodeMemory, ...]:
        nodes = list(before)
        for block in blocks:
            left = block.size
            index = self._index[block.kind]
            for position in positions(block.nodes):
                node = nodes[position]
                assignments = node.assignments - 1
                held = (self.allocatable[position][index] - node.free[index]) & UINT64
                given = min(held, left)
                left -= given
                cells = node.cells if assignments else 1 << position
                nodes[position] = NodeMemory(assignments, cells, changed(node.free, index, given))
        return tuple(nodes)

    # Restart

    def restore(self, state: MemoryState) -> MemoryState:
        """What a restarted kubelet makes of the state file, or its refusal to start."""
        expected = self.initial().nodes
        for uid, containers in sorted(state.blocks.items()):
            if uid in state.pods:
                expected = self.charge(expected, state.pods[uid])
                continue
            for _, blocks in sorted(containers.items()):
                expected = self.charge(expected, blocks)
        if not self._same(state.nodes, expected):
            raise StartError(
                "memory", "[memorymanager] the expected machine state is different from the real one"
            )
        if self.rules.memory_groups:
            for totals, node in zip(self.totals, state.nodes, strict=True):
                self._crash_on_missing(tuple(totals.items()), node.cells)
        return MemoryState(state.nodes, state.blocks, pods=state.pods)

    def _same(self, real: tuple[NodeMemory, ...], expected: tuple[NodeMemory, ...]) -> bool:
        if not self.rules.memory_groups:
            return real == expected
        if [(node.assignments, node.cells) for node in real] != [
            (node.assignments, node.cells) for node in expected
        ]:
            return False
        return all(group_sums(real, node.cells) == group_sums(expected, node.cells) for node in expected)


def _refused(problem: str) -> AdmissionError:
    return unexpected(f"[memorymanager] {problem}", "memory")


def _regenerated(blocks: tuple[Block, ...], wanted: Amounts) -> Answer:
    """Hints from what is already charged; any difference from the request means no preference."""
    if sorted((block.kind, block.size) for block in blocks) != sorted(wanted):
        return {}
    return {block.kind: Hints([block.nodes], [block.nodes]) for block in blocks}


def _best(hints: Hints) -> Hint | None:
    """A preferred mask if there is one, the narrowest of its class."""
    if hints.preferred:
        return Hint(min(hints.preferred, key=narrower), preferred=True)
    return Hint(min(hints.masks, key=narrower), preferred=False) if hints.masks else None
