"""Why a pod is refused, resource by resource: what it wants, what it could get, and who is in the way.

The kubelet has one sentence for every cause of a TopologyAffinityError. The merge that failed holds the real one: a
resource nobody can satisfy, a resource that fits only across more NUMA nodes than the policy accepts, or resources
that each fit, but on different nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.diagnose.capacity import Zone, fewest_nodes, free_in_all, tied_to, zones
from numaware.diagnose.wording import amount_of, node_list, quantity_of, some
from numaware.machine.words import count as counted
from numaware.twin.node import Merge, Node, Verdict
from numaware.twin.topology.hints import Hints
from numaware.workload.demand import ContainerDemand, Demand, demand, is_memory
from numaware.workload.pod import Pod

_MOST_HOLDERS = 6


class Cause(msgspec.Struct, frozen=True):
    """One resource's part in a refusal: the NUMA node sets it would prefer, and what keeps it from others."""

    resource: str
    wants: tuple[tuple[int, ...], ...]
    blocked_by: tuple[str, ...]
    text: str


def causes(node: Node, pod: Pod, verdict: Verdict, merges: list[Merge]) -> tuple[Cause, ...]:
    """Why `node` refused; `merges` is the evidence the twin gave with its verdict."""
    wanted = demand(pod, sidecars=node.kubelet.rules.sidecars)
    # What earlier containers of the pod got is part of what stood in the way of a later one.
    refusal = _Refusal(Node(node.kubelet, verdict.held), pod.uid, requested_by(wanted, verdict.container))
    match verdict.reason:
        case "TopologyAffinityError":
            return tuple(refusal.failed_merge(merges[-1]))
        case "SMTAlignmentError":
            return (refusal.broken_cores(),)
        case "KubeletPanic":
            return (refusal.crash(verdict.message),)
        case _:
            return (refusal.not_enough(verdict),)


def requested_by(wanted: Demand, container: str) -> dict[str, int]:
    """What one container, or the pod as a whole, asks of each resource."""
    found = [one for one in wanted.containers if one.name == container]
    part: ContainerDemand | Demand = found[0] if found else wanted
    return {**dict(part.devices), **dict(part.memory), "cpu": part.cpus}


