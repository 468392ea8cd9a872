"""Taking CPUs packed: whole NUMA nodes and sockets first, then caches, cores, and single threads.

Mirrors `cpumanager/cpu_assignment.go` (takeByTopologyNUMAPacked, v1.23 to v1.37). Units are tried in ascending order of
free CPUs, ties by id, so that an allocation fills what is already broken before it breaks something whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numaware.machine.cpuset import iter_bits
from numaware.twin.hardware import Layout, lowest

# (id, CPUs) of a NUMA node, a socket or a last-level cache.
Unit = tuple[int, int]


class NotEnoughCpusError(Exception):
    """More CPUs asked for than there are candidates."""

    def __init__(self, requested: int, available: int) -> None:
        self.requested = requested
        self.available = available
        super().__init__(requested, available)


def take(
    layout: Layout,
    free: int,
    count: int,
    *,
    by_uncore: bool = False,
    odd_uncore: bool = True,
    spread: bool = False,
) -> int:
    """The mask of the `count` CPUs the kubelet picks out of `free`.

    `by_uncore` is the option prefer-align-cpus-by-uncorecache, `spread` is distribute-cpus-across-cores. `odd_uncore` is
    the rule since v1.34; before, only whole cores were taken from a cache.
    """
    if count <= 0:
        return 0
    if count > free.bit_count():
        raise NotEnoughCpusError(count, free.bit_count())
    if layout.regular and not by_uncore and not spread:
        for node, planes in layout.planes:
            if not free & ~node:
                return _take_in_node(planes, free, count)
    taking = Taking(layout, free, count)
    levels = (
        (taking.whole_nodes, taking.whole_sockets)
        if layout.numa_first
        else (taking.whole_sockets, taking.whole_nodes)
    )
    for level in levels:
        level()
    if by_uncore:
        taking.by_uncore(odd=odd_uncore)
    if not spread:
        taking.whole_cores()
    taking.single_cpus(spread=spread)
    return taking.taken


def nodes_in_order(layout: Layout, free: int) -> list[int]:
    """The NUMA nodes with free CPUs as the allocator tries them: fewest free first, below sorted sockets if these hold several."""
    return [node for node, _ in Taking(layout, free, 0).nodes()]


def _take_in_node(planes: tuple[tuple[int, int], ...], free: int, count: int) -> int:
    """The same choice where all candidates lie in one NUMA node of a regular machine, as nearly always: whole cores by
    number, then threads of broken cores, then of whole ones.
    """
    if count == free.bit_count():
        return free
    if len(planes) == 1:
        return lowest(free, count)
    (first, _), (_, offset) = planes
    low, high = free & first, free >> offset & first
    whole = lowest(low & high, count // 2)
    taken = whole | whole << offset
    left = free & ~taken
    missing = count - taken.bit_count()
    if missing:
        low, high = left & first, left >> offset & first
        broken = (low & ~high) | (high & ~low) << offset
        for core in iter_bits(low ^ high):
            if not missing:
                return taken
            taken |= broken & (1 << core | 1 << core + offset)
            missing -= 1
        taken |= lowest(left & ~taken, missing)
    return taken


class Taking:
    """What is taken so far, what is still free, and how many are missing."""

    def __init__(self, layout: Layout, free: int, count: int) -> None:
        self.layout = layout
        self.free = free
        self.missing = count
        self.taken = 0

    def _take(self, cpus: int) -> None:
        # KUBELET: a unit that lies in two parents is listed under both, and its CPUs count as often as it is taken, so on
        # machines whose sockets and NUMA nodes overlap fewer CPUs than asked for can come out (cpuAccumulator.take).
        self.taken |= cpus
        self.free &= ~cpus
        self.missing -= cpus.bit_count()

    def _sorted(self, units: Iterable[Unit]) -> list[Unit]:
        """Units with free CPUs, the fewest free first, ties by id."""
        ranked = [((self.free & cpus).bit_count(), unit, cpus) for unit, cpus in units if self.free & cpus]
        ranked.sort()
        return [(unit, cpus) for _, unit, cpus in ranked]

    def _outer(self) -> list[Unit]:
        """The first level of the hierarchy: NUMA nodes, or sockets where these hold several of them."""
        return self._sorted(self.layout.numas if self.layout.numa_first else self.layout.sockets)

    def _inner(self) -> list[Unit]:
        """The second level, sorted inside its sorted parents."""
        units = self.layout.sockets if self.layout.numa_first else self.layout.numas
        return [
            unit for _, parent in self._outer() for unit in self._sorted(_inside(units, parent, self.free))
        ]

    def nodes(self) -> list[Unit]:
        return self._outer() if self.layout.numa_first else self._inner()

    def _sockets(self) -> list[Unit]:
        return self._inner() if self.layout.numa_first else self._outer()

    def _core_groups(self) -> list[tuple[int, ...]]:
        """Cores by their sorted parent (the second level of the hierarchy)."""
        cores = self.layout.cores_in_socket if self.layout.numa_first else self.layout.cores_in_node
        return [cores[unit] for unit, _ in self._inner()]

    def _take_whole(self, units: Sequence[Unit]) -> None:
        for _, cpus in units:
            if self.missing >= cpus.bit_count():
                self._take(cpus)

    def whole_nodes(self) -> None:
        if self.missing:
            self._take_whole([unit for unit in self.nodes() if unit[1] & ~self.free == 0])

    def whole_sockets(self) -> None:
        if self.missing:
            # KUBELET: a socket counts as free when its free CPUs equal the *average* socket size, so on asymmetric
            # machines a whole one is overlooked, or one is taken whole of which somebody has a part (isSocketFree; cores
            # likewise, isCoreFree).
            size = self.layout.cpus_per_socket
            self._take_whole([unit for unit in self._sockets() if (unit[1] & self.free).bit_count() == size])

    def by_uncore(self, *, odd: bool) -> None:
        if not self.missing:
            return
        for _, cpus in self._uncores():
            if self.missing >= self.layout.cpus_per_uncore:
                self._take_whole([unit for unit in self._uncores() if unit[1] & ~self.free == 0])
            if self.missing:
                self._part_of_uncore(cpus, odd=odd)
            if not self.missing:
                return

    def _uncores(self) -> list[Unit]:
        return [
            unit
            for _, node in self.nodes()
            for unit in self._sorted(_inside(self.layout.uncores, node, self.free))
        ]

    def _part_of_uncore(self, uncore: int, *, odd: bool) -> None:
        """Take all that is missing from the lowest cores of one cache, or nothing.

        KUBELET: cores are chosen by number before their free threads are counted, so a half-used core in front makes
        the attempt fail although the cache had room (takePartialUncore).
        """
        per_core = self.layout.cpus_per_core
        wanted = -(-self.missing // per_core) if odd else self.missing // per_core
        cores = [core for core in self.layout.cores if core & uncore & self.free][:wanted]
        cpus = 0
        for core in cores:
            cpus |= core & self.free
        if odd and self.missing % 2 and per_core > 1 and cpus.bit_count() > self.missing:
            cpus &= ~(1 << cpus.bit_length() - 1)
        if cpus.bit_count() == self.missing:
            self._take(cpus)

    def whole_cores(self) -> None:
        if self.missing < self.layout.cpus_per_core or not self.missing:
            return
        size = self.layout.cpus_per_core
        # Only whole cores count here and all of them have the same number free: id order inside each parent.
        whole = [
            core for group in self._core_groups() for core in group if (core & self.free).bit_count() == size
        ]
        for core in whole:
            if self.missing >= core.bit_count():
                self._take(core)

    def single_cpus(self, *, spread: bool) -> None:
        if not self.missing:
            return
        if spread:
            order = [cpu for _, socket in self._sockets() for cpu in iter_bits(socket & self.free)]
        else:
            order = [
                cpu
                for group in self._core_groups()
                for core in sorted(group, key=lambda core: ((core & self.free).bit_count(), core & -core))
                for cpu in iter_bits(core & self.free)
            ]
        for cpu in order:
            if not self.missing:
                return
            self._take(1 << cpu)


def _inside(units: Iterable[Unit], parent: int, free: int) -> list[Unit]:
    """The units that have free CPUs inside the parent."""
    return [unit for unit in units if unit[1] & parent & free]
