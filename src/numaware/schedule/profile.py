"""What counts how much: a profile says what a cluster wants, in one place. `profiles/` has those that ship."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import msgspec
import yaml

from numaware.errors import InputError
from numaware.schedule.pod_kinds import WorkloadClass
from numaware.schedule.score import SCORES, TOP, Score, ScoreInput, misalignment
from numaware.schedule.stranding import Mix

MOST_BYTES = 1 << 20
_HEAVIEST = 1000
# A place that is aligned better wins over any score and any preference of the pod.
_ALIGNED = 4 * TOP
_CLASSES = ("high", "medium", "low")
_SWITCHES = {"align-first": "align_first", "large-jobs": "large_jobs"}
SHIPPED = ("default", "most-pods", "pack", "spread")

Weights = tuple[tuple[str, int], ...]


class Profile(msgspec.Struct, frozen=True, cache_hash=True):
    """Weights of the scores for each class of workload, ascending by name of score.

    `align_first`: no exclusive pod lies on more NUMA nodes, or farther apart, than the best node would have it, whatever the
    scores say. `large_jobs`: room is kept for whole-node and half-node jobs, and for each kind of pod the more the scarcer
    it is (`outlook.py`); else only the pods that came count, each as one.
    """

    high: Weights = (("stranding", 1),)
    medium: Weights = (("stranding", 1),)
    low: Weights = (("least-allocated", 1), ("spare-gpus", 20), ("stranding", 1000))
    align_first: bool = True
    large_jobs: bool = True

    def weigh(self, kind: WorkloadClass, outcome: ScoreInput, mix: Mix) -> int:
        """The weighted mean of the scores, 0 to TOP; below zero for what could be aligned better."""
        total = 0
        scores, most = _scores(self, kind)
        for score, weight in scores:
            total += weight * score(outcome, mix)
        worth = total // most
        return worth - _ALIGNED * misalignment(outcome) if self.align_first and kind != "low" else worth

    def only_strands(self, kind: WorkloadClass) -> bool:
        """Whether a pod goes where it is aligned best, and among equals where least is stranded: nothing else counts."""
        return (
            self.align_first and kind != "low" and [name for name, _ in getattr(self, kind)] == ["stranding"]
        )


@lru_cache(maxsize=256)
def _scores(profile: Profile, kind: WorkloadClass) -> tuple[list[tuple[Score, int]], int]:
    """The scores that count for a class of workload, and the sum of their weights."""
    weights: Weights = getattr(profile, kind)
    return [(SCORES[name], weight) for name, weight in weights if weight], max(
        1, sum(weight for _, weight in weights)
    )


DEFAULT_PROFILE = Profile()


def shipped(name: str) -> Profile:
    """A profile that comes with numaware, one of SHIPPED."""
    data = resources.files("numaware.schedule").joinpath(f"profiles/{name}.yaml").read_bytes()
    return read(data, f"profile {name}")


def read(data: bytes, source: str) -> Profile:
    """A profile in YAML: `high: {stranding: 8, distance: 3}`; what is not named is as in the default profile."""
    if len(data) > MOST_BYTES:
        raise InputError(source, "larger than 1 MiB, which no profile is")
    try:
        content: Any = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(source, f"not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise InputError(
            source, "not a profile", hint="expected high, medium or low, each with scores and weights"
        )
    fields: dict[str, Any] = {}
    for key, value in content.items():
        if key in _CLASSES:
            fields[key] = _weights(key, value, source)
        elif key in _SWITCHES:
            if not isinstance(value, bool):
                raise InputError(source, f"{key} is neither true nor false")
            fields[_SWITCHES[key]] = value
        else:
            hint = f"known: {', '.join((*_CLASSES, *_SWITCHES))}"
            raise InputError(source, f"{key!r} is no class of workload", hint=hint)
    return Profile(**fields)


def _weights(kind: str, weights: object, source: str) -> Weights:
    if not isinstance(weights, dict) or not weights:
        raise InputError(
            source, f"{kind}: expected scores and weights", hint=f"known scores: {', '.join(SCORES)}"
        )
    for name, weight in weights.items():
        if name not in SCORES:
            raise InputError(source, f"{kind}: {name!r} is no score", hint=f"known: {', '.join(SCORES)}")
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= _HEAVIEST:
            raise InputError(
                source, f"{kind}: the weight of {name} is not a whole number from 0 to {_HEAVIEST}"
            )
    return tuple(sorted(weights.items()))
