"""Taking CPUs spread evenly over NUMA nodes: the option `distribute-cpus-across-numa`.

Mirrors `cpumanager/cpu_assignment.go` (takeByTopologyNUMADistributed, v1.23 to v1.37). For each possible number of
nodes, the combination of nodes that leaves all nodes most evenly filled wins; what does not divide evenly is dealt round
robin over the subset that keeps the balance best. Since v1.37 a combination inside one socket beats all others where the
option `align-by-socket` is set, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from numaware.twin.cpu.packed import NotEnoughCpusError, nodes_in_order, take
from numaware.twin.errors import EndlessLoop
from numaware.twin.hardware import Layout

# A NUMA node and its place in the sorted list: a node that spans sockets is listed once for each.
Listed = tuple[int, int]


class _Plan(NamedTuple):
    """How evenly the nodes would be filled, which nodes to use, which of them take the remainder, and the winner's class."""

    balance: float
    nodes: tuple[Listed, ...]
    remainder: tuple[Listed, ...]
    one_socket: bool = False


class AccountingError(Exception):
    """The kubelet's own arithmetic did not come out even."""


def take_distributed(
    layout: Layout,
    free: int,
    count: int,
    group: int,
    *,
    spread: bool = False,
    within_reach: bool = False,
    by_socket: bool = False,
) -> int:
    """The mask of `count` CPUs out of `free`, dealt over NUMA nodes in units of `group` CPUs.

    `within_reach` and `by_socket` are since v1.37: no node is asked for more than it has, and with align-by-socket nodes of
    one socket are sought first.
    """
    if count <= 0:
        return 0
    if count % group:
        return take(layout, free, count, spread=spread)
    if count > free.bit_count():
        raise NotEnoughCpusError(count, free.bit_count())
    nodes = {node: cpus & free for node, cpus in layout.numas if cpus & free}
    ordered = list(enumerate(nodes_in_order(layout, free)))
    available = {node: cpus.bit_count() for node, cpus in nodes.items()}
    groups = -(-layout.cpu_count // group)
    per_node = -(-groups // len(layout.numas))
    wanted = -(-count // group)
    sockets = _sockets_of(layout) if by_socket else None
    for size in range(-(-wanted // per_node), min(wanted, len(nodes)) + 1):
        plan = _best_plan(ordered, available, size, count, group, sockets)
        if plan is not None:
            share = _share(plan.nodes, count, group, available if within_reach else None)
            return _deal(layout, nodes, plan, share, count, group, spread=spread)
    return take(layout, free, count, spread=spread)


def _sockets_of(layout: Layout) -> dict[int, int]:
    """NUMA node -> the sockets it has CPUs of, as a mask."""
    return dict(zip(layout.ids, layout.sockets_of_node, strict=True))


def _share(nodes: Sequence[Listed], count: int, group: int, available: dict[int, int] | None) -> int:
    """What each node gives before the remainder is dealt: an even part, no more than the poorest of `available` has."""
    share = count // len(nodes) // group * group
    if available is None:
        return share
    return min(share, *(available[node] // group * group for _, node in nodes))


def _best_plan(
    ordered: Sequence[Listed],
    available: dict[int, int],
    size: int,
    count: int,
    group: int,
    sockets: Mapping[int, int] | None,
) -> _Plan | None:
    """The combination of `size` nodes with the lowest imbalance, the first among equals.

    With `sockets`, the sockets of each node, one that lies in a single socket beats any that does not.
    """
    best: _Plan | None = None
    for nodes in combinations(ordered, size):
        if best is not None:
            best = best._replace(nodes=_overwritten(best.nodes, nodes))
            if best.balance == 0 and (sockets is None or best.one_socket):
                break
        share = _share(nodes, count, group, available if sockets else None)
        remainder = count - share * size
        if sum(available[node] for node in {node for _, node in nodes}) < count:
            continue
        if sum(available[node] // group for _, node in nodes) * group < count:
            continue
        if any(available[node] < share for _, node in nodes):
            continue
        after = available.copy()
        for _, node in nodes:
            after[node] -= share
        plan = _Plan(math.inf if remainder else _imbalance(after.values()), nodes, ())
        if remainder:
            plan = _with_remainder(plan, after, remainder, group)
        if sockets is not None:
            plan = plan._replace(one_socket=_in_one_socket(nodes, sockets))
        if _is_better(plan, best):
            best = plan
    return best


def _in_one_socket(nodes: Sequence[Listed], sockets: Mapping[int, int]) -> bool:
    touched = 0
    for _, node in nodes:
        touched |= sockets[node]
    return touched.bit_count() <= 1


def _is_better(plan: _Plan, best: _Plan | None) -> bool:
    # KUBELET: before any combination is kept, the best one counts as crossing sockets and infinitely unbalanced.
    balance, one_socket = (math.inf, False) if best is None else (best.balance, best.one_socket)
    return plan.one_socket if plan.one_socket != one_socket else plan.balance < balance


def _with_remainder(plan: _Plan, after: dict[int, int], remainder: int, group: int) -> _Plan:
    """Choose who takes what does not divide evenly, group by group."""
    candidates = [listed for listed in plan.nodes if after[listed[1]] >= group]
    best = plan
    for size in range(len(candidates), 0, -1):
        # Each size fills a fresh buffer, so only subsets of the same size overwrite each other.
        for subset in combinations(candidates, size):
            if len(best.remainder) == size:
                best = best._replace(remainder=_overwritten(best.remainder, subset))
            if sum(after[node] for _, node in subset) < remainder:
                continue
            left = after.copy()
            for node in _in_turn(subset, remainder, group, left.__getitem__):
                left[node] -= group
            balance = _imbalance(left.values())
            if balance < best.balance:
                best = plan._replace(balance=balance, remainder=subset)
    return best


def _overwritten(kept: tuple[Listed, ...], current: tuple[Listed, ...]) -> tuple[Listed, ...]:
    """What a remembered combination looks like once a later one was written into its shared buffer.

    KUBELET: the kubelet keeps a slice, not a copy, while it goes on generating combinations in place
    (iterateCombinations). Go doubles the buffer of a slice that outgrows it (1, 2, 4, 8), so what was appended after the
    last doubling is shared by all combinations that begin alike.
    """
    shared = (1 << (len(kept) - 1).bit_length() >> 1) + 1
    if kept[:shared] != current[:shared]:
        return kept
    return kept[:shared] + current[shared:]


def _deal(
    layout: Layout, nodes: dict[int, int], plan: _Plan, share: int, count: int, group: int, *, spread: bool
) -> int:
    taken = 0
    missing = count

    def take_from(node: int, amount: int) -> None:
        nonlocal taken, missing
        free = nodes[node] & ~taken
        # KUBELET: a node that cannot give its part is passed over without a word; the sum at the end tells.
        if amount <= free.bit_count():
            cpus = take(layout, free, amount, spread=spread)
            taken |= cpus
            missing -= cpus.bit_count()

    for _, node in plan.nodes:
        take_from(node, share)
    remainder = count - share * len(plan.nodes)
    for node in _in_turn(plan.remainder, remainder, group, lambda node: (nodes[node] & ~taken).bit_count()):
        take_from(node, group)
    if missing > 0:
        raise AccountingError(f"accounting error, not enough CPUs allocated, remaining: {missing}")
    if missing < 0:
        raise AccountingError(f"accounting error, too many CPUs allocated, remaining: {missing}")
    return taken


def _in_turn(nodes: Sequence[Listed], missing: int, group: int, left: Callable[[int], int]) -> Iterator[int]:
    """The nodes that give a group each, round after round, until nothing is missing; `left` tells what a node has."""
    while missing > 0:
        before = missing
        for _, node in nodes:
            if missing > 0 and left(node) >= group:
                yield node
                missing -= group
        if missing == before:
            # KUBELET: dealing goes round until all is dealt. Where what is left on the nodes adds up but is no whole core on
            # any, it goes round forever, and the kubelet admits no pod any more (takeByTopologyNUMADistributed).
            raise EndlessLoop(
                "an endless loop: what is left of distributed CPUs is no whole core on any NUMA node"
            )


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