class _Refusal:
    """The node at the moment of refusal, whose pod it was, and what was asked for."""

    def __init__(self, node: Node, uid: str, requested: dict[str, int]) -> None:
        self.node = node
        self.uid = uid
        self.requested = requested
        self.policy = node.kubelet.config.topology_policy
        self.merging = False

    def failed_merge(self, merge: Merge) -> Iterator[Cause]:
        self.merging = True
        answers = {
            resource: hints
            for answer in (merge.cpu, merge.memory, merge.device)
            for resource, hints in answer.items()
            if hints is not None
        }
        accepted = {resource: self._accepted(hints) for resource, hints in answers.items()}
        for resource, hints in answers.items():
            here = self._zones(resource)
            if not hints.masks:
                free = quantity_of(resource, free_in_all(self.node, resource, self.uid))
                text = f"{self._asked(resource)} cannot be had on any set of NUMA nodes: {free} free in all"
            elif accepted[resource]:
                text = self._elsewhere(resource, accepted)
            elif hints.preferred:
                text = self._too_wide(resource, hints, here)
            else:
                text = self._fragmented(resource, hints, here)
            wants = tuple(self._ids(mask) for mask in hints.preferred)
            yield Cause(resource, wants, self._blockers(resource), f"{text}.")

    def _accepted(self, hints: Hints) -> list[int]:
        """The masks that the policy would take."""
        single = self.policy == "single-numa-node"
        return [mask for mask in hints.preferred if not (single and mask & (mask - 1))]

    def _elsewhere(self, resource: str, accepted: dict[str, list[int]]) -> str:
        """It fits by itself; what of the others does not fit there."""
        mine = accepted[resource]
        text = f"{self._asked(resource)} would fit on {self._some(mine)}"
        apart = [
            f"{other} only on {self._some(masks)}"
            for other, masks in accepted.items()
            if masks and set(mine).isdisjoint(masks)
        ]
        stuck = [other for other, masks in accepted.items() if not masks]
        if apart:
            return f"{text}, but {' and '.join(apart)}"
        if stuck:
            return f"{text} if {' and '.join(stuck)} did too"
        return f"{text}, but not together with all the others"

    def _too_wide(self, resource: str, hints: Hints, here: tuple[Zone, ...]) -> str:
        count = self.requested[resource]
        width = hints.preferred[0].bit_count()
        needed = f"{counted(width, 'NUMA node')} even on an empty machine"
        if fewest_nodes(self.node, resource, count) < width:
            # All kinds of memory come from the same nodes, so that one can widen the others.
            wide = [
                kind
                for kind, size in self.requested.items()
                if is_memory(kind) and fewest_nodes(self.node, kind, size) == width
            ]
            return f"{self._asked(resource)} come from the same nodes as {' and '.join(wide)}, which takes {needed}"
        largest = quantity_of(resource, max((zone.most for zone in here), default=0))
        return (
            f"{self._asked(resource)} need {needed} (the largest has {largest}), and {self.policy} gives one"
        )

    def _fragmented(self, resource: str, hints: Hints, here: tuple[Zone, ...]) -> str:
        count = self.requested[resource]
        fewest = counted(fewest_nodes(self.node, resource, count), "NUMA node")
        text = (
            f"{self._asked(resource)} belong on {fewest} by the size of the machine, but now fit only on "
            f"{self._some(hints.masks)}, which {self.policy} does not accept: {_free(resource, here, count)}"
        )
        tied = tied_to(self.node, resource, self.uid)
        if tied:
            text += f"; an init container of this pod had its own on {node_list(tied)}, so this one must go there too"
        if is_memory(resource):
            text += self._memory_rules(resource, here)
        return text

    def broken_cores(self) -> Cause:
        """`full-pcpus-only` gives whole cores, and none that the system uses a thread of."""
        count = self.requested["cpu"]
        kubelet, shared = self.node.kubelet, self.node.state.cpu.shared
        per_core = kubelet.layout.cpus_per_core
        if count % per_core:
            text = (
                f"{self._asked('cpu')} cannot be whole cores: a core has {counted(per_core, 'thread')}, and "
                "full-pcpus-only gives whole cores only."
            )
            return Cause("cpu", (), (), text)
        left = (shared & ~kubelet.cpus.reserved_cores).bit_count() if kubelet.cpus else 0
        text = f"{self._asked('cpu')} asked for, {left} left on cores that the system does not use (full-pcpus-only)."
        return Cause("cpu", (), self._blockers("cpu"), text)

    def crash(self, message: str) -> Cause:
        """The known ways to bring a kubelet down: CPUs it deals forever, a huge page size some node lacks, sparse ids."""
        kubelet = self.node.kubelet
        if "endless loop" in message:
            text = (
                f"distribute-cpus-across-numa deals {self._asked('cpu')} in whole cores, no NUMA node has a whole core "
                "left for the rest, and the kubelet never stops trying."
            )
            return Cause("cpu", (), self._blockers("cpu"), text)
        for kind in filter(is_memory, self.requested):
            without = [
                number
                for number, totals in zip(
                    kubelet.layout.ids, kubelet.memory.totals if kubelet.memory else (), strict=False
                )
                if kind not in totals
            ]
            if without:
                text = (
                    f"{node_list(without)} has no {kind} at all, not even a pool of 0 pages, "
                    "and the Memory Manager does not expect that."
                )
                return Cause(kind, (), (), text)
        numbers = ", ".join(map(str, kubelet.layout.ids))
        text = (
            "prefer-closest-numa-nodes looks up distances by NUMA number and expects 0, 1, 2 and so on; "
            f"here they are {numbers}."
        )
        return Cause("topology", (), (), text)

    def not_enough(self, verdict: Verdict) -> Cause:
        """A manager could not give what it was told to give."""
        resource = verdict.resource
        if is_memory(resource):
            # The Memory Manager judges all kinds together; name the one that is short, else plain memory.
            short = (
                kind
                for kind, count in sorted(self.requested.items())
                if is_memory(kind) and free_in_all(self.node, kind, self.uid) < count
            )
            resource = next(short, resource)
        here = self._zones(resource)
        free = free_in_all(self.node, resource, self.uid)
        text = f"{self._asked(resource)} asked for, {quantity_of(resource, free)} free in all"
        if sum(zone.total > 0 for zone in here) > 1:
            text += f": {_free(resource, here)}"
        if is_memory(resource):
            text += self._memory_rules(resource, here)
        return Cause(resource, (), self._blockers(resource), f"{text}.")

    def _memory_rules(self, kind: str, here: tuple[Zone, ...]) -> str:
        """Why memory that is free still cannot be had: groups of nodes, or another kind that goes with it."""
        count = self.requested[kind]
        if sum(zone.free for zone in here) < count:
            return ""
        groups, single = self._memory_groups(kind)
        told = [f"{node_list(group)} are one group and serve only requests for all of it" for group in groups]
        if single:
            told.append(f"requests for one node already use {node_list(single)}, so no group can")
        short = [
            other
            for other, asked in self.requested.items()
            if is_memory(other) and other != kind and any(zone.free < asked for zone in self._zones(other))
        ]
        if short and all(zone.free >= count for zone in here):
            told.append(f"all kinds of memory come from the same nodes, and {' and '.join(short)} is short")
        return "".join(f"; {text}" for text in told)

    def _memory_groups(self, kind: str) -> tuple[list[tuple[int, ...]], list[int]]:
        """Groups of nodes that serve as one, and nodes that can be in no group because they serve alone.

        The latter are in the way of a request that fits no node alone, or that was told to take several.
        """
        nodes = self.node.state.memory.nodes
        groups = sorted({self._ids(node.cells) for node in nodes if node.cells & (node.cells - 1)})
        grouped = {number for group in groups for number in group}
        count = self.requested[kind]
        if self.merging and any(
            zone.free >= count and zone.numa not in grouped for zone in self._zones(kind)
        ):
            return groups, []
        alone = [
            number
            for number, node in zip(self.node.kubelet.layout.ids, nodes, strict=True)
            if node.assignments and not node.cells & (node.cells - 1)
        ]
        return groups, alone

    def _blockers(self, resource: str) -> tuple[str, ...]:
        """Who holds the resource on nodes where the request does not fit, the largest first."""
        count = self.requested.get(resource, 0)
        unusable: set[int] = set()
        if is_memory(resource):
            groups, alone = self._memory_groups(resource)
            unusable.update(alone, *groups)
        lines: set[tuple[int, str]] = set()
        for zone in self._zones(resource):
            if zone.free >= count and zone.numa not in unusable:
                continue
            if zone.reserved:
                text = f"the system keeps {amount_of(resource, zone.reserved)} on NUMA {zone.numa}"
                lines.add((-zone.reserved, text))
            for holder in zone.holders:
                what = f"{amount_of(resource, holder.amount)} on {node_list(holder.nodes)}"
                lines.add((-holder.amount, f"{holder.pod} ({holder.container}) holds {what}"))
        shown = [text for _, text in sorted(lines)[:_MOST_HOLDERS]]
        if len(lines) > _MOST_HOLDERS:
            shown.append(f"and {len(lines) - _MOST_HOLDERS} more")
        return tuple(shown)

    def _zones(self, resource: str) -> tuple[Zone, ...]:
        return zones(self.node, resource, self.uid)

    def _asked(self, resource: str) -> str:
        return amount_of(resource, self.requested.get(resource, 0))

    def _ids(self, mask: int) -> tuple[int, ...]:
        return self.node.kubelet.layout.node_ids(mask)

    def _some(self, masks: list[int]) -> str:
        return some([self._ids(mask) for mask in masks])


def _free(resource: str, here: tuple[Zone, ...], count: int = 0) -> str:
    """What is free where; with a `count`, how much is missing there."""
    return ", ".join(
        f"NUMA {zone.numa} has {quantity_of(resource, zone.free)} free"
        + (f" ({quantity_of(resource, count - zone.free)} short)" if zone.free < count else "")
        for zone in here
        if zone.total
    )
