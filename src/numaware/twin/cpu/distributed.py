"""Taking CPUs spread evenly over NUMA nodes: the option `distribute-cpus-across-numa`.

Mirrors `cpumanager/cpu_assignment.go` (takeByTopologyNUMADistributed, v1.35). For each possible number of nodes,
the combination of nodes that leaves all nodes most evenly filled wins; what does not divide evenly is dealt round
robin over the subset that keeps the balance best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from numaware.twin.cpu.packed import NotEnoughCpusError, take
from numaware.twin.hardware import Layout

# A slice that Go grows one element at a time doubles its capacity: 1, 2, 4, 8. A chosen combination of k
# nodes shares the elements beyond its last full capacity with the combinations tried after it.
_SHARED_FROM = {4: 3, 6: 5, 7: 5, 8: 5}


class _Plan(NamedTuple):
    """How evenly the nodes would be filled, which nodes to use, and which of them take the remainder."""

    balance: float
    nodes: tuple[int, ...]
    remainder: tuple[int, ...]


class AccountingError(Exception):
    """The kubelet's own arithmetic did not come out even."""


def take_distributed(layout: Layout, free: int, count: int, group: int, *, spread: bool = False) -> int:
    """The mask of `count` CPUs out of `free`, dealt over NUMA nodes in units of `group` CPUs."""
    if count <= 0:
        return 0
    if count % group:
        return take(layout, free, count, spread=spread)
    if count > free.bit_count():
        raise NotEnoughCpusError(count, free.bit_count())
    nodes = {node: cpus & free for node, cpus in layout.numas if cpus & free}
    ordered = _by_hierarchy(layout, nodes)
    available = {node: nodes[node].bit_count() for node in ordered}
    groups = -(-layout.cpu_count // group)
    per_node = -(-groups // len(layout.numas))
    wanted = -(-count // group)
    for size in range(-(-wanted // per_node), min(wanted, len(ordered)) + 1):
        plan = _best_plan(ordered, available, size, count, group)
        if plan is not None:
            return _deal(layout, nodes, plan, count // size // group * group, count, group, spread=spread)
    return take(layout, free, count, spread=spread)


def _by_hierarchy(layout: Layout, nodes: dict[int, int]) -> list[int]:
    """NUMA nodes with free CPUs, fewest free first; below sorted sockets when sockets hold several nodes."""

    def ranked(units: Iterable[tuple[int, int]]) -> list[int]:
        return [unit for _, unit in sorted((cpus.bit_count(), unit) for unit, cpus in units if cpus)]

    if layout.numa_first:
        return ranked(nodes.items())
    free = 0
    for cpus in nodes.values():
        free |= cpus
    sockets = dict(layout.sockets)
    order: list[int] = []
    for socket in ranked((socket, cpus & free) for socket, cpus in layout.sockets):
        order += ranked((node, cpus) for node, cpus in nodes.items() if cpus & sockets[socket])
    return order


def _best_plan(
    ordered: Sequence[int], available: dict[int, int], size: int, count: int, group: int
) -> _Plan | None:
    """The combination of `size` nodes with the lowest imbalance, the first among equals."""
    best: _Plan | None = None
    share = count // size // group * group
    for nodes in combinations(ordered, size):
        if best is not None:
            best = best._replace(nodes=_overwritten(best.nodes, nodes))
            if best.balance == 0:
                break
        if sum(available[node] for node in nodes) < count:
            continue
        if sum(available[node] // group for node in nodes) * group < count:
            continue
        if any(available[node] < share for node in nodes):
            continue
        after = {node: left - share if node in nodes else left for node, left in available.items()}
        remainder = count - share * size
        plan = _Plan(_imbalance(after.values()), nodes, ())
        if remainder:
            plan = _with_remainder(plan, after, remainder, group)
        if best is None or plan.balance < best.balance:
            best = plan
    return best


def _with_remainder(plan: _Plan, after: dict[int, int], remainder: int, group: int) -> _Plan:
    """Choose who takes what does not divide evenly, group by group."""
    candidates = [node for node in plan.nodes if after[node] >= group]
    best: tuple[float, tuple[int, ...]] | None = None
    for size in range(len(candidates), 0, -1):
        # Each size fills a fresh buffer, so only subsets of the same size overwrite each other.
        for subset in combinations(candidates, size):
            if best is not None and len(best[1]) == size:
                best = best[0], _overwritten(best[1], subset)
            if sum(after[node] for node in subset) < remainder:
                continue
            left = dict(after)
            missing = remainder
            while missing > 0 and any(left[node] >= group for node in subset):
                for node in subset:
                    if missing > 0 and left[node] >= group:
                        left[node] -= group
                        missing -= group
            balance = _imbalance(left.values())
            if best is None or balance < best[0]:
                best = balance, subset
    if best is None:
        return plan._replace(balance=math.inf)
    return plan._replace(balance=best[0], remainder=best[1])


def _overwritten(kept: tuple[int, ...], current: tuple[int, ...]) -> tuple[int, ...]:
    """What a remembered combination looks like once a later one was written into its shared buffer.

    KUBELET: the kubelet keeps a slice, not a copy, while it goes on generating combinations in place
    (iterateCombinations); only tails behind an equal prefix share memory.
    """
    shared = _SHARED_FROM.get(len(kept))
    if shared is None or kept[:shared] != current[:shared]:
        return kept
    return kept[:shared] + current[shared:]


def _deal(
    layout: Layout, nodes: dict[int, int], plan: _Plan, share: int, count: int, group: int, *, spread: bool
) -> int:
    taken = 0

    def take_from(node: int, amount: int) -> int:
        return take(layout, nodes[node] & ~taken, amount, spread=spread)

    missing = count
    for node in plan.nodes:
        taken |= take_from(node, share)
        missing -= share
    while missing > 0 and any((nodes[node] & ~taken).bit_count() >= group for node in plan.remainder):
        for node in plan.remainder:
            if missing > 0 and (nodes[node] & ~taken).bit_count() >= group:
                taken |= take_from(node, group)
                missing -= group
    if missing > 0:
        raise AccountingError(f"accounting error, not enough CPUs allocated, remaining: {missing}")
    if missing < 0:
        raise AccountingError(f"accounting error, too many CPUs allocated, remaining: {missing}")
    return taken


def _imbalance(values: Iterable[int]) -> float:
    """Population standard deviation, mean and result each rounded to thousandths.

    KUBELET: floating point on purpose: the rounding decides which combinations count as equally good.
    """
    numbers = list(values)
    mean = _thousandths(sum(numbers) / len(numbers))
    total = 0.0
    for number in numbers:
        total += (number - mean) * (number - mean)
    return _thousandths(math.sqrt(total / len(numbers)))


def _thousandths(value: float) -> float:
    return math.floor(value * 1000 + 0.5) / 1000
