"""Why a pod is refused, resource by resource: what it wants, what it could get, and who is in the way.

The kubelet has one sentence for every cause of a TopologyAffinityError. The merge that failed holds the real one: a
resource nobody can satisfy, a resource that fits only across more NUMA nodes than the policy accepts, or resources
that each fit, but on different nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from numaware.diagnose.finding import Message
from numaware.twin.account import (
    NumaAccount,
    account,
    fewest_nodes,
    free_in_all,
    holders,
    pod_name,
    tied_to,
)
from numaware.twin.node import Merge, Node, Verdict
from numaware.twin.topology.hints import Hints
from numaware.twin.topology.policies import accepted_masks
from numaware.workload.demand import ContainerDemand, Demand, is_memory
from numaware.workload.pod import Pod

_MOST_HOLDERS = 6


class Cause(msgspec.Struct, frozen=True):
    """One resource's part in a refusal: the NUMA node sets it would prefer, and what keeps it from others."""

    resource: str
    wants: tuple[tuple[int, ...], ...]
    blocked_by: tuple[Message, ...]
    text: Message


def causes(node: Node, pod: Pod, verdict: Verdict, merges: list[Merge]) -> tuple[Cause, ...]:
    """Why `node` refused; `merges` is the evidence the twin gave with its verdict."""
    wanted = node.kubelet.demand(pod)
    # What earlier containers of the pod got is part of what stood in the way of a later one.
    refusal = _Refusal(Node(node.kubelet, verdict.held), pod.uid, requested_by(wanted, verdict.container))
    match verdict.reason:
        case "TopologyAffinityError":
            return tuple(refusal.failed_merge(merges[-1]))
        case "SMTAlignmentError":
            return (refusal.broken_cores(),)
        case "KubeletPanic":
            return (refusal.crash(verdict.resource),)
        case _:
            return (refusal.not_enough(verdict),)


