"""Why a pod is refused, resource by resource: what it wants, what it could get, and who is in the way.

The kubelet has one sentence for every cause of a TopologyAffinityError. The merge that failed holds the real one: a
resource nobody can satisfy, a resource that fits only across more NUMA nodes than the policy accepts, or resources
that each fit, but on different nodes.
"""

from __future__ import annotations

import msgspec

from numaware.diagnose.capacity import Zone, zones
from numaware.diagnose.wording import amount_of, quantity_of, some
from numaware.twin.node import Merge, Node, Verdict
from numaware.twin.topology.hints import Hints
from numaware.workload.demand import Demand, is_memory

_MOST_HOLDERS = 6


class Cause(msgspec.Struct, frozen=True):
    """One resource's part in a refusal: the NUMA node sets it would accept, and what keeps it from others."""

    resource: str
    wants: tuple[tuple[int, ...], ...]
    blocked_by: tuple[str, ...]
    text: str


def causes(node: Node, wanted: Demand, verdict: Verdict, merges: list[Merge]) -> tuple[Cause, ...]:
    """Why `node` refused; `merges` is the evidence the twin gave with its verdict."""
    if verdict.reason == "TopologyAffinityError" and merges:
        return _no_common_node(node, wanted, merges[-1])
    if verdict.reason == "SMTAlignmentError":
        return (_broken_cores(node, wanted, verdict),)
    if verdict.resource:
        return (_not_enough(node, wanted, verdict),)
    return ()


def _no_common_node(node: Node, wanted: Demand, merge: Merge) -> tuple[Cause, ...]:
    requested = requested_by(wanted, merge.container)
    answers = {
        resource: hints
        for answer in (merge.cpu, merge.memory, merge.device)
        for resource, hints in answer.items()
        if hints is not None
    }
    single = node.kubelet.config.topology_policy == "single-numa-node"
    accepted = {
        resource: [mask for mask in hints.preferred if not (single and mask & (mask - 1))]
        for resource, hints in answers.items()
    }
    return tuple(
        _one_resource(node, resource, requested.get(resource, 0), hints, accepted)
        for resource, hints in answers.items()
    )


def requested_by(wanted: Demand, container: str | None) -> dict[str, int]:
    """What one container, or the pod as a whole, asks of each resource."""
    part = next((one for one in wanted.containers if one.name == container), None) if container else wanted
    if part is None:
        return {}
    return {"cpu": part.cpus, **dict(part.memory), **dict(part.devices)}


def _one_resource(
    node: Node, resource: str, count: int, hints: Hints, accepted: dict[str, list[int]]
) -> Cause:
    """One resource in a failed merge; `accepted` are the masks of every resource that the policy would take."""
    ids = node.kubelet.layout.node_ids
    policy = node.kubelet.config.topology_policy
    here = zones(node, resource)
    asked = amount_of(resource, count)
    if not hints.masks:
        free = quantity_of(resource, _free_everywhere(node, resource, here))
        text = f"{asked} cannot be had on any set of NUMA nodes: {free} free in all."
    elif accepted[resource]:
        text = f"{asked} would fit on {some([ids(mask) for mask in accepted[resource]])}"
        text += f", {_elsewhere(node, resource, accepted)}."
    elif hints.preferred:
        largest = quantity_of(resource, max((zone.total for zone in here), default=0))
        fewest = hints.preferred[0].bit_count()
        text = (
            f"{asked} need {fewest} NUMA nodes even on an empty machine (the largest has {largest}), "
            f"and {policy} gives one."
        )
    else:
        text = (
            f"{asked} would fit in fewer NUMA nodes on an empty machine, but now only on "
            f"{some([ids(mask) for mask in hints.masks])}, which {policy} does not accept: "
            f"{_shortages(resource, count, here)}."
        )
    wants = tuple(ids(mask) for mask in hints.preferred)
    return Cause(resource, wants, _blockers(resource, count, here), text)


