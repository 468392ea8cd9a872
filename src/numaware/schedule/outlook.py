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

from numaware.schedule.need import Need
from numaware.schedule.room import WHOLE, Room, Site
from numaware.schedule.stranding import Mix

# The weight of one pod that was seen.
_SEEN = 10_000
# The weight of all jobs for whole machines together, for each pod that was seen, or could have been: a cluster counts as
# if a quarter of its GPUs had been asked for when it is new.
_LARGE, _NEW = 60, 4
# Of a machine that a job for all of it asks for: the system and what runs on every node have the rest.
_PART, _OF = 9, 10
# Typical pods for one GPU that count as seen, by the GPUs of the cluster.
_TYPICAL = 1000
# Shapes of machines that jobs for whole ones are made for: the most frequent ones.
_MOST_SHAPES = 8
# Scarcity raises a weight by this at most; and what all weights together come to.
_SCARCEST, _TOTAL = 2500, 1 << 30

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
    weights.update(_large_jobs(sites, sum(counted.values()), by_gpus=by_gpus))
    if by_gpus:
        weights[_typical(sites)] += max(
            1, _SEEN * sum(_size(site, by_gpus=True) * n for site, n in sites.items()) // _TYPICAL
        )
    return Mix(_by_scarcity(weights, machines, by_gpus=by_gpus))


def _size(site: Site, *, by_gpus: bool) -> int:
    """The GPUs, or CPUs, of an empty machine."""
    return site.empty.gpus // WHOLE if by_gpus else site.empty.cpus


def _large_jobs(sites: Counter[Site], seen: int, *, by_gpus: bool) -> dict[Need, int]:
    """Jobs for all of a machine and for half of it, for the most frequent shapes of the larger machines."""
    largest = max((_size(site, by_gpus=by_gpus) for site in sites), default=0)
    shapes: Counter[tuple[int, int, int]] = Counter()
    total = 0
    for site, count in sites.items():
        size = _size(site, by_gpus=by_gpus)
        total += count * size
        if size > 1 and 2 * size >= largest:
            shapes[size if by_gpus else 0, site.empty.cpus, site.empty.memory] += count
    chosen = sorted(shapes, key=lambda shape: (-shapes[shape], shape))[:_MOST_SHAPES]
    jobs: Counter[Need] = Counter()
    # Where no pod may lie on two NUMA nodes, jobs for half of a machine are the largest that can be.
    largest_is_half = all(site.spans == "never" for site in sites)
    for gpus, cpus, memory in chosen:
        weight = max(1, _LARGE * (seen + total // _NEW) // len(chosen))
        jobs[Need(cpus * _PART // _OF, memory * _PART // _OF, gpus, WHOLE)] += weight
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
