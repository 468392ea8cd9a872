"""What may become of a node that takes a pod, as far as that is certain before its kubelet is asked.

A kubelet that insists on alignment keeps a pod on one NUMA node: which one is its own affair, but how much it takes
there is not. So there are a few ways to end, one of which it is if the pod is admitted, and no node is worth more to
the pod than the best of them. Most nodes are never the best, and need not be asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.room import WHOLE, NumaRoom, Room, Site, empty_whole, gpus_left
from numaware.schedule.score import ScoreInput
from numaware.schedule.standing import Standing
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


def score_bounds(standing: Standing, footprint: PodFootprint, mix: Mix) -> Sequence[ScoreInput] | None:
    """All that may come true, or None if that cannot be told."""
    here, zones = standing.site, standing.room.zones
    free = here.spans == "freely"
    lowest = footprint.lowest and not standing.grouped
    if not free and not lowest and (footprint.others or not footprint.together):
        return None
    if footprint.exceeds(standing.milli, standing.room.memory):
        return []
    cpus = (standing.milli - footprint.requested_milli) // 1000
    memory = standing.room.memory - footprint.requested_memory
    if not mix.by_gpus and (free or Room(zones, cpus, memory).capped is not zones):
        # Stranded CPUs are counted zone by zone within the node's totals: a change of one zone may change them all.
        return None
    gpus = standing.gpus
    idle = gpus, gpus - footprint.share - WHOLE * footprint.gpus
    if not (free or footprint.owns or footprint.share):
        # Who owns nothing changes the totals alone, and that rescues nothing.
        return [ScoreBound(here, (), (standing.whole,), (NumaRoom(cpus, memory, standing.whole.gpus),), idle)]
    whole = standing.whole
    if free:
        return [
            ScoreBound(here, (), (whole,), (NumaRoom(cpus, memory, left),), idle)
            for left in gpus_left(whole.gpus, footprint.gpus, footprint.share)
        ]
    bounds, capped, local = [], standing.capped, mix.is_local(here)
    choices = _in_turn(zones, footprint) if footprint.others else _placed(zones, footprint, lowest=lowest)
    for used, kept in choices:
        before = tuple([capped[index] for index in used])
        wholes = None
        if not local:
            changed = dict(zip(used, kept, strict=True))
            after = tuple([changed.get(index, zone) for index, zone in enumerate(zones)])
            wholes = whole, Room(after, cpus, memory).whole
        bounds.append(ScoreBound(here, used, before, Room(kept, cpus, memory).capped, idle, wholes))
    # A pod that may lie on several zones does so where no single one has enough.
    return bounds if bounds or footprint.together else None


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
    for left in gpus_left(here.gpus, footprint.gpus, footprint.share):
        yield (index,), (NumaRoom(here.cpus, here.memory, left),)
    for other, there in enumerate(zones):
        if other != index:
            for left in gpus_left(there.gpus, footprint.gpus, footprint.share):
                shared = NumaRoom(there.cpus, there.memory, left)
                if here == zones[index]:
                    yield (other,), (shared,)
                elif other < index:
                    yield (other, index), (shared, here)
                else:
                    yield (index, other), (here, shared)
