"""The CPU Manager's static policy: hints, allocation, release.

Mirrors `cpumanager/policy_static.go` (v1.35). The shared pool shrinks by what containers get for themselves; a pod's
finished init containers leave their CPUs to its later ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container
from functools import cached_property, partial

import msgspec

from numaware.machine.cpuset import list_form
from numaware.twin.cpu.distributed import AccountingError, take_distributed
from numaware.twin.cpu.legacy import take_by_socket, take_legacy
from numaware.twin.cpu.packed import NotEnoughCpusError, take
from numaware.twin.empty_pools import lacking_cpus
from numaware.twin.errors import KubeletPanic, StartError, smt_alignment, unexpected
from numaware.twin.hardware import Layout, mask_order, sums
from numaware.twin.options import CpuOptions
from numaware.twin.rules import Rules
from numaware.twin.topology.hints import IMPOSSIBLE, Answer, Hint, Hints, of_size, single_nodes
from numaware.workload.demand import ContainerDemand, Demand

# Picks remembered for one kind of machine: equal machines are left with equal CPUs again and again.
_MOST_PICKS = 1 << 14


class CpuState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The shared pool, who owns which CPUs, and what the pod last served may use again.

    `pending` is the pod last asked about, where the release keeps its CPUs until the next one (`Rules.keeps_pending`);
    `pods` holds the CPUs of pods that were given them as a whole (`pod_sets.py`).
    """

    shared: int
    owned: dict[str, dict[str, int]]
    reuse: tuple[str, int] = ("", 0)
    pending: str = ""
    pods: dict[str, int] = {}

    def reusable(self, uid: str) -> int:
        return self.reuse[1] if self.reuse[0] == uid else 0


