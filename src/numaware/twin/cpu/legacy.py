"""Taking CPUs as kubelets before v1.23 did: whole sockets, whole cores, single CPUs, without regard to NUMA.

Mirrors `cpumanager/cpu_assignment.go` of v1.22 (`take_by_socket`) and of v1.20 and v1.21 (`take_legacy`). The
comparisons of the latter were inconsistent across sockets (the result depended on the order of an unordered set), so
where two sockets compete the twin's choice is one of those that kubelet could have made; inside one socket it is the
kubelet's own.
"""

from __future__ import annotations

from numaware.machine.cpuset import iter_bits
from numaware.twin.cpu.packed import NotEnoughCpusError, Taking, Unit
from numaware.twin.gosort import go_sorted
from numaware.twin.hardware import Layout


class _TakingBySocket(Taking):
    """As since v1.23, but that there are no NUMA nodes between sockets and cores."""

    def _sockets(self) -> list[Unit]:
        return self._sorted(self.layout.sockets)

    def _core_groups(self) -> list[tuple[int, ...]]:
        return [self.layout.cores_in_socket[socket] for socket, _ in self._sockets()]


def take_by_socket(layout: Layout, free: int, count: int) -> int:
    """The mask of the `count` CPUs that v1.22 picks out of `free`."""
    if count <= 0:
        return 0
    if count > free.bit_count():
        raise NotEnoughCpusError(count, free.bit_count())
    taking = _TakingBySocket(layout, free, count)
    taking.whole_sockets()
    taking.whole_cores()
    taking.single_cpus(spread=False)
    return taking.taken


def take_legacy(layout: Layout, free: int, count: int) -> int:
    """The mask of the `count` CPUs that v1.20 and v1.21 pick out of `free`."""
    if count <= 0:
        return 0
    if count > free.bit_count():
        raise NotEnoughCpusError(count, free.bit_count())
    taken = 0
    missing = count
    for _, socket in layout.sockets:
        if missing >= layout.cpus_per_socket and (socket & free).bit_count() == layout.cpus_per_socket:
            taken |= socket & free
            free &= ~socket
            missing -= layout.cpus_per_socket
    for core in _whole_cores(layout, free):
        if missing >= layout.cpus_per_core:
            taken |= core & free
            free &= ~core
            missing -= layout.cpus_per_core
    for cpu in _single_cpus(layout, free, taken):
        if missing <= 0:
            break
        taken |= 1 << cpu
        missing -= 1
    return taken


def _whole_cores(layout: Layout, free: int) -> list[int]:
    """Whole free cores: sockets with the fewest of them first, then by socket and core number."""
    groups = []
    for socket, _ in layout.sockets:
        cores = [
            core
            for core in layout.cores_in_socket[socket]
            if (core & free).bit_count() == layout.cpus_per_core
        ]
        groups.append((len(cores), socket, cores))
    groups.sort()
    return [core for _, _, cores in groups for core in cores]


def _single_cpus(layout: Layout, free: int, taken: int) -> list[int]:
    """Meant: sockets already taken from first, then the emptiest socket, then the emptiest core, then by number.

    KUBELET: the comparison joins these wishes with OR instead of trying them in turn, so two cores can each come before
    the other, and how Go sorts decides (freeCPUs).
    """
    ranked = [
        (
            -(cpus & taken).bit_count(),
            (cpus & free).bit_count(),
            (core & free).bit_count(),
            socket,
            core & -core,
            core,
        )
        for socket, cpus in layout.sockets
        for core in layout.cores_in_socket[socket]
        if core & free
    ]
    ranked.sort(key=lambda entry: entry[4])
    order = go_sorted(
        ranked, lambda one, two: any(mine < other for mine, other in zip(one[:5], two[:5], strict=True))
    )
    return [cpu for *_, core in order for cpu in iter_bits(core & free)]
