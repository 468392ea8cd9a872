"""Which CPUs Volcano thinks a container will get.

Mirrors takeByTopology in `numaaware/provider/cpumanager/cpu_assignment.go` of Volcano (August 2026), a copy of the
kubelet's of 2020 with mistakes of its own: sockets and cores are mixed up with CPUs of the same number, and nothing
makes sure that a "whole" socket or core is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from numaware.machine.cpuset import iter_bits
from numaware.twin.gosort import go_sorted


class Cpu(NamedTuple):
    """Where a CPU is; core ids may be unique on the machine or only in their socket."""

    id: int
    numa: int
    socket: int
    core: int


class Machine(NamedTuple):
    """The CPUs of a machine by NUMA node, socket and core id: (id, mask) pairs, ascending by id."""

    all_cpus: int
    nodes: tuple[tuple[int, int], ...]
    sockets: tuple[tuple[int, int], ...]
    cores: tuple[tuple[int, int], ...]
    socket_of_core: dict[int, int]
    cpus_per_socket: int
    cpus_per_core: int


@lru_cache(maxsize=256)
def machine(cpus: tuple[Cpu, ...]) -> Machine:
    """The tables of a machine, made once."""
    sockets = _groups((cpu.socket, cpu.id) for cpu in cpus)
    physical_cores = len({(cpu.socket, cpu.core) for cpu in cpus})
    everything = 0
    first: dict[int, Cpu] = {}
    for cpu in cpus:
        everything |= 1 << cpu.id
        if cpu.core not in first or cpu.id < first[cpu.core].id:
            first[cpu.core] = cpu
    return Machine(
        all_cpus=everything,
        nodes=_groups((cpu.numa, cpu.id) for cpu in cpus),
        sockets=sockets,
        # A core id stands for the CPUs of every socket that has it, and for the socket of its lowest CPU.
        cores=_groups((cpu.core, cpu.id) for cpu in cpus),
        socket_of_core={core: cpu.socket for core, cpu in first.items()},
        cpus_per_socket=len(cpus) // len(sockets) if cpus else 0,
        cpus_per_core=len(cpus) // physical_cores if cpus else 0,
    )


def take(plan: Machine, free: int, count: int) -> int | None:
    """The mask of `count` CPUs out of `free` (sometimes more than that), None where there are too few."""
    if count < 1:
        return 0
    free &= plan.all_cpus
    if count > free.bit_count():
        return None
    missing = count
    taken = 0
    if missing >= plan.cpus_per_socket:
        # A socket is tried only if a CPU with the socket's number is free.
        for socket in [cpus for number, cpus in plan.sockets if cpus & free and free >> number & 1]:
            taken |= socket & free
            missing -= (socket & free).bit_count()
            free &= ~socket
            if missing < max(1, plan.cpus_per_socket):
                break
    if missing >= max(1, plan.cpus_per_core):
        for core in _cores_to_try(plan, free):
            taken |= core & free
            missing -= (core & free).bit_count()
            free &= ~core
            if missing < max(1, plan.cpus_per_core):
                break
    if missing < 1:
        return taken
    for cpu in _single_cpus(plan, free, taken)[:missing]:
        taken |= 1 << cpu
    return taken


def _cores_to_try(plan: Machine, free: int) -> list[int]:
    """Cores with a free CPU of their own number, sockets with few such cores first, so far as the comparison allows.

    Go hands the sockets over in random order; here they come ascending.
    """
    by_socket = [
        (socket, [(number, core) for number, core in plan.cores if core & cpus & free and free >> number & 1])
        for socket, cpus in plan.sockets
        if cpus & free
    ]
    by_socket = go_sorted(by_socket, lambda one, other: len(one[1]) < len(other[1]) or one[0] < other[0])
    return [core for _, cores in by_socket for _, core in cores]


def _single_cpus(plan: Machine, free: int, taken: int) -> list[int]:
    """All free CPUs, core by core.

    Meant: cores on sockets already taken from, then on the fullest sockets, then the fullest cores, then by number. But
    the wishes are joined by OR, so two cores can each come before the other, and the sort decides.
    """
    sockets = dict(plan.sockets)
    ranked = []
    for number, cpus in plan.cores:
        if cpus & free:
            socket = plan.socket_of_core[number]
            on_socket = sockets[socket]
            rank = (
                -(on_socket & taken).bit_count(),
                (on_socket & free).bit_count(),
                (cpus & free).bit_count(),
                socket,
                number,
            )
            ranked.append((rank, cpus & free))
    ranked = go_sorted(
        ranked, lambda one, other: any(mine < its for mine, its in zip(one[0], other[0], strict=True))
    )
    return [cpu for _, cpus in ranked for cpu in iter_bits(cpus)]


def _groups(members: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    masks: dict[int, int] = {}
    for group, cpu in members:
        masks[group] = masks.get(group, 0) | 1 << cpu
    return tuple(sorted(masks.items()))
