"""What a node is worth at most to a pod for which only alignment and what is stranded count.

The best of all bounds (`score_bounds.py`) without any of them being written down. Most of what an engine does on a cluster
of many different nodes is this, so all that depends on the kind of pod and on the mix is worked out beforehand.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

from numaware.schedule.evaluation_cache import REFUSED, Bound
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.room import WHOLE, NumaRoom, gpus_left
from numaware.schedule.score import TOP
from numaware.schedule.standing import Standing
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
    sets, known, used_by = mix.anywhere.sets, mix.anywhere.known, mix.anywhere.used_by
    cpu_steps, by_cpus, memory_steps, by_memory = sets.cpus, sets.by_cpus, sets.memory, sets.by_memory
    served = sets.served_after(own_gpus, share)

    def spanning_after(standing: Standing, zone: NumaRoom, place: int, cpus: int, memory: int) -> int:
        """What pods that need several zones could use after this choice of GPUs."""
        gpus = [*next(islice(gpus_left(zone.gpus, own_gpus, share), place, None))]
        gpus += [left for other in standing.room.zones if other is not zone for left in other.gpus]
        wide = mix.wide(standing.site)
        return wide.useful(cpus, memory, tuple(sorted(gpus))) if wide is not None else 0

    def bound(standing: Standing) -> int | None:
        left = standing.milli - milli
        memory = standing.room.memory - requested_memory
        if standing.largest < least:
            return REFUSED
        if (left < 0 or memory < 0) and footprint.exceeds(standing.milli, standing.room.memory):
            return REFUSED
        if not standing.freely and (not aligned or standing.grouped):
            return otherwise(standing)
        if standing.mix is not mix:
            standing.look(mix)
        cpus, best, elsewhere = left // 1000, _NOTHING, False
        spanning = standing.spanning
        for zone, before in zip(standing.parts, standing.useful, strict=True):
            left_cpus, left_memory = zone.cpus - own_cpus, zone.memory - own_memory
            if left_cpus < 0 or left_memory < 0:
                continue
            choices = served[zone.gpus]
            if not choices and share and owns:
                # A part of a GPU may be far from the pod's CPUs.
                elsewhere = True
                if lowest:
                    break
            pods = (
                by_cpus[bisect_right(cpu_steps, min(left_cpus, cpus))]
                & by_memory[bisect_right(memory_steps, min(left_memory, memory))]
            )
            for place, others in enumerate(choices):
                used = known.get(pods & others)
                if used is None:
                    used = used_by(pods & others)
                if spanning:
                    used += spanning_after(standing, zone, place, cpus, memory) - spanning
                best = max(best, used - before)
            if first_only and choices:
                break
        if best == _NOTHING:
            # A pod that may lie on several zones does so where no single one has enough.
            return REFUSED if standing.freely or (together and not elsewhere) else otherwise(standing)
        best += taken
        # As `score.stranding_score` has it.
        return TOP // 2 + TOP * best // (2 * abs(best) + scale)

    return bound
