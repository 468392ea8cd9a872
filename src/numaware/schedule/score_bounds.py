"""What may become of a node that takes a pod, as far as that is certain before its kubelet is asked.

A kubelet that insists on alignment keeps a pod on one NUMA node: which one is its own affair, but how much it takes
there is not. So there are a few prospects, one of which comes true if the pod is admitted, and no node is worth more to
the pod than the best of them. Most nodes are never the best, and need not be asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from numaware.schedule.cluster import Member
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.room import WHOLE, NumaRoom, Room, Site, empty_whole, room, site
from numaware.schedule.score import Outcome, ScoreInput
from numaware.schedule.stranding import Mix


class ScoreBound(msgspec.Struct, frozen=True, gc=False):
    """A placement in outline (`score.ScoreInput`): the zones it changes, as they are and as they may become.

    Without zones the node as a whole is looked at; `wholes` is the node as one zone, before and after.
    """

    site: Site
    used: tuple[int, ...]
    before: tuple[NumaRoom, ...]
    after: tuple[NumaRoom, ...]
    idle: tuple[int, int]
    wholes: tuple[NumaRoom, NumaRoom] | None = None

    @property
    def parts(self) -> list[tuple[NumaRoom, NumaRoom]]:
        if not self.used:
            return [(self.after[0], empty_whole(self.site))]
        empty = self.site.empty
        return [(zone, empty.zones[index]) for index, zone in zip(self.used, self.after, strict=True)]

    def fall(self, mix: Mix) -> int:
        if self.site.spans != "freely" and not self.used:
            return 0
        return mix.relief(self.site, self.before, self.after, self.wholes)


class Standing:
    """How the members of a class stand: what kind of machine they are, and what is free on them."""

    __slots__ = ("capped", "firm", "gpus", "grouped", "left", "milli", "room", "site", "whole")

    def __init__(self, member: Member) -> None:
        load = member.load
        node, used = load.node, load.used
        self.site = site(node.kubelet, member.facts.allocatable)
        self.room = room(node, load.shares, member.allocatable, used)
        self.milli = member.allocatable.get("cpu", 0) - used.get("cpu", 0)
        self.capped = self.room.capped
        self.whole = self.room.whole
        self.left: _Left = (self.milli, self.whole.memory, self.whole.gpus)
        self.gpus = self.room.gpus
        # A NUMA node that shares its memory with others takes no pod of its own, whatever is free there.
        self.grouped = any(part.cells & (part.cells - 1) for part in node.state.memory.nodes)
        # Whether a zone is worth the same whatever is free elsewhere.
        self.firm = self.site.spans != "freely" and not self.grouped and self.capped is self.room.zones


# Thousandths of CPUs, bytes and GPUs that a node has left as a whole.
_Left = tuple[int, int, tuple[int, ...]]
# The kind of machine, a zone's number and what is free there, what is idle of all GPUs of the node; and what the node has
# left, where pods are expected that need more than one zone.
Spot = tuple[Site, int, NumaRoom, int, _Left | None]
_NOWHERE = NumaRoom(0, 0, ())


def spot_of(standing: Standing, footprint: PodFootprint, mix: Mix) -> Spot | None:
    """Where the pod goes if it is admitted, as long as nothing but the spot decides what that is worth; else None."""
    if not (standing.firm and footprint.lowest and mix.by_gpus) or footprint.share or footprint.others:
        return None
    cpus, memory, gpus = footprint.cpus, footprint.memory, footprint.gpus
    for index, zone in enumerate(standing.room.zones):
        if (
            zone.cpus >= cpus
            and zone.memory >= memory
            and (not gpus or (len(zone.gpus) >= gpus and zone.gpus[-gpus] == WHOLE))
        ):
            # What the node has left as a whole is a limit to the zone.
            if (
                zone.cpus - cpus > (standing.milli - footprint.requested_milli) // 1000
                or zone.memory - memory > standing.room.memory - footprint.requested_memory
            ):
                return None
            left = None if mix.is_local(standing.site) else standing.left
            # A pod that takes GPUs has no others to spare.
            return standing.site, index, zone, 0 if gpus else standing.gpus, left
    return (standing.site, -1, _NOWHERE, 0, None) if footprint.together else None


def at_spot(spot: Spot, footprint: PodFootprint) -> ScoreBound | None:
    """What becomes of the spot that the pod goes to; None if there is no such spot."""
    here, index, zone, idle, left = spot
    if index < 0:
        return None
    gpus = zone.gpus[: len(zone.gpus) - footprint.gpus]
    after = NumaRoom(zone.cpus - footprint.cpus, zone.memory - footprint.memory, gpus)
    wholes = None
    if left is not None:
        milli, memory, gpus = left
        wholes = (
            NumaRoom(milli // 1000, memory, gpus),
            NumaRoom(
                (milli - footprint.requested_milli) // 1000,
                memory - footprint.requested_memory,
                gpus[: len(gpus) - footprint.gpus],
            ),
        )
    return ScoreBound(here, (index,), (zone,), (after,), (idle, idle), wholes)


def is_certain(spot: Spot, standing: Standing, footprint: PodFootprint) -> bool:
    """Whether the kubelet takes the pod at the spot, as nothing can come in between, and all else is worth what it was."""
    index = spot[1]
    if index < 0 or not footprint.certain:
        return False
    # Elsewhere, too, what the node has left as a whole is a limit.
    cpus = (standing.milli - footprint.requested_milli) // 1000
    memory = standing.room.memory - footprint.requested_memory
    for other, zone in enumerate(standing.room.zones):
        if other != index and (zone.cpus > cpus or zone.memory > memory):
            return False
    return True


def score_bounds(standing: Standing, footprint: PodFootprint, mix: Mix) -> Sequence[ScoreInput] | None:
    """All that may come true, or None if that cannot be told."""
    here, zones = standing.site, standing.room.zones
    free = here.spans == "freely"
    lowest = footprint.lowest and not standing.grouped
    if not free and not lowest and (footprint.others or not footprint.together):
        return None
    cpus = (standing.milli - footprint.requested_milli) // 1000
    memory = standing.room.memory - footprint.requested_memory
    if not mix.by_gpus and (free or Room(zones, cpus, memory).capped is not zones):
        # Stranded CPUs are counted zone by zone within the node's totals: a change of one zone may change them all.
        return None
    gpus = standing.gpus
    idle = gpus, gpus - footprint.share - WHOLE * footprint.gpus
    if not (free or footprint.cpus or footprint.memory or footprint.gpus or footprint.share):
        # Who owns nothing changes the totals alone.
        return [Outcome(here, standing.room, Room(zones, cpus, memory))]
    whole = standing.whole
    if free:
        left = _left(whole.gpus, footprint)
        return [ScoreBound(here, (), (whole,), (NumaRoom(cpus, memory, some),), idle) for some in left]
    bounds, capped, local = [], standing.capped, mix.is_local(here)
    choices = _in_turn(zones, footprint) if footprint.others else _placed(zones, footprint, lowest=lowest)
    for used, kept in choices:
        before = tuple([capped[index] for index in used])
        after = None if local else NumaRoom(cpus, memory, _gpus_after(zones, used, kept))
        wholes = None if after is None else (whole, after)
        bounds.append(ScoreBound(here, used, before, Room(kept, cpus, memory).capped, idle, wholes))
    # A pod that may lie on several zones does so where no single one has enough.
    return bounds if bounds or footprint.together else None


# Instead of a fall: no zone has enough for a pod that lies on one.
NO_ZONE = -(1 << 62)


def best_aligned_fall(standing: Standing, footprint: PodFootprint, mix: Mix) -> int | None:
    """By how much what is stranded falls at most if the pod lies on one zone; None if `score_bounds` must tell.

    The best of all bounds where nothing but alignment and stranding counts, without any of them being written down: most
    of what an engine does on a cluster of many different nodes is this.
    """
    here, zones, share, gpus = standing.site, standing.room.zones, footprint.share, footprint.gpus
    if not mix.by_gpus or footprint.others:
        return None
    milli, whole = standing.milli - footprint.requested_milli, standing.whole
    cpus, memory = milli // 1000, standing.room.memory - footprint.requested_memory
    narrow, wide = mix.tables(here)
    if here.spans == "freely":
        losses = [wide.lost(NumaRoom(cpus, memory, left)) for left in _left(whole.gpus, footprint)]
        return wide.lost(whole) - min(losses) if losses else None
    lowest = footprint.lowest and not standing.grouped
    own_cpus, own_memory = footprint.cpus, footprint.memory
    owns = own_cpus or own_memory or gpus
    if not (lowest or footprint.together) or not (owns or share) or not wide.whole_only:
        return None
    best = NO_ZONE
    fitting = False
    lost, spans = narrow.lost, here.spans == "if needed" and bool(wide.kinds)
    count = whole.gpus.count(WHOLE) if spans else 0
    for index, zone in enumerate(zones):
        if zone.cpus < own_cpus or zone.memory < own_memory:
            continue
        if gpus and (len(zone.gpus) < gpus or zone.gpus[-gpus] < WHOLE):
            continue
        fitting = True
        before = lost(standing.capped[index])
        left_cpus, left_memory = min(zone.cpus - own_cpus, cpus), min(zone.memory - own_memory, memory)
        for left in _left(zone.gpus, footprint):
            fall = before - lost(NumaRoom(left_cpus, left_memory, left))
            if spans:
                kept = count - gpus - (share and left.count(WHOLE) < zone.gpus.count(WHOLE))
                fall += wide.useful_by(kept, cpus, memory)
            best = max(best, fall)
        if lowest and owns:
            break
    if best == NO_ZONE:
        # A pod that may lie on several zones does so where no single one has enough; a GPU may be far from a pod's CPUs.
        return NO_ZONE if footprint.together and not (fitting and owns) else None
    return best - wide.useful_by(count, whole.cpus, whole.memory) if spans else best


def _gpus_after(
    zones: tuple[NumaRoom, ...], used: tuple[int, ...], kept: tuple[NumaRoom, ...]
) -> tuple[int, ...]:
    """What is left of all GPUs, ascending, when some zones have become others."""
    after = [*zones]
    for index, zone in zip(used, kept, strict=True):
        after[index] = zone
    return tuple(sorted([left for zone in after for left in zone.gpus]))


def _placed(
    zones: tuple[NumaRoom, ...], footprint: PodFootprint, *, lowest: bool
) -> Iterator[tuple[tuple[int, ...], tuple[NumaRoom, ...]]]:
    """Every choice of a zone for the pod, and of a GPU if it wants a part of one; equal choices may come twice.

    `lowest` says that the kubelet takes the first zone with enough of everything.
    """
    cpus, memory, gpus = footprint.cpus, footprint.memory, footprint.gpus
    for index, zone in enumerate(zones):
        if zone.cpus < cpus or zone.memory < memory or len(zone.gpus) < gpus:
            continue
        kept = zone.gpus[: len(zone.gpus) - gpus]
        if gpus and zone.gpus[-gpus] < WHOLE:
            continue
        here = NumaRoom(zone.cpus - cpus, zone.memory - memory, kept)
        if footprint.share:
            yield from _shared(zones, index, here, footprint)
        else:
            yield (index,), (here,)
        if lowest:
            return


def _in_turn(
    zones: tuple[NumaRoom, ...], footprint: PodFootprint
) -> Iterator[tuple[tuple[int, ...], tuple[NumaRoom, ...]]]:
    """The only choice for containers of which each gets the first zone that has enough when its turn comes; none if one fails."""
    left = [*zones]
    for cpus, memory in ((footprint.cpus, footprint.memory), *footprint.others):
        for index, zone in enumerate(left):
            if zone.cpus >= cpus and zone.memory >= memory:
                left[index] = NumaRoom(zone.cpus - cpus, zone.memory - memory, zone.gpus)
                break
        else:
            return
    used = tuple([index for index, zone in enumerate(left) if zone is not zones[index]])
    yield used, tuple([left[index] for index in used])


def _shared(
    zones: tuple[NumaRoom, ...], index: int, here: NumaRoom, footprint: PodFootprint
) -> Iterator[tuple[tuple[int, ...], tuple[NumaRoom, ...]]]:
    """Every choice of a GPU to have a part of, for a pod that leaves `here` of a zone."""
    for left in _left(here.gpus, footprint):
        yield (index,), (NumaRoom(here.cpus, here.memory, left),)
    for other, there in enumerate(zones):
        if other != index:
            for left in _left(there.gpus, footprint):
                shared = NumaRoom(there.cpus, there.memory, left)
                if here == zones[index]:
                    yield (other,), (shared,)
                elif other < index:
                    yield (other, index), (shared, here)
                else:
                    yield (index, other), (here, shared)


def _left(gpus: tuple[int, ...], footprint: PodFootprint) -> Iterator[tuple[int, ...]]:
    """What may be left of GPUs, ascending, when the pod has its own."""
    count, share = footprint.gpus, footprint.share
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