class StaticCpus:
    """The static policy on one kind of machine, with one set of options."""

    name = "static"

    def __init__(
        self, layout: Layout, options: CpuOptions, rules: Rules, reserved: int | None, reserved_count: int
    ) -> None:
        self.layout = layout
        self.options = options
        self.rules = rules
        # (free CPUs, how many of them) -> those the kubelet picks.
        self._picks: dict[tuple[int, int], int] = {}
        if reserved is None:
            try:
                # KUBELET: the reserved CPUs are picked by the configured options too, e.g. spread over NUMA nodes.
                reserved = self.take(layout.all_cpus, reserved_count)
            except (NotEnoughCpusError, AccountingError):
                reserved = 0
            except KubeletPanic as crash:
                raise StartError("cpu", str(crash)) from None
        if reserved.bit_count() != reserved_count:
            raise StartError(
                "cpu",
                "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
                f"(size of {list_form(reserved)} did not equal {reserved_count})",
            )
        self.reserved = reserved
        # Whether CPUs are picked by their numbers, so that these matter and not only how many are free where.
        self.by_number = (
            options.distribute_across_cores
            or options.distribute_across_numa
            or options.prefer_align_uncore
            or not rules.numa_allocator
        )
        self.reserved_cores = layout.siblings(reserved)
        # NUMA nodes of a hint -> the CPUs that count as aligned with it; there are few hints that come true.
        self._inside: dict[int, int] = {}
        totals = sorted((cpus.bit_count() for cpus in layout.node_cpus), reverse=True)
        self._largest = [sum(totals[: size + 1]) for size in range(len(layout.numas))]

    @cached_property
    def _masks(self) -> list[int]:
        """All masks over nodes that have CPUs, in the kubelet's order."""
        outside = self.layout.full & ~self.layout.cpu_nodes
        return [mask for mask in mask_order(len(self.layout.ids)) if not mask & outside]

    @property
    def pool(self) -> int:
        """The CPUs the policy manages: all of them, or with strict reservation all but the reserved."""
        return (
            self.layout.all_cpus & ~self.reserved if self.options.strict_reservation else self.layout.all_cpus
        )

    def initial(self) -> CpuState:
        return CpuState(self.pool, {})

    def available(self, state: CpuState) -> int:
        return state.shared & ~self.reserved

    # Hints

    def hints(self, state: CpuState, uid: str, wanted: ContainerDemand | Demand) -> Answer:
        """For a container, or for a pod as a whole."""
        if not wanted.cpus:
            return {}
        if isinstance(wanted, Demand) and wanted.own and lacking_cpus(wanted):
            return {"cpu": IMPOSSIBLE}
        held, mine = 0, state.owned.get(uid)
        if mine:
            for container in wanted.containers if isinstance(wanted, Demand) else (wanted,):
                if container.name in mine:
                    if mine[container.name].bit_count() != container.cpus:
                        return {"cpu": IMPOSSIBLE}
                    held |= mine[container.name]
            if held.bit_count() == wanted.cpus:
                return {"cpu": self._hints(held, 0, wanted.cpus)}
        return {"cpu": self._hints(self.available(state), state.reusable(uid) | held, wanted.cpus)}

    def _hints(self, available: int, reusable: int, count: int) -> Hints:
        nodes = self.layout.node_cpus
        # KUBELET: "preferred" is as narrow as the request could ever be held, all CPUs counted, even reserved and taken
        # ones; on a busy machine no hint may be preferred (generateCPUTopologyHints).
        smallest = min(bisect_left(self._largest, count) + 1, len(self._largest))
        missing = count - reusable.bit_count()
        counts = [(cpus & available).bit_count() for cpus in nodes]
        if smallest == 1 and not reusable and not self.options.align_by_socket:
            return Hints(partial(self._wide_enough, counts, missing), single_nodes(counts, missing))
        if reusable:
            free = sums(counts)
            held = sum(1 << position for position, cpus in enumerate(nodes) if cpus & reusable)
            masks = [mask for mask in self._masks if free[mask] >= missing and mask & held == held]
        else:
            masks = self._wide_enough(counts, missing)
        if self.options.align_by_socket:
            return Hints(
                masks,
                [
                    mask
                    for mask in masks
                    if mask.bit_count() == smallest or self._socket_aligned(mask, smallest)
                ],
            )
        return Hints(masks, of_size(masks, smallest))

    def _wide_enough(self, counts: list[int], wanted: int) -> list[int]:
        free = sums(counts)
        return [mask for mask in self._masks if free[mask] >= wanted]

    def _socket_aligned(self, mask: int, smallest: int) -> bool:
        per_socket = len(self.layout.numas) // len(self.layout.sockets)
        if not per_socket:
            return False
        return self._sockets_of(mask).bit_count() == -(-smallest // per_socket)

    def _sockets_of(self, nodes: int) -> int:
        sockets = 0
        for position, members in enumerate(self.layout.sockets_of_node):
            if nodes >> position & 1:
                sockets |= members
        return sockets

    # Allocation

    def allocate(self, state: CpuState, uid: str, wanted: ContainerDemand, hint: Hint) -> CpuState:
        count = wanted.cpus
        if not count:
            return state
        shared, owned, reusable = state.shared, state.owned, state.reusable(uid)
        mine = owned.get(uid)
        cpus = mine.get(wanted.name) if mine else None
        # KUBELET: until v1.36 this looks at the free pool before it looks at what the container already has, so a running pod
        # can be refused after a kubelet restart (Allocate, full-pcpus-only).
        if self.options.full_pcpus_only and not (cpus is not None and self.rules.held_first):
            self.check_whole_cores(state, count)
        if cpus is None:
            cpus = self.pick(shared & ~self.reserved | reusable, count, hint)
            shared &= ~cpus
            owned = {**owned, uid: {**mine, wanted.name: cpus} if mine else {wanted.name: cpus}}
        return CpuState(
            shared,
            owned,
            (uid, reusable | cpus if wanted.ends else reusable & ~cpus),
            state.pending,
            state.pods,
        )

    def check_whole_cores(self, state: CpuState, count: int) -> None:
        per_core = self.layout.cpus_per_core
        not_multiple = f"requested {count} cpus not multiple cpus per core = {per_core}"
        if count % per_core:
            raise smt_alignment(not_multiple)
        if not self.rules.smt_free:
            return
        left = (state.shared & ~self.reserved_cores).bit_count()
        if count > left:
            if not left and not self.rules.smt_cause:
                # KUBELET: until v1.31 the message was chosen by "some are left", not by cause.
                raise smt_alignment(not_multiple)
            raise smt_alignment(
                f"not enough free physical CPUs: available physical CPUs = {left}, "
                f"requested CPUs = {count}, CPUs per core = {per_core}"
            )

    def pick(self, candidates: int, count: int, hint: Hint) -> int:
        picked = 0
        try:
            if hint.mask is not None:
                aligned = candidates & (self._inside.get(hint.mask) or self._aligned(hint.mask))
                picked = self.take(aligned, min(count, aligned.bit_count()))
                if picked.bit_count() == count:
                    return picked
            # KUBELET: the message of a shortage counts only what is still missing here (allocateCPUs).
            return picked | self.take(candidates & ~picked, count - picked.bit_count())
        except NotEnoughCpusError as error:
            numbers = (
                f": requested={error.requested}, available={error.available}" if self.rules.sidecars else ""
            )
            raise unexpected(f"not enough cpus available to satisfy request{numbers}", "cpu") from None
        except AccountingError as error:
            raise unexpected(str(error), "cpu") from None

    def _aligned(self, nodes: int) -> int:
        if not self.options.align_by_socket:
            cpus = self.layout.cpus_in(nodes)
        else:
            sockets = self._sockets_of(nodes)
            cpus = 0
            for index, (_, members) in enumerate(self.layout.sockets):
                if sockets >> index & 1:
                    cpus |= members
        self._inside[nodes] = cpus
        return cpus

    def take(self, free: int, count: int) -> int:
        """Pick CPUs the way the options say."""
        picked = self._picks.get((free, count))
        if picked is None:
            if len(self._picks) >= _MOST_PICKS:
                self._picks.clear()
            picked = self._picks[free, count] = self._take(free, count)
        return picked

    def _take(self, free: int, count: int) -> int:
        if not self.rules.numa_allocator:
            return (take_by_socket if self.rules.sorted_cpus else take_legacy)(self.layout, free, count)
        spread = self.options.distribute_across_cores
        if self.options.distribute_across_numa:
            group = self.layout.cpus_per_core if self.options.full_pcpus_only else 1
            reach = self.rules.even_within_reach
            by_socket = reach and self.options.align_by_socket
            return take_distributed(
                self.layout, free, count, group, spread=spread, within_reach=reach, by_socket=by_socket
            )
        return take(
            self.layout,
            free,
            count,
            by_uncore=self.options.prefer_align_uncore,
            odd_uncore=self.rules.odd_uncore,
            spread=spread,
        )

    def release(self, state: CpuState, uid: str) -> CpuState:
        """The pod is gone: its CPUs go back to the shared pool."""
        if uid not in state.owned or (uid == state.pending and self.rules.keeps_pending):
            return state
        shared, pods = state.shared, state.pods
        if uid in pods:
            # KUBELET: only what the pod had last: after a restart it may have had more (`pod_sets.py`).
            shared |= pods[uid]
            pods = {other: cpus for other, cpus in pods.items() if other != uid}
        else:
            for cpus in state.owned[uid].values():
                shared |= cpus
        owned = dict(state.owned)
        del owned[uid]
        return CpuState(shared, owned, state.reuse, state.pending, pods)

    def asked(self, state: CpuState, uid: str, active: Container[str]) -> CpuState:
        """The pod is asked about: whoever is neither it nor on the node loses what it still held.

        KUBELET: from v1.22.1 to v1.31 the pod last asked about counts as active, even refused or gone (setPodPendingAdmission).
        """
        state = CpuState(state.shared, state.owned, state.reuse, uid, state.pods)
        for other in state.owned:
            if other != uid and other not in active:
                state = self.release(state, other)
        return state

    def restore(self, state: CpuState) -> CpuState:
        """What a restarted kubelet makes of the state file, or its refusal to start."""
        shared, owned = state.shared, state.owned
        fresh = CpuState(shared, owned, pods=state.pods)
        if not shared:
            if any(owned.values()):
                # KUBELET: with strict-cpu-reservation a machine that is fully handed out ends here.
                raise StartError("cpu", "default cpuset cannot be empty")
            return self.initial()
        if self.options.strict_reservation:
            if shared & self.reserved:
                raise StartError(
                    "cpu",
                    f'some of strictly reserved cpus: "{list_form(shared & self.reserved)}" are present in '
                    f'defaultCpuSet: "{list_form(shared)}"',
                )
        elif self.reserved & ~shared:
            raise StartError(
                "cpu",
                f'not all reserved cpus: "{list_form(self.reserved)}" are present in defaultCpuSet: "{list_form(shared)}"',
            )
        known = shared
        for uid, containers in sorted(owned.items()):
            for container, cpus in sorted(containers.items()):
                if cpus & shared:
                    raise StartError(
                        "cpu",
                        f'pod: {uid}, container: {container} cpuset: "{list_form(cpus)}" overlaps with '
                        f'default cpuset "{list_form(shared)}"',
                    )
                known |= cpus
        for cpus in state.pods.values():
            known |= cpus
        if known != self.pool:
            raise StartError(
                "cpu",
                f'current set of available CPUs "{list_form(self.pool)}" doesn\'t match with CPUs in state "{list_form(known)}"',
            )
        return fresh
