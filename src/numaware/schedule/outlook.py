"""Which pods are expected, and how much each kind counts: what a placement should leave room for.

Three things make a kind count. How often it came. What nobody asked for yet but somebody will: jobs that want a whole
machine or half of one, and a typical one for a single GPU; they count a little from the beginning, so that the first
large job of a cluster still finds a node. And how scarce its room is: what is left for a kind, against all that is free.
Room for one more pod of eight GPUs costs nothing while hundreds of nodes are whole, and much when five are. Everything is
counted in GPUs, in CPUs where no machine has GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from numaware.schedule.need import Need
from numaware.schedule.room import WHOLE, Room, Site
from numaware.schedule.stranding import Mix

# The weight of one pod that was seen.
_SEEN = 10_000
# The weight of all jobs for whole machines together, for each pod that was seen, or could have been: a cluster counts as
# if a quarter of its GPUs had been asked for when it is new.
_LARGE, _NEW = 60, 4
# A job for all of a machine asks for this part of it, or for all that the idlest one has.
_PART, _OF = 9, 10
# Typical pods for one GPU that count as seen, by the GPUs of the cluster.
_TYPICAL = 1000
# Shapes of machines that jobs for whole ones are made for: the most frequent ones.
_MOST_SHAPES = 8
# Scarcity raises a weight by this at most; and what all weights together come to.
_SCARCEST, _TOTAL = 2500, 1 << 30


class _Shape(NamedTuple):
    """A shape of machine: how many GPUs (or CPUs) there are, and what else."""

    size: int
    cpus: int
    memory: int


# How many machines of a kind there are in a state.
Machines = Mapping[tuple[Site, Room], int]


def outlook(seen: Mapping[Need, int], machines: Machines) -> Mix:
    """The mix to score by, from the pods that were seen and the machines as they are."""
    sites: Counter[Site] = Counter()
    for (site, _), count in machines.items():
        sites[site] += count
    by_gpus = any(site.empty.gpus for site in sites)
    counted = {need: count for need, count in seen.items() if bool(need.gpus) == by_gpus}
    # A pod for a part of a GPU counts as one for a whole one: who needs a whole one loses it all.
    weights = Counter({need: _SEEN * count * WHOLE // need.milli for need, count in counted.items()})
    weights.update(_large_jobs(machines, sum(counted.values()), by_gpus=by_gpus))
    if by_gpus:
        weights[_typical(sites)] += max(
            1, _SEEN * sum(_size(site, by_gpus=True) * n for site, n in sites.items()) // _TYPICAL
        )
    return Mix(_by_scarcity(weights, machines, by_gpus=by_gpus))


def _size(site: Site, *, by_gpus: bool) -> int:
    """The GPUs, or CPUs, of an empty machine."""
    return site.empty.gpus // WHOLE if by_gpus else site.empty.cpus


def is_large(size: int, largest: int) -> bool:
    """Whether a machine is one of those that large jobs are made for: no smaller than half of the largest."""
    return 2 * size >= largest


def _large_jobs(machines: Machines, seen: int, *, by_gpus: bool) -> dict[Need, int]:
    """Jobs for all of a machine and for half of it, for the most frequent shapes of the larger machines.

    A shape counts as much as there are GPUs (or CPUs) on such machines: who has many of a kind wants jobs that fill them.
    """
    largest = max((_size(site, by_gpus=by_gpus) for site, _ in machines), default=0)
    shapes: Counter[_Shape] = Counter()
    # Free CPUs and bytes of the idlest machine of each shape of which nobody has a GPU.
    idlest: dict[_Shape, tuple[int, int]] = {}
    total = 0
    for (site, room), count in machines.items():
        size = _size(site, by_gpus=by_gpus)
        total += count * size
        if size > 1 and is_large(size, largest):
            shape = _Shape(size, site.empty.cpus, site.empty.memory)
            shapes[shape] += count
            if room.gpus == site.empty.gpus:
                idlest[shape] = max((room.cpus, room.memory), idlest.get(shape, (0, 0)))
    chosen = sorted(shapes, key=lambda shape: (-shapes[shape], shape))[:_MOST_SHAPES]
    on_chosen = sum(shape.size * shapes[shape] for shape in chosen)
    jobs: Counter[Need] = Counter()
    # Where no pod may lie on two NUMA nodes, jobs for half of a machine are the largest that can be.
    largest_is_half = all(site.spans == "never" for site, _ in machines)
    for shape in chosen:
        size, cpus, memory = shape
        gpus = size if by_gpus else 0
        weight = max(4, _LARGE * (seen + total // _NEW) * size * shapes[shape] // on_chosen)
        most = Need(cpus * _PART // _OF, memory * _PART // _OF, gpus, WHOLE)
        jobs[most] += weight // 2
        # A little on each of these machines spoils all of them for who wants one as it is.
        jobs[Need(*idlest[shape], gpus, WHOLE) if by_gpus and shape in idlest else most] += weight // 2
        half = Need(cpus * _PART // _OF // 2, memory * _PART // _OF // 2, gpus // 2, WHOLE)
        if bool(half.gpus) == by_gpus:
            jobs[half] += weight if largest_is_half else weight // 4
    return jobs


def _typical(sites: Counter[Site]) -> Need:
    """A pod for one GPU that asks for what most GPUs have beside them."""
    machines = [
        (site.empty, gpus, gpus * n) for site, n in sites.items() if (gpus := _size(site, by_gpus=True))
    ]
    cpus = _median([(empty.cpus // gpus, count) for empty, gpus, count in machines])
    memory = _median([(empty.memory // gpus, count) for empty, gpus, count in machines])
    return Need(cpus, memory, 1, WHOLE)


def _median(values: list[tuple[int, int]]) -> int:
    """The middle of values that come so many times each."""
    half = sum(count for _, count in values)
    for value, count in sorted(values):
        half -= 2 * count
        if half <= 0:
            return value
    return 0


def _by_scarcity(weights: Mapping[Need, int], machines: Machines, *, by_gpus: bool) -> dict[Need, int]:
    """The weights, raised by the square of all that is free against what is free for the kind; none where nothing is."""
    free = sum(count * (room.gpus if by_gpus else WHOLE * room.cpus) for (_, room), count in machines.items())
    raised = {
        need: weights[need] * min(_SCARCEST * usable**2, free**2) // usable**2 if usable else 0
        for need, usable in Mix(weights).supply(machines).items()
    }
    total = sum(raised.values())
    # Those that count for nothing stay: what is known of the same kinds of pods is known of the mix.
    return {need: weight and max(1, weight * _TOTAL // total) for need, weight in raised.items()}
