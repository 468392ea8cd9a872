"""The feature gates that the kubelet's resource managers hang on, release by release.

Mirrors `pkg/features` of Kubernetes v1.20 to v1.37, as far as these managers ask. A gate is off, on, or locked, and
what it is without a word from the user depends on the version; a gate that a release does not know stops the kubelet.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Gates = tuple[tuple[str, bool], ...]
Stage = Literal["alpha", "beta", "stable"]

NEVER = 10_000


class Gate(msgspec.Struct, frozen=True):
    """One gate: (first minor version, stage, default) in ascending order; stable ones are locked, `gone` ends it."""

    history: tuple[tuple[int, Stage, bool], ...]
    gone: int = NEVER

    def at(self, minor: int) -> tuple[Stage, bool] | None:
        """Stage and default in v1.`minor`, None where the gate does not exist."""
        if minor >= self.gone:
            return None
        return next(((stage, on) for first, stage, on in reversed(self.history) if minor >= first), None)


GATES: dict[str, Gate] = {
    "CPUManager": Gate(((8, "alpha", False), (10, "beta", True), (26, "stable", True)), gone=33),
    "CPUManagerPolicyAlphaOptions": Gate(((23, "alpha", False),)),
    "CPUManagerPolicyBetaOptions": Gate(((23, "beta", True),)),
    "CPUManagerPolicyOptions": Gate(((22, "alpha", False), (23, "beta", True), (33, "stable", True))),
    "InPlacePodLevelResourcesVerticalScaling": Gate(((35, "alpha", False), (36, "beta", True))),
    "InPlacePodVerticalScalingExclusiveCPUs": Gate(((32, "alpha", False),)),
    "InPlacePodVerticalScalingExclusiveMemory": Gate(((34, "alpha", False),)),
    "MemoryManager": Gate(((21, "alpha", False), (22, "beta", True), (32, "stable", True)), gone=36),
    "PodLevelResourceManagers": Gate(((36, "alpha", False), (37, "beta", False))),
    "PodLevelResources": Gate(((32, "alpha", False), (34, "beta", True))),
    "TopologyManager": Gate(((16, "alpha", False), (18, "beta", True), (27, "stable", True)), gone=29),
    "TopologyManagerPolicyAlphaOptions": Gate(((26, "alpha", False),)),
    "TopologyManagerPolicyBetaOptions": Gate(((26, "beta", False), (28, "beta", True))),
    "TopologyManagerPolicyOptions": Gate(((26, "alpha", False), (28, "beta", True), (32, "stable", True))),
}
_ALL_OF_STAGE = {"alpha": "AllAlpha", "beta": "AllBeta"}


def enabled(name: str, minor: int, gates: Gates) -> bool:
    """Whether the gate is open in v1.`minor`: its own setting, else AllAlpha or AllBeta, else the release's default."""
    state = GATES[name].at(minor)
    if state is None:
        return False
    stage, default = state
    chosen = dict(gates)
    if stage == "stable":
        return default
    return chosen.get(name, chosen.get(_ALL_OF_STAGE[stage], default))