def _elsewhere(node: Node, resource: str, accepted: dict[str, list[int]]) -> str:
    """Which other resources do not fit where this one does."""
    mine = set(accepted[resource])
    ids = node.kubelet.layout.node_ids
    apart = [
        f"{other} only on {some([ids(mask) for mask in masks])}"
        for other, masks in accepted.items()
        if masks and mine.isdisjoint(masks)
    ]
    if apart:
        return f"but {' and '.join(apart)}"
    stuck = [other for other, masks in accepted.items() if not masks]
    return f"if {' and '.join(stuck)} did" if stuck else "but not together with all the others"


def _free_everywhere(node: Node, resource: str, here: tuple[Zone, ...]) -> int:
    """What is free in all; a device on two nodes, or on none, counts once."""
    if resource != "cpu" and not is_memory(resource):
        return node.kubelet.devices.free(node.state.device, resource).bit_count()
    return sum(zone.free for zone in here)


def _shortages(resource: str, count: int, here: tuple[Zone, ...]) -> str:
    return ", ".join(
        f"NUMA {zone.numa} has {quantity_of(resource, zone.free)} free"
        + (f" ({quantity_of(resource, count - zone.free)} short)" if zone.free < count else "")
        for zone in here
        if zone.total
    )


def _blockers(resource: str, count: int, here: tuple[Zone, ...]) -> tuple[str, ...]:
    """Who holds the resource on nodes where the request does not fit, the largest first."""
    lines: list[tuple[int, str]] = []
    for zone in here:
        if zone.free >= count:
            continue
        if zone.reserved:
            text = f"the system keeps {amount_of(resource, zone.reserved)} on NUMA {zone.numa}"
            lines.append((zone.reserved, text))
        lines += [
            (
                holder.amount,
                f"{holder.pod} ({holder.container}) holds {amount_of(resource, holder.amount)} on NUMA {zone.numa}",
            )
            for holder in zone.holders
        ]
    lines.sort(key=lambda line: (-line[0], line[1]))
    shown = [text for _, text in lines[:_MOST_HOLDERS]]
    if len(lines) > _MOST_HOLDERS:
        shown.append(f"and {len(lines) - _MOST_HOLDERS} more")
    return tuple(shown)


def _broken_cores(node: Node, wanted: Demand, verdict: Verdict) -> Cause:
    count = requested_by(wanted, verdict.container).get("cpu", 0)
    per_core = node.kubelet.layout.cpus_per_core
    here = zones(node, "cpu")
    if count % per_core:
        text = (
            f"{amount_of('cpu', count)} cannot be whole cores: each core has {per_core} threads and "
            "full-pcpus-only gives whole cores only."
        )
        return Cause("cpu", (), (), text)
    cpus = node.kubelet.cpus
    left = (node.state.cpu.shared & ~cpus.reserved_cores).bit_count() if cpus else 0
    text = (
        f"{amount_of('cpu', count)} asked for, {left} left that are not threads of a reserved core "
        "(full-pcpus-only)."
    )
    return Cause("cpu", (), _blockers("cpu", count, here), text)


def _not_enough(node: Node, wanted: Demand, verdict: Verdict) -> Cause:
    requested = requested_by(wanted, verdict.container)
    resource = verdict.resource
    if resource == "memory":
        # The Memory Manager judges all kinds together; name the one that is short, else plain memory.
        kinds = [kind for kind in requested if is_memory(kind)]
        resource = next((kind for kind in kinds if _short(node, kind, requested[kind])), "memory")
    count = requested.get(resource, 0)
    here = zones(node, resource)
    free = _free_everywhere(node, resource, here)
    text = f"{amount_of(resource, count)} asked for, {quantity_of(resource, free)} free in all"
    if here:
        text += f": {_shortages(resource, count, here)}"
    if is_memory(resource) and free >= count:
        text += "; a NUMA node serves either single-node allocations or one group of nodes, never both"
    return Cause(resource, (), _blockers(resource, count, here), text + ".")


def _short(node: Node, kind: str, count: int) -> bool:
    return sum(zone.free for zone in zones(node, kind)) < count
