"""What counts how much: weights of scores per kind of workload. The default needs no file."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import yaml

from numaware.errors import InputError
from numaware.schedule.pod_kinds import WorkloadClass
from numaware.schedule.score import SCORES, TOP, Score, ScoreInput
from numaware.schedule.stranding import Mix

_MOST_BYTES = 1 << 20

Weights = tuple[tuple[str, int], ...]


class Profile(msgspec.Struct, frozen=True, cache_hash=True):
    """Weights of the scores for each class of workload, ascending by name of score."""

    # Stranding is what keeps pods out on a cluster that fills up, most of all the rare and large ones; sparing the CPUs beside
    # idle GPUs is its far-sighted part. Distance keeps a pod together where the kubelet would not insist. The emptiest place
    # counts too: CPUs, memory and GPUs then run out together. With less of it fewer pods find a place in the end where CPUs
    # are short, with more of it pods of many GPUs do not.
    high: Weights = (("distance", 12), ("least-allocated", 6), ("spare-gpus", 12), ("stranding", 16))
    medium: Weights = (("distance", 8), ("least-allocated", 6), ("spare-gpus", 12), ("stranding", 16))
    low: Weights = (("least-allocated", 16), ("spare-gpus", 12), ("stranding", 4))

    def weigh(self, kind: WorkloadClass, outcome: ScoreInput, mix: Mix) -> int:
        """The weighted mean of the scores, 0 to TOP."""
        total = 0
        scores, most = _scores(self, kind)
        for score, weight in scores:
            total += weight * score(outcome, mix)
        return total // most


@lru_cache(maxsize=256)
def _scores(profile: Profile, kind: WorkloadClass) -> tuple[list[tuple[Score, int]], int]:
    """The scores that count for a class of workload, and the sum of their weights."""
    weights: Weights = getattr(profile, kind)
    return [(SCORES[name], weight) for name, weight in weights if weight], max(
        1, sum(weight for _, weight in weights)
    )


DEFAULT_PROFILE = Profile()


def read(data: bytes, source: str) -> Profile:
    """A profile in YAML: `high: {stranding: 8, distance: 3}`; classes that are not named keep their default."""
    if len(data) > _MOST_BYTES:
        raise InputError(source, "larger than 1 MiB, which no profile is")
    try:
        content: Any = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(source, f"not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise InputError(
            source, "not a profile", hint="expected high, medium or low, each with scores and weights"
        )
    fields: dict[str, Weights] = {}
    for kind, weights in content.items():
        if kind not in Profile.__struct_fields__:
            raise InputError(source, f"{kind!r} is no class of workload", hint="known: high, medium, low")
        fields[kind] = _weights(kind, weights, source)
    return Profile(**fields)


def _weights(kind: str, weights: object, source: str) -> Weights:
    if not isinstance(weights, dict) or not weights:
        raise InputError(
            source, f"{kind}: expected scores and weights", hint=f"known scores: {', '.join(SCORES)}"
        )
    for name, weight in weights.items():
        if name not in SCORES:
            raise InputError(source, f"{kind}: {name!r} is no score", hint=f"known: {', '.join(SCORES)}")
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= TOP:
            raise InputError(source, f"{kind}: the weight of {name} is not a whole number from 0 to {TOP}")
    return tuple(sorted(weights.items()))
