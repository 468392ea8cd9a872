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

    __slots__ = (
        "capped",
        "gpus",
        "grouped",
        "largest",
        "milli",
        "mix",
        "room",
        "site",
        "spanning",
        "useful",
        "whole",
        "whole_gpus",
        "wide",
    )

    def __init__(self, member: Member) -> None:
        load = member.load
        node, used = load.node, load.used
        self.site = site(node.kubelet, member.facts.allocatable)
        self.room = room(node, load.shares, member.allocatable, used)
        self.milli = member.allocatable.get("cpu", 0) - used.get("cpu", 0)
        self.capped = self.room.capped
        self.whole = self.room.whole
        self.gpus = self.room.gpus
        # A NUMA node that shares its memory with others takes no pod of its own, whatever is free there.
        self.grouped = any(part.cells & (part.cells - 1) for part in node.state.memory.nodes)
        # The largest part that is left of any GPU, and the most whole ones of any zone.
        self.largest = self.whole.gpus[-1] if self.whole.gpus else 0
        self.whole_gpus = max([zone.gpus.count(WHOLE) for zone in self.room.zones], default=0)
        self.mix = None

    def look(self, mix: Mix) -> None:
        """Keep in mind what the pods of a mix would use of each zone, and those that need more than one."""
        self.mix = mix
        self.useful = [*map(mix.anywhere.useful, self.capped)]
        self.wide = mix.wide(self.site)
        self.spanning = self.wide.useful(self.whole) if self.wide is not None else 0


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
    share, gpus = footprint.share, footprint.gpus
    if not mix.by_gpus or footprint.others:
        return None
    here, zones = standing.site, standing.room.zones
    together = footprint.together
    if standing.largest < share or (standing.whole_gpus < gpus and together):
        return NO_ZONE if together else None
    cpus = (standing.milli - footprint.requested_milli) // 1000
    memory = standing.room.memory - footprint.requested_memory
    sets, used_by = mix.anywhere.sets, mix.anywhere.used_by
    if here.spans == "freely":
        whole = standing.whole
        falls = [mix.lost(whole) - mix.lost(NumaRoom(cpus, memory, left)) for left in _left(whole.gpus, footprint)]
        return max(falls, default=None)
    lowest = footprint.lowest and not standing.grouped
    own_cpus, own_memory = footprint.cpus, footprint.memory
    owns = own_cpus or own_memory or gpus
    if not (lowest or together) or not (owns or share):
        return None
    if standing.mix is not mix:
        standing.look(mix)
    served = sets.gpus.pods
    best, fitting = NO_ZONE, False
    for index, zone in enumerate(zones):
        if zone.cpus < own_cpus or zone.memory < own_memory:
            continue
        if gpus and (len(zone.gpus) < gpus or zone.gpus[-gpus] < WHOLE):
            continue
        fitting = True
        left_cpus, left_memory = zone.cpus - own_cpus, zone.memory - own_memory
        pods = sets.cpus.pods(min(left_cpus, cpus)) & sets.memory.pods(min(left_memory, memory))
        before = standing.useful[index]
        for left in _left(zone.gpus, footprint):
            fall = used_by(pods & served(left)) - before
            if standing.spanning:
                kept = NumaRoom(cpus, memory, _gpus_after(zones, (index,), (NumaRoom(0, 0, left),)))
                fall += standing.wide.useful(kept) - standing.spanning
            best = max(best, fall)
        if lowest and owns:
            break
    if best == NO_ZONE:
        # A pod that may lie on several zones does so where no single one has enough; a GPU may be far from a pod's CPUs.
        return NO_ZONE if together and not (fitting and owns) else None
    return best + mix.total * (gpus * WHOLE + share)


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
