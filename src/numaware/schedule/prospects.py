"""What may become of a node that takes a pod, as far as that is certain before its kubelet is asked.

A kubelet that insists on alignment keeps a pod on one NUMA node: which one is its own affair, but how much it takes
there is not. So there are a few prospects, one of which comes true if the pod is admitted, and no node is worth more to
the pod than the best of them. Most nodes are never the best, and need not be asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.schedule.cluster import Member
from numaware.schedule.facts import pod_requests
from numaware.schedule.shares import wanted_share
from numaware.schedule.stranding import Mix
from numaware.schedule.zones import WHOLE, Room, Site, Zone, empty_whole, gpu_resource, room, site
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.twin.topology.merge import narrower
from numaware.workload.demand import ContainerDemand, demand
from numaware.workload.pod import Pod


class Prospect(msgspec.Struct, frozen=True, gc=False):
    """A placement in outline (`score.Placement`): the zones it changes, as they are and as they may become.

    Without zones the node as a whole is looked at.
    """

    site: Site
    used: tuple[int, ...]
    before: tuple[Zone, ...]
    after: tuple[Zone, ...]
    idle: tuple[int, int]

    @property
    def parts(self) -> list[tuple[Zone, Zone]]:
        if not self.used:
            return [(self.after[0], empty_whole(self.site))]
        empty = self.site.empty
        return [(zone, empty.zones[index]) for index, zone in zip(self.used, self.after, strict=True)]

    def fall(self, mix: Mix) -> int:
        if self.site.spans != "freely" and not self.used:
            return 0
        return mix.relief(self.site, self.before, self.after)


class Standing:
    """How the members of a class stand: what kind of machine they are, and what is free on them."""

    __slots__ = ("capped", "firm", "gpus", "grouped", "milli", "room", "site")

    def __init__(self, member: Member) -> None:
        load = member.load
        node, used = load.node, load.used
        self.site = site(node.kubelet, member.facts.allocatable)
        self.room = room(node, load.shares, member.allocatable, used)
        self.milli = member.allocatable.get("cpu", 0) - used.get("cpu", 0)
        self.capped = self.room.capped
        self.gpus = self.room.gpus
        # A NUMA node that shares its memory with others takes no pod of its own, whatever is free there.
        self.grouped = any(part.cells & (part.cells - 1) for part in node.state.memory.nodes)
        # Whether a zone is worth the same whatever is free elsewhere.
        self.firm = self.site.spans != "freely" and not self.grouped and self.capped is self.room.zones


# The kind of machine, a zone's number and what is free there, and what is idle of all GPUs of the node.
Spot = tuple[Site, int, Zone, int]
_NOWHERE = Zone(0, 0, ())


def spot_of(standing: Standing, taking: Taking, mix: Mix) -> Spot | None:
    """Where the pod goes if it is admitted, as long as nothing but the spot decides what that is worth; else None."""
    if not (standing.firm and taking.lowest and mix.by_gpus) or taking.share:
        return None
    cpus, memory, gpus = taking.cpus, taking.memory, taking.gpus
    for index, zone in enumerate(standing.room.zones):
        if (
            zone.cpus >= cpus
            and zone.memory >= memory
            and (not gpus or (len(zone.gpus) >= gpus and zone.gpus[-gpus] == WHOLE))
        ):
            # What the node has left as a whole is a limit to the zone.
            if (
                zone.cpus - cpus > (standing.milli - taking.requested_milli) // 1000
                or zone.memory - memory > standing.room.memory - taking.requested_memory
            ):
                return None
            # A pod that takes GPUs has no others to spare.
            return standing.site, index, zone, 0 if gpus else standing.gpus
    return (standing.site, -1, _NOWHERE, 0) if taking.together else None


def at_spot(spot: Spot, taking: Taking) -> Prospect | None:
    """What becomes of the spot that the pod goes to; None if there is no such spot."""
    here, index, zone, idle = spot
    if index < 0:
        return None
    gpus = zone.gpus[: len(zone.gpus) - taking.gpus]
    after = Zone(zone.cpus - taking.cpus, zone.memory - taking.memory, gpus)
    return Prospect(here, (index,), (zone,), (after,), (idle, idle))


def is_certain(spot: Spot, standing: Standing, taking: Taking) -> bool:
    """Whether the kubelet takes the pod at the spot, as nothing can come in between, and all else is worth what it was."""
    index = spot[1]
    if index < 0 or not taking.certain:
        return False
    # Elsewhere, too, what the node has left as a whole is a limit.
    cpus = (standing.milli - taking.requested_milli) // 1000
    memory = standing.room.memory - taking.requested_memory
    for other, zone in enumerate(standing.room.zones):
        if other != index and (zone.cpus > cpus or zone.memory > memory):
            return False
    return True


def prospects(standing: Standing, taking: Taking, mix: Mix) -> list[Prospect] | None:
    """All that may come true, or None if that cannot be told."""
    here, zones = standing.site, standing.room.zones
    free = here.spans == "freely"
    lowest = taking.lowest and not standing.grouped
    if not free and not taking.together and not lowest:
        return None
    cpus = (standing.milli - taking.requested_milli) // 1000
    memory = standing.room.memory - taking.requested_memory
    if not mix.by_gpus and (free or Room(zones, cpus, memory).capped is not zones):
        # Stranded CPUs are counted zone by zone within the node's totals: a change of one zone may change them all.
        return None
    gpus = standing.gpus
    idle = gpus, gpus - taking.share - WHOLE * taking.gpus
    if free or not (taking.cpus or taking.memory or taking.gpus or taking.share):
        whole = standing.room.whole
        left = _left(whole.gpus, taking)
        return [Prospect(here, (), (whole,), (Zone(cpus, memory, some),), idle) for some in left]
    found, capped = [], standing.capped
    for used, kept in _placed(zones, taking, lowest=lowest):
        before = tuple([capped[index] for index in used])
        found.append(Prospect(here, used, before, Room(kept, cpus, memory).capped, idle))
    # A pod that may lie on several zones does so where no single one has enough.
    return found if found or taking.together else None


def _placed(
    zones: tuple[Zone, ...], taking: Taking, *, lowest: bool
) -> Iterator[tuple[tuple[int, ...], tuple[Zone, ...]]]:
    """Every choice of a zone for the pod, and of a GPU if it wants a part of one; equal choices may come twice.

    `lowest` says that the kubelet takes the first zone with enough of everything.
    """
    cpus, memory, gpus = taking.cpus, taking.memory, taking.gpus
    for index, zone in enumerate(zones):
        if zone.cpus < cpus or zone.memory < memory or len(zone.gpus) < gpus:
            continue
        kept = zone.gpus[: len(zone.gpus) - gpus]
        if gpus and zone.gpus[-gpus] < WHOLE:
            continue
        here = Zone(zone.cpus - cpus, zone.memory - memory, kept)
        if taking.share:
            yield from _shared(zones, index, here, taking)
        else:
            yield (index,), (here,)
        if lowest:
            return


def _shared(
    zones: tuple[Zone, ...], index: int, here: Zone, taking: Taking
) -> Iterator[tuple[tuple[int, ...], tuple[Zone, ...]]]:
    """Every choice of a GPU to have a part of, for a pod that leaves `here` of a zone."""
    for left in _left(here.gpus, taking):
        yield (index,), (Zone(here.cpus, here.memory, left),)
    for other, there in enumerate(zones):
        if other != index:
            for left in _left(there.gpus, taking):
                shared = Zone(there.cpus, there.memory, left)
                if here == zones[index]:
                    yield (other,), (shared,)
                elif other < index:
                    yield (other, index), (shared, here)
                else:
                    yield (index, other), (here, shared)


def _left(gpus: tuple[int, ...], taking: Taking) -> Iterator[tuple[int, ...]]:
    """What may be left of GPUs, ascending, when the pod has its own."""
    count, share = taking.gpus, taking.share
    if count:
        if len(gpus) >= count and gpus[-count] == WHOLE:
            yield gpus[:-count]
        return
    if not share:
        yield gpus
        return
    last = 0
    for index, left in enumerate(gpus):
        if left >= share and left != last:
            last = left
            rest = gpus[:index] + gpus[index + 1 :]
            yield tuple(sorted((*rest, left - share))) if left > share else rest


class Taking(msgspec.Struct, frozen=True, gc=False):
    """CPUs, bytes, whole GPUs, and thousandths of one GPU that pods of a kind take of zones on nodes of a kind.

    `together` says that all but the last come from one zone, whatever else is on the node; `lowest` that they come from the
    first zone that has enough, if there is one; `certain` that the kubelet takes the pod then. A pod wants whole GPUs or a
    part of one, never both. What is requested counts for the node as a whole.
    """

    cpus: int
    memory: int
    gpus: int
    share: int
    together: bool
    lowest: bool
    certain: bool
    requested_milli: int
    requested_memory: int


def taking(node: Node, pod: Pod) -> Taking | None:
    """What the pod takes; None if even its GPUs are uncertain."""
    kubelet = node.kubelet
    wanted = demand(pod, sidecars=kubelet.rules.sidecars)
    owners = [part for part in wanted.containers if _owns(kubelet, part)]
    one = owners[0] if len(owners) == 1 else None
    gpu, share = gpu_resource(node), wanted_share(pod)
    whole = any(dict(part.devices).get(gpu or "") for part in owners)
    if whole or share:
        inventory = kubelet.devices.inventories.get(gpu or "")
        # A GPU on two NUMA nodes counts for both, one on none counts for the first; init containers hand theirs on.
        strange = inventory is None or not inventory.single or inventory.healthy & ~inventory.placed
        if strange or (whole and (share or one is None)):
            return None
    requests = dict(pod_requests(pod))
    together = not owners or (one is not None and _stays_together(kubelet, one))
    lowest = one is not None and (together or _prefers_one(kubelet)) and _goes_lowest(kubelet, one, gpu)
    return Taking(
        cpus=one.cpus if one and kubelet.cpus else 0,
        memory=dict(one.memory).get("memory", 0) if one and kubelet.memory else 0,
        gpus=dict(one.devices).get(gpu or "", 0) if one else 0,
        share=share,
        together=together,
        lowest=lowest,
        certain=lowest and len(wanted.containers) == 1 and _only_counts(kubelet),
        requested_milli=requests.get("cpu", 0),
        requested_memory=requests.get("memory", 0),
    )


def _owns(kubelet: Kubelet, part: ContainerDemand) -> bool:
    return bool(
        (kubelet.cpus and part.cpus)
        or (kubelet.memory and part.memory)
        or any(count and name in kubelet.devices.inventories for name, count in part.devices)
    )


def _stays_together(kubelet: Kubelet, part: ContainerDemand) -> bool:
    """Whether a container that is admitted has everything from one NUMA node.

    Under `restricted` that follows from a manager that always gives hints and prefers one node; hints of memory may be
    missing.
    """
    if len(kubelet.layout.ids) == 1:
        return True
    if kubelet.policy is None or not _heeds_nodes(kubelet):
        return False
    if kubelet.policy.name == "single-numa-node":
        return True
    if kubelet.policy.name != "restricted" or not kubelet.rules.equal_masks:
        return False
    if kubelet.cpus and part.cpus:
        return max(cpus.bit_count() for cpus in kubelet.layout.node_cpus) >= part.cpus
    nodes = len(kubelet.layout.ids)
    inventories = kubelet.devices.inventories
    return any(
        inventories[name].has_topology and inventories[name].smallest(count, nodes) == 1
        for name, count in part.devices
        if count and name in inventories
    )


def _prefers_one(kubelet: Kubelet) -> bool:
    """Whether a container has everything from one NUMA node as long as any one has enough, and is not refused otherwise."""
    return (
        kubelet.policy is not None
        and kubelet.policy.name == "best-effort"
        and kubelet.rules.equal_masks
        and _heeds_nodes(kubelet)
    )


def _heeds_nodes(kubelet: Kubelet) -> bool:
    """Whether CPUs come from the NUMA nodes that were chosen, as many as were asked for.

    With `align-by-socket` they come from the whole socket, and `distribute-cpus-across-numa` may give fewer where NUMA nodes
    are without CPUs.
    """
    cpus = kubelet.cpus
    return cpus is None or not (cpus.options.align_by_socket or cpus.options.distribute_across_numa)


def _only_counts(kubelet: Kubelet) -> bool:
    """Whether enough CPUs are always enough: none are asked for by whole cores, spread evenly, or kept for a pod that is gone.

    Where there is one NUMA node only, a policy may say "any" instead of it.
    """
    cpus = kubelet.cpus
    return (
        len(kubelet.layout.ids) > 1
        and not kubelet.rules.keeps_pending
        and (cpus is None or not (cpus.by_number or cpus.options.full_pcpus_only))
    )


def _goes_lowest(kubelet: Kubelet, part: ContainerDemand, gpu: str | None) -> bool:
    """Whether the lowest NUMA node with enough is chosen, and zones tell what is enough: no huge pages, no other devices."""
    kinds = {kind for kind, size in part.memory if size} if kubelet.memory else set()
    devices = {name for name, count in part.devices if count and name in kubelet.devices.inventories}
    return (
        kubelet.policy is not None
        and kubelet.policy.better is narrower
        and kinds <= {"memory"}
        and devices <= {gpu}
    )