def requested_by(wanted: Demand, container: str) -> dict[str, int]:
    """What one container, or the pod as a whole, asks of each resource."""
    own = [one for one in wanted.containers if one.name == container]
    part: ContainerDemand | Demand = own[0] if own else wanted
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
        accepted = {resource: accepted_masks(self.policy, hints) for resource, hints in answers.items()}
        for resource, hints in answers.items():
            here = self._account(resource)
            if not hints.masks:
                free = resource, free_in_all(self.node, resource, self.uid)
                text = Message("cause-nowhere", {"asked": self._asked(resource), "free": free})
            elif accepted[resource]:
                text = self._elsewhere(resource, accepted)
            elif hints.preferred:
                text = self._too_wide(resource, hints, here)
            else:
                text = self._fragmented(resource, hints, here)
            wants = tuple(self._ids(mask) for mask in hints.preferred)
            yield Cause(resource, wants, self._blockers(resource), text)

    def _elsewhere(self, resource: str, accepted: dict[str, list[int]]) -> Message:
        """It fits by itself; what of the others does not fit there."""
        mine = accepted[resource]
        facts = {"asked": self._asked(resource), "on": self._sets(mine)}
        apart = [
            {"resource": other, "on": self._sets(masks)}
            for other, masks in accepted.items()
            if masks and set(mine).isdisjoint(masks)
        ]
        stuck = [other for other, masks in accepted.items() if not masks]
        if apart:
            return Message("cause-apart", {**facts, "apart": apart})
        if stuck:
            return Message("cause-stuck", {**facts, "stuck": stuck})
        return Message("cause-together", facts)

    def _too_wide(self, resource: str, hints: Hints, here: tuple[NumaAccount, ...]) -> Message:
        count = self.requested[resource]
        width = hints.preferred[0].bit_count()
        facts: dict[str, Any] = {"asked": self._asked(resource), "width": width}
        if fewest_nodes(self.node, resource, count) < width:
            # All kinds of memory come from the same nodes, so that one can widen the others.
            kinds = [kind for kind in self.requested if is_memory(kind)]
            wide = [kind for kind in kinds if fewest_nodes(self.node, kind, self.requested[kind]) == width]
            if wide:
                return Message("cause-widened", {**facts, "by": wide})
            others = [kind for kind in kinds if kind != resource]
            return Message("cause-widened-together", {**facts, "by": others})
        largest = resource, max((part.counted for part in here), default=0)
        return Message("cause-wide", {**facts, "largest": largest, "policy": self.policy})

    def _fragmented(self, resource: str, hints: Hints, here: tuple[NumaAccount, ...]) -> Message:
        count = self.requested[resource]
        facts: dict[str, Any] = {
            "asked": self._asked(resource),
            "fewest": fewest_nodes(self.node, resource, count),
            "on": self._sets(hints.masks),
            "policy": self.policy,
            "free": _free(resource, here, count),
            "rules": self._memory_rules(resource, here) if is_memory(resource) else [],
        }
        tied = tied_to(self.node, resource, self.uid)
        return Message("cause-fragmented", {**facts, "tied": tied} if tied else facts)

    def broken_cores(self) -> Cause:
        """`full-pcpus-only` gives whole cores, and none that the system uses a thread of."""
        count = self.requested["cpu"]
        kubelet, shared = self.node.kubelet, self.node.state.cpu.shared
        per_core = kubelet.layout.cpus_per_core
        if count % per_core:
            text = Message("cause-odd-cores", {"asked": self._asked("cpu"), "threads": per_core})
            return Cause("cpu", (), (), text)
        left = (shared & ~kubelet.cpus.reserved_cores).bit_count() if kubelet.cpus else 0
        text = Message("cause-no-cores", {"asked": self._asked("cpu"), "left": left})
        return Cause("cpu", (), self._blockers("cpu"), text)

    def crash(self, resource: str) -> Cause:
        """The known ways to bring a kubelet down: CPUs it deals forever, a huge page size some node lacks, sparse ids."""
        kubelet = self.node.kubelet
        if resource == "cpu":
            text = Message("cause-endless", {"asked": self._asked("cpu")})
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
                text = Message("cause-no-pool", {"without": without, "kind": kind})
                return Cause(kind, (), (), text)
        return Cause("topology", (), (), Message("cause-sparse", {"numbers": kubelet.layout.ids}))

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
        here = self._account(resource)
        facts: dict[str, Any] = {
            "asked": self._asked(resource),
            "free": (resource, free_in_all(self.node, resource, self.uid)),
            "rules": self._memory_rules(resource, here) if is_memory(resource) else [],
        }
        if sum(part.total > 0 for part in here) > 1:
            facts["here"] = _free(resource, here)
        return Cause(resource, (), self._blockers(resource), Message("cause-short", facts))

    def _memory_rules(self, kind: str, here: tuple[NumaAccount, ...]) -> list[Message]:
        """Why memory that is free still cannot be had: groups of nodes, or another kind that goes with it."""
        count = self.requested[kind]
        if sum(part.free for part in here) < count:
            return []
        groups, single = self._memory_groups(kind)
        rules = [Message("rule-group", {"nodes": group}) for group in groups]
        if single:
            rules.append(Message("rule-single", {"nodes": single}))
        short = [
            other
            for other, asked in self.requested.items()
            if is_memory(other) and other != kind and any(part.free < asked for part in self._account(other))
        ]
        if short and all(part.free >= count for part in here):
            rules.append(Message("rule-kinds", {"short": short}))
        return rules

    def _memory_groups(self, kind: str) -> tuple[list[tuple[int, ...]], list[int]]:
        """Groups of nodes that serve as one, and nodes that can be in no group because they serve alone.

        The latter are in the way of a request that fits no node alone, or that was told to take several.
        """
        nodes = self.node.state.memory.nodes
        groups = sorted({self._ids(node.cells) for node in nodes if node.cells & (node.cells - 1)})
        grouped = {number for group in groups for number in group}
        count = self.requested[kind]
        if self.merging and any(
            part.free >= count and part.numa not in grouped for part in self._account(kind)
        ):
            return groups, []
        alone = [
            number
            for number, node in zip(self.node.kubelet.layout.ids, nodes, strict=True)
            if node.assignments and not node.cells & (node.cells - 1)
        ]
        return groups, alone

    def _blockers(self, resource: str) -> tuple[Message, ...]:
        """Who holds the resource on nodes where the request does not fit, the largest first."""
        count = self.requested.get(resource, 0)
        unusable: set[int] = set()
        if is_memory(resource):
            groups, alone = self._memory_groups(resource)
            unusable.update(alone, *groups)
        short = [part for part in self._account(resource) if part.free < count or part.numa in unusable]
        numbers = {part.numa for part in short}
        # By what they are sorted by: how much (the most first), who, which container, where.
        holds: dict[tuple[int, str, str, str], Message] = {}
        for part in short:
            if part.reserved:
                facts: dict[str, Any] = {"amount": (resource, part.reserved), "numa": part.numa}
                holds[-part.reserved, "the system", "", str(part.numa)] = Message("block-system", facts)
        for holder in holders(self.node, resource, self.uid) if short else ():
            if not numbers.isdisjoint(holder.nodes):
                facts = {
                    "container": holder.container,
                    "amount": (resource, holder.amount),
                    "nodes": holder.nodes,
                }
                own = holder.uid == self.uid
                who = "this pod" if own else pod_name(self.node, holder.uid)
                text = Message("block-own", facts) if own else Message("block-pod", {"pod": who, **facts})
                holds[-holder.amount, who, holder.container, "+".join(map(str, holder.nodes))] = text
        shown = [holds[key] for key in sorted(holds)[:_MOST_HOLDERS]]
        if len(holds) > _MOST_HOLDERS:
            shown.append(Message("block-more", {"count": len(holds) - _MOST_HOLDERS}))
        return tuple(shown)

    def _account(self, resource: str) -> tuple[NumaAccount, ...]:
        return account(self.node, resource, self.uid)

    def _asked(self, resource: str) -> tuple[str, int]:
        return resource, self.requested.get(resource, 0)

    def _ids(self, mask: int) -> tuple[int, ...]:
        return self.node.kubelet.layout.node_ids(mask)

    def _sets(self, masks: Sequence[int]) -> list[tuple[int, ...]]:
        return [self._ids(mask) for mask in masks]


def _free(resource: str, here: tuple[NumaAccount, ...], count: int = 0) -> list[dict[str, Any]]:
    """What is free where; with a `count`, how much is missing there."""
    return [
        {"numa": part.numa, "free": (resource, part.free)}
        | ({"short": (resource, count - part.free)} if part.free < count else {})
        for part in here
        if part.total
    ]
