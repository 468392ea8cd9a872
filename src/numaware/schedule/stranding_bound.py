"""What a node is worth at most to a pod for which only alignment and what is stranded count.

The best of all bounds (`score_bounds.py`) without any of them being written down. Most of what an engine does on a cluster
of many different nodes is this, so all that depends on the kind of pod and on the mix is worked out beforehand.
"""

from __future__ import annotations

from functools import lru_cache
from operator import sub

from numaware.schedule.evaluation_cache import REFUSED, Bound
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.room import WHOLE, gpus_left
from numaware.schedule.score import TOP
from numaware.schedule.standing import Standing
from numaware.schedule.stranding import Mix

# Less than any fall.
_NOTHING = -(1 << 80)


@lru_cache(maxsize=1 << 14)
def _wholes_left(
    all_gpus: tuple[int, ...], gpus: tuple[int, ...], count: int, share: int
) -> list[tuple[int, ...]]:
    """What may be left of all GPUs when a pod has taken whole ones, or a share of one, from these."""
    rest = [*all_gpus]
    for left in gpus:
        rest.remove(left)
    return [tuple(sorted((*rest, *left))) for left in gpus_left(gpus, count, share)]


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
    used_by = mix.anywhere.used_by
    by_cpus, by_memory = sets.by_cpus, sets.by_memory
    served_before, served = sets.served, sets.served_after(own_gpus, share)

    def spanning_falls(standing: Standing, gpus: tuple[int, ...], cpus: int, memory: int) -> list[int]:
        """By how much less pods that need several zones could use, for each choice of GPUs of a zone that has these."""
        wide = mix.wide(standing.site)
        if wide is None:
            return []
        enough = wide.sets.by_cpus[cpus] & wide.sets.by_memory[memory]
        choices = _wholes_left(standing.whole.gpus, gpus, own_gpus, share)
        return [standing.spanning - wide.used_by(enough & wide.sets.served[left]) for left in choices]

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
        parts, spanning = standing.parts, standing.spanning
        # Whether other zones may have more than the node has left.
        caps = len(parts) > 1 and (standing.most_cpus > cpus or standing.most_memory > memory)
        for part in parts:
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
            enough = by_cpus[min(cpus, left_cpus)] & by_memory[min(memory, left_memory)]
            if len(choices) == 1 and not spanning:
                pods = choices[0] & enough
                used = known.get(pods)
                fall = (used_by(pods) if used is None else used) - before
            else:
                falls = []
                for others in choices:
                    pods = others & enough
                    used = known.get(pods)
                    falls.append((used_by(pods) if used is None else used) - before)
                if spanning:
                    falls = [*map(sub, falls, spanning_falls(standing, gpus, cpus, memory))]
                fall = max(falls)
            if caps:
                for other in parts:
                    other_cpus, other_memory, other_gpus, other_before = other
                    if (other_cpus > cpus or other_memory > memory) and other is not part:
                        # No zone has more than the node has left.
                        pods = (
                            by_cpus[min(cpus, other_cpus)]
                            & by_memory[min(memory, other_memory)]
                            & served_before[other_gpus]
                        )
                        used = known.get(pods)
                        fall += (used_by(pods) if used is None else used) - other_before
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
