"""What a node is worth at most to a pod for which only alignment and what is stranded count.

The best of all bounds (`score_bounds.py`) without any of them being written down. Most of what an engine does on a cluster
of many different nodes is this, so all that depends on the kind of pod and on the mix is worked out beforehand.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import sub

from numaware.schedule.evaluation_cache import REFUSED, Bound
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.room import WHOLE, gpus_left
from numaware.schedule.score import TOP
from numaware.schedule.standing import Part, Standing
from numaware.schedule.stranding import Mix

# Less than any fall.
_NOTHING = -(1 << 80)


def stranding_bound(footprint: PodFootprint, mix: Mix, otherwise: Bound) -> Bound:
    """The bound for pods of a kind as long as the mix is the same, `otherwise` where alignment is not certain.

    GPUs have to be what is stranded.
    """
    own_cpus, own_memory, own_gpus, share = footprint.cpus, footprint.memory, footprint.gpus, footprint.share
    milli, requested_memory = footprint.requested_milli, footprint.requested_memory
    lowest, together, owns = footprint.lowest, footprint.together, footprint.owns
    # Whether there is anything to align, and it is.
    aligned = (owns or share) and (lowest or together)
    first_only = lowest and owns
    least = WHOLE if own_gpus else share
    taken = mix.total * (own_gpus * WHOLE + share)
    scale = 2 * WHOLE * max(1, mix.total)
    sets, known = mix.anywhere.sets, mix.anywhere.known
    used_by, useful = mix.anywhere.used_by, mix.anywhere.useful
    cpu_steps, memory_steps = sets.cpus, sets.memory
    served = sets.served_after(own_gpus, share)

    def spanning_falls(standing: Standing, gpus: tuple[int, ...], cpus: int, memory: int) -> list[int]:
        """By how much less pods that need several zones could use, for each choice of GPUs of a zone that has these."""
        wide = mix.wide(standing.site)
        rest = [*standing.whole.gpus]
        for left in gpus:
            rest.remove(left)
        after = [tuple(sorted((*rest, *left))) for left in gpus_left(gpus, own_gpus, share)]
        return [standing.spanning - wide.useful(cpus, memory, left) if wide else 0 for left in after]

    def lost_elsewhere(standing: Standing, chosen: Part, cpus: int, memory: int) -> int:
        """How much less pods could use of other zones, as none has more than the node has left."""
        less = 0
        for part in standing.parts:
            zone_cpus, zone_memory, gpus, before = part
            if part is not chosen and (zone_cpus > cpus or zone_memory > memory):
                less += before - useful(min(zone_cpus, cpus), min(zone_memory, memory), gpus)
        return less

    def bound(standing: Standing) -> int | None:
        if standing.largest < least:
            return REFUSED
        cpus, memory = standing.milli - milli, standing.memory - requested_memory
        if (cpus < 0 or memory < 0) and footprint.exceeds(standing.milli, standing.memory):
            return REFUSED
        if (standing.grouped or not aligned) and not standing.freely:
            return otherwise(standing)
        if standing.mix is not mix:
            standing.look(mix)
        cpus //= 1000
        best, elsewhere = _NOTHING, False
        for part in standing.parts:
            zone_cpus, zone_memory, gpus, before = part
            left_cpus, left_memory = zone_cpus - own_cpus, zone_memory - own_memory
            if left_cpus < 0 or left_memory < 0:
                continue
            choices = served[gpus]
            if not choices:
                # A part of a GPU may be far from the pod's CPUs.
                if share and owns:
                    elsewhere = True
                    if lowest:
                        break
                continue
            by_cpus = sets.by_cpus[bisect_right(cpu_steps, min(left_cpus, cpus))]
            by_memory = sets.by_memory[bisect_right(memory_steps, min(left_memory, memory))]
            falls = []
            for others in choices:
                pods = others & by_cpus & by_memory
                used = known.get(pods)
                falls.append((used_by(pods) if used is None else used) - before)
            if standing.spanning:
                falls = [*map(sub, falls, spanning_falls(standing, gpus, cpus, memory))]
            fall = max(falls)
            if standing.most_cpus > cpus or standing.most_memory > memory:
                fall -= lost_elsewhere(standing, part, cpus, memory)
            best = max(best, fall)
            if first_only:
                break
        if best == _NOTHING:
            # A pod that may lie on several zones does so where no single one has enough.
            return REFUSED if standing.freely or (together and not elsewhere) else otherwise(standing)
        best += taken
        # As `score.stranding_score` has it.
        return TOP // 2 + TOP * best // (2 * abs(best) + scale)

    return bound
