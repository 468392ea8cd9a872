"""Volcano's numa-aware plugin: which nodes a task fits, which CPUs it is thought to get, and the nodes' scores.

Mirrors `pkg/scheduler/plugins/numaaware` of Volcano (v1.16 alpha, August 2026). It knows CPUs only, sees every
container on its own whatever the kubelet's scope, and picks CPUs in its own way (`volcano_cpus`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from numaware.schedule.peers.volcano_cpus import Cpu, Machine, machine, take
from numaware.workload.demand import exclusive_cpus
from numaware.workload.pod import Container, Pod, units
from numaware.workload.qos import qos_class

Code = Literal["Error", "UnschedulableAndUnresolvable"]


class NumaInfo(msgspec.Struct, frozen=True):
    """A node's Numatopology object: `free` is a mask of CPUs, None where the object has no CPU entry.

    `reserved` is an amount in nano-CPUs, whatever CPUs the kubelet really reserved.
    """

    cpus: tuple[Cpu, ...]
    free: int | None = None
    cpu_policy: str = ""
    topology_policy: str = ""
    reserved: int | None = None


class Task(msgspec.Struct, frozen=True):
    """A pod of a Volcano job with its topology policy (`volcano.sh/numa-topology-policy`)."""

    pod: Pod
    policy: str = ""

    @property
    def has_policy(self) -> bool:
        return self.policy not in ("", "none")


class Fit(NamedTuple):
    """Whether a task fits a node; `cpus` is the mask it would get, None where the plugin makes no assignment."""

    fits: bool
    cpus: int | None = None
    code: Code | None = None
    reason: str = ""


_ANYWHERE = Fit(fits=True)


def predicate(node: NumaInfo | None, task: Task) -> Fit:
    """Whether the task fits the node, as things stand in this scheduling cycle."""
    if qos_class(task.pod) != "Guaranteed":
        return _ANYWHERE
    if task.has_policy:
        if node is None:
            return _refused("Error", "numa info is empty")
        problem = _mismatch(node, task.policy)
        if problem:
            return _refused("Error", problem)
    elif node is None or node.cpu_policy != "static" or node.topology_policy in ("", "none"):
        return _ANYWHERE
    return _assign(node, task.pod.containers)


def bind(node: NumaInfo, fit: Fit) -> NumaInfo:
    """The node after the task was allocated to it."""
    if node.free is None or not fit.cpus:
        return node
    return msgspec.structs.replace(node, free=node.free & ~fit.cpus)


def scores(nodes: Sequence[tuple[NumaInfo | None, Fit]], task: Task, weight: int = 1) -> list[int] | None:
    """The score of each fitting node; None when the plugin has no opinion.

    The fewer NUMA nodes the CPUs lie on the better, relative to the worst candidate: alone, or among equals, a node
    gets 0. Where no CPUs could be found the count is 0, and the score the best.
    """
    if not task.has_policy or all(fit.cpus is None for _, fit in nodes):
        return None
    counts = [_nodes_touched(node, fit) for node, fit in nodes]
    most = max(counts)
    return [weight * (100 - 100 * count // most if most else 100) for count in counts]


def _nodes_touched(node: NumaInfo | None, fit: Fit) -> int:
    if node is None or not fit.cpus:
        return 0
    return len({cpu.numa for cpu in node.cpus if fit.cpus >> cpu.id & 1})


def _refused(code: Code, reason: str) -> Fit:
    return Fit(fits=False, code=code, reason=reason)


def _mismatch(node: NumaInfo, policy: str) -> str:
    if node.cpu_policy != "static":
        return "cpu manager policy isn't static"
    if policy != node.topology_policy:
        return f"task topology policy[{policy}] is different with node[{node.topology_policy}]"
    if not node.free:
        return "cpu allocatable map is empty"
    return ""


def _assign(node: NumaInfo, containers: Sequence[Container]) -> Fit:
    plan = machine(node.cpus)
    reserved = 0 if node.reserved is None else take(plan, plan.all_cpus, units(node.reserved)) or 0
    free, known = node.free or 0, node.free is not None
    assigned = 0
    for container in containers:
        count = exclusive_cpus(container)
        hint = _hint(plan, free & ~reserved, count if known else 0, node.topology_policy)
        if hint is None:
            return _refused(
                "UnschedulableAndUnresolvable", f"container {container.name} cannot be assigned by numa"
            )
        cpus = _cpus(plan, free & ~reserved, count, hint)
        assigned |= cpus
        free &= ~cpus
        # After the first container the plugin's books have a CPU entry, if an empty one.
        known = True
    return Fit(fits=True, cpus=assigned)


class _Hint(NamedTuple):
    """The CPUs to prefer; `aligned` is false where the policy asks for none."""

    cpus: int
    aligned: bool = True


def _hint(plan: Machine, free: int, count: int, policy: str) -> _Hint | None:
    """The merged hint, None when the policy refuses it; a `count` of 0 means that the container has no preference.

    With one resource the merge is a choice: a preferred mask before any other, then the fewest nodes, then the
    smallest mask. The choice is made without listing the masks.
    """
    if policy not in ("best-effort", "restricted", "single-numa-node"):
        return _Hint(0, aligned=False)
    everything = _Hint(plan.all_cpus)
    strict = policy != "best-effort"
    if not count:
        return everything if plan.nodes or not strict else None
    there = [(node, (free & cpus).bit_count()) for node, cpus in plan.nodes]
    # CPUs that the object does not describe count for NUMA node 0, as everything unknown does in Go.
    strangers = (free & ~plan.all_cpus).bit_count()
    there = [(node, amount + (strangers if node == 0 else 0)) for node, amount in there]
    narrowest = _width([cpus.bit_count() for _, cpus in plan.nodes], count) or len(plan.nodes)
    width = _width([amount for _, amount in there], count)
    preferred = width is not None and width <= narrowest
    if strict and (not preferred or (policy == "single-numa-node" and narrowest != 1)):
        return None
    if width is None:
        return everything
    chosen = _smallest_mask(there, max(width, narrowest), count)
    return _Hint(_union(plan.nodes, chosen))


def _width(amounts: Sequence[int], count: int) -> int | None:
    """The fewest amounts that together reach the count."""
    total = 0
    for width, amount in enumerate(sorted(amounts, reverse=True), 1):
        total += amount
        if total >= count:
            return width
    return None


def _smallest_mask(there: Sequence[tuple[int, int]], width: int, count: int) -> frozenset[int]:
    """The `width` nodes with room for `count` whose mask is the smallest number.

    From the highest node down: a node stays out as long as the ones below it can do without.
    """
    chosen = set()
    for position in range(len(there) - 1, -1, -1):
        below = sorted((amount for _, amount in there[:position]), reverse=True)[:width]
        if len(below) < width or sum(below) < count:
            node, amount = there[position]
            chosen.add(node)
            width, count = width - 1, count - amount
    return frozenset(chosen)


def _union(nodes: Sequence[tuple[int, int]], chosen: frozenset[int]) -> int:
    mask = 0
    for node, cpus in nodes:
        if node in chosen:
            mask |= cpus
    return mask


def _cpus(plan: Machine, free: int, count: int, hint: _Hint) -> int:
    """First inside the hint, then from the rest; nothing at all if they do not suffice."""
    inside = 0
    if hint.aligned:
        candidates = free & hint.cpus
        hinted = take(plan, candidates, min(count, candidates.bit_count()))
        if hinted is None:
            return 0
        inside = hinted
    outside = take(plan, free & ~inside, count - inside.bit_count())
    return 0 if outside is None else inside | outside
