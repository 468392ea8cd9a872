"""What a guess about a node leaves open for a pod that it admits: how cores are cut, how memory is grouped, and so on.

A doubt is a condition under which something that nobody published could make the kubelet refuse all the same. The
conditions are plain and on the safe side: each is explained where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaware.diagnose.reason import Reason
from numaware.schedule.published_counts import Counts, amount
from numaware.schedule.shares import wanted_share
from numaware.twin.account import free_cpus, free_devices
from numaware.twin.node import Merge, Node
from numaware.twin.topology.hints import Hint
from numaware.workload.demand import Demand
from numaware.workload.pod import Pod
from numaware.workload.requirements import is_extended


class Judge:
    """What a guess leaves open for one pod that it admits."""

    def __init__(self, counts: Counts, node: Node, pod: Pod, merges: list[Merge]) -> None:
        self.counts = counts
        self.node = node
        self.pod = pod
        # A container that wants nothing of the managers may lie on all NUMA nodes, and takes from none.
        self.merges = [merge for merge in merges if _is_constrained(merge)]
        self.policy = node.kubelet.config.topology_policy
        self.static = node.kubelet.cpus is not None
        self.demand: Demand = node.kubelet.demand(pod)
        self.cpus = [part.cpus for part in self.demand.containers if part.cpus] if self.static else []
        self.memory = dict(self.demand.memory) if node.kubelet.memory else {}
        self.zones = len(counts.zones)

    @property
    def wants_something(self) -> bool:
        return bool(
            self.cpus or self.memory or any(count for name, count in self.demand.devices if is_extended(name))
        )

    def doubts(self) -> Iterator[Reason]:
        """What is not known and could make the kubelet refuse although this guess admits."""
        if self.cpus and not (self._whole_cores() and self._deals_out_evenly()):
            yield Reason("setting", ("cpuManagerPolicyOptions",))
        if self._reuses_cpus() and len(self.cpus) > 2:
            yield Reason("core-siblings")
        if self.memory and self._groups_matter():
            yield Reason("memory-groups")
        if wanted_share(self.pod):
            yield Reason("shares")
        yield from self._device_doubts()
        if self._crashes_where_ids_have_gaps():
            yield Reason("setting", ("topologyManagerPolicyOptions",))
        if not self._later_containers_are_safe():
            yield Reason("cuts")

    def _whole_cores(self) -> bool:
        """Whether `full-pcpus-only` would not mind: whole cores, and enough of them beside those of the system."""
        options = self.counts.cpu_options
        threads = self.counts.threads or 2
        if (options is not None and ("full-pcpus-only", "true") not in options) or threads == 1:
            return True
        capacities = [amount(zone.capacity, "cpu") for zone in self.counts.zones]
        if self.counts.threads is None and any(number % 2 for number in capacities):
            return True
        reserved = sum(capacities) - self.counts.total("cpu")
        free = free_cpus(self.node).bit_count()
        return all(number % threads == 0 for number in self.cpus) and sum(self.cpus) <= free - reserved * (
            threads - 1
        )

    def _deals_out_evenly(self) -> bool:
        """Whether `distribute-cpus-across-numa` cannot trip: its arithmetic fails on some sets of three NUMA nodes and more."""
        options = self.counts.cpu_options
        if options is not None and ("distribute-cpus-across-numa", "true") not in options:
            return True
        return self.zones < 3 or (
            self.policy != "none" and all(_is_single(merge.best) for merge in self.merges)
        )

    def _reuses_cpus(self) -> bool:
        """Whether CPUs of an init container that ends go to a later one: which of them do depends on cores."""
        return self.static and any(part.ends and part.cpus for part in self.demand.containers)

    def _groups_matter(self) -> bool:
        """Memory that was in use before may be in use by groups of NUMA nodes, which nobody publishes."""
        memory = self.node.kubelet.memory
        # A kubelet that gives one NUMA node to each pod never makes groups.
        if (
            memory is None
            or not self.counts.memory_was_used
            or self.zones == 1
            or self.policy == "single-numa-node"
        ):
            return False
        if self.policy != "none":
            return True
        wanted: dict[str, int] = {}
        for part in self.demand.containers:
            for kind, size in part.memory:
                wanted[kind] = wanted.get(kind, 0) + size
        # Whatever the groups are, the one that a roomy NUMA node is in has the room too.
        return not any(
            all(node.free[memory.kinds.index(kind)] >= size for kind, size in wanted.items())
            for node in self.node.state.memory.nodes
        )

    def _device_doubts(self) -> Iterator[Reason]:
        inventories = self.node.kubelet.devices.inventories
        for name, _ in self.demand.devices:
            total = sum(dict(part.devices).get(name, 0) for part in self.demand.containers)
            if not total or not is_extended(name):
                continue
            if name not in inventories:
                if self._merge_decides():
                    yield Reason("device-nodes", (name,))
            elif not self.counts.knows_devices(name):
                free = free_devices(self.node, name)
                if total > max((free & on).bit_count() for on in inventories[name].on_node):
                    yield Reason("devices-on-several", (name,))

    def _crashes_where_ids_have_gaps(self) -> bool:
        gaps = [zone.id for zone in self.counts.zones] != list(range(self.zones))
        return gaps and self.counts.topology_options is None and self.policy in ("best-effort", "restricted")

    def _merge_decides(self) -> bool:
        """Whether a refusal can follow from where things are."""
        return self.policy in ("restricted", "single-numa-node") or (
            self.policy == "best-effort" and bool(self.memory)
        )

    def _later_containers_are_safe(self) -> bool:
        """Whether what the first containers took is known well enough to say what the later ones find."""
        if not self._merge_decides():
            return True
        if self.node.kubelet.by_pod:
            # One merge for all; CPUs and devices may then come from anywhere, but each block of memory has to fit.
            blocks = sum(1 for part in self.demand.containers if part.memory) if self.memory else 0
            return blocks < 2 or all(_is_single(merge.best) for merge in self.merges)
        return self._spread_is_known(self.merges[:-1])

    def leaves_exact_counts(self) -> bool:
        """Whether it is known afterwards how much is left on each NUMA node."""
        if self.zones == 1 or not self.wants_something:
            return not self._reuses_cpus()
        if self._reuses_cpus():
            return False
        if self.policy == "none":
            # Only totals count for CPUs and devices; memory is where the Memory Manager alone decided.
            return not (self.memory and self._memory_was_used())
        return self._spread_is_known(self.merges)

    def _memory_was_used(self) -> bool:
        return any(node.assignments for node in self.node.state.memory.nodes)

    def _spread_is_known(self, merges: list[Merge]) -> bool:
        """Every placement on one NUMA node, and nothing that could make the kubelet look beyond it."""
        if not merges:
            return True
        if not all(_is_single(merge.best) for merge in merges):
            return False
        if self.cpus and self.policy != "single-numa-node" and self._may_align_by_socket():
            return False
        return all(
            self.counts.knows_devices(name)
            for name, count in self.demand.devices
            if count and name in self.node.kubelet.devices.inventories
        )

    def _may_align_by_socket(self) -> bool:
        options = self.counts.cpu_options
        return options is None or ("align-by-socket", "true") in options


def _is_constrained(merge: Merge) -> bool:
    return any(
        hints is not None for answer in (merge.device, merge.cpu, merge.memory) for hints in answer.values()
    )


def _is_single(hint: Hint) -> bool:
    return hint.mask is not None and hint.mask.bit_count() == 1
