"""One node by NUMA nodes, as it is drawn: what each holds, and the largest pod that it still has room for.

Both follow from the node alone, so nodes in equal state share them; `wall_model.py` keeps them so.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from numaware.schedule.cluster import Member
from numaware.schedule.room import WHOLE, gpu_resource, room
from numaware.twin.account import account

_GPU_STEPS = (0, 1, 2, 4, 8)


class Strip(msgspec.Struct, frozen=True, array_like=True, rename="camel", gc=False):
    """One NUMA node of a tile: CPUs in all, of the system, owned by pods, asked for in the shared pool; memory used in
    thousandths; GPUs in all and in use; CPUs that a new pod could own.
    """

    id: int
    cpus: int
    reserved: int
    exclusive: int
    shared: int
    memory: int
    gpus: int
    gpus_used: int
    free_to_pin: int


class Largest(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The largest pod with so many GPUs that still fits on one NUMA node: most CPUs first, then memory."""

    gpus: int
    cpus: int
    memory: int
    node: str
    numa: int


def strips_of(member: Member) -> tuple[Strip, ...]:
    """What the NUMA nodes of a node hold."""
    node, used = member.node, member.load.used
    layout, gpu = node.kubelet.layout, gpu_resource(node)
    cpus, memory = account(node, "cpu"), account(node, "memory")
    gpus = account(node, gpu) if gpu else ()
    pool = sum(part.free for part in cpus) if cpus else layout.cpu_count
    wanted = max(0, -(-used.get("cpu", 0) // 1000) - sum(part.held for part in cpus))
    # Where no manager looks after memory, a NUMA node has its share of what was asked for.
    memory_used = _thousandths(used.get("memory", 0), member.allocatable.get("memory", 0))
    strips = []
    for position, numa in enumerate(layout.ids):
        count = layout.node_cpus[position].bit_count()
        here = cpus[position].free if cpus else count
        strips.append(
            Strip(
                numa,
                count,
                cpus[position].reserved if cpus else 0,
                cpus[position].held if cpus else 0,
                # Nobody knows where shared work runs; it is drawn where the pool is.
                min(here, round(wanted * here / pool)) if pool else 0,
                _thousandths(memory[position].total - memory[position].free, memory[position].total)
                if memory
                else memory_used,
                gpus[position].total if gpus else 0,
                gpus[position].total - gpus[position].free if gpus else 0,
                here,
            )
        )
    return tuple(strips)


def _thousandths(part: int, whole: int) -> int:
    return 1000 * part // whole if whole else 0


def largest_by_numa(member: Member) -> list[Largest]:
    """The largest pod on each NUMA node of a node that has a CPU left, with all GPUs that are free there."""
    load = member.load
    zones = room(load.node, load.shares, member.allocatable, load.used).capped
    return [
        Largest(sum(left == WHOLE for left in zone.gpus), zone.cpus, max(0, zone.memory), member.name, numa)
        for numa, zone in zip(member.node.kubelet.layout.ids, zones, strict=True)
        if zone.cpus > 0
    ]


def largest_by_gpus(member: Member) -> Iterable[Largest]:
    """The largest pod on one NUMA node of such a node, for every number of GPUs that one of them has free."""
    best: dict[int, Largest] = {}
    for one in largest_by_numa(member):
        for gpus in _GPU_STEPS:
            if one.gpus < gpus:
                break
            if gpus not in best or largest_first(one) < largest_first(best[gpus]):
                best[gpus] = replace(one, gpus=gpus, node="")
    return best.values()


def largest_first(one: Largest) -> tuple[int, int]:
    """More CPUs first, then more memory; of equals the one that is met first stays."""
    return -one.cpus, -one.memory
