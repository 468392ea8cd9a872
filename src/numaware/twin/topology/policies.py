"""The Topology Manager's policies: how hints are merged and which merged hint may pass.

Mirrors `topologymanager/policy_*.go` (v1.35). Policy `none` asks for no hints and has no object here.
"""

from __future__ import annotations

from collections.abc import Sequence

from numaware.twin.topology.hints import Hint, Hints
from numaware.twin.topology.merge import Better, Closest, merge, narrower, preferred_masks


def accepted_masks(policy: str, hints: Hints) -> list[int]:
    """What of one resource's hints a policy would let pass: preferred ones, under single-numa-node of one node."""
    single = policy == "single-numa-node"
    return [mask for mask in hints.preferred if not (single and mask & (mask - 1))]


class Policy:
    """best-effort, restricted or single-numa-node on a machine whose NUMA nodes are `full`; `equal_masks` since 1.24."""

    def __init__(self, name: str, full: int, better: Better = narrower, *, equal_masks: bool = True) -> None:
        self.name = name
        self.full = full
        self.better = better
        self.equal_masks = equal_masks

    def merged(self, lists: Sequence[Hints | None]) -> Hint:
        """The best hint; `lists` has one entry per resource, None where any node will do."""
        if self.name == "single-numa-node":
            return self._single(lists)
        return merge(lists, self.full, self.better, equal_masks=self.equal_masks)

    def admitted(self, lists: Sequence[Hints | None]) -> Hint | None:
        """The best hint if it may pass; that it may not is often found without working it out."""
        if self.name == "restricted" and not isinstance(self.better, Closest):
            constrained = [hints for hints in lists if hints is not None]
            preferred = preferred_masks(constrained, self.full, equal_masks=self.equal_masks)
            return Hint(min(preferred, key=self.better), preferred=True) if preferred else None
        best = self.merged(lists)
        return best if self.admits(best) else None

    def admits(self, hint: Hint) -> bool:
        return hint.preferred or self.name == "best-effort"

    def _single(self, lists: Sequence[Hints | None]) -> Hint:
        """Only preferred single nodes count; prefer-closest has nothing to choose between.

        KUBELET: a result of all nodes is stored as "any", so on a one-node machine every hint is (any, preferred).
        """
        constrained = [hints for hints in lists if hints is not None]
        if not constrained:
            return Hint(None, preferred=True)
        common = set(accepted_masks(self.name, constrained[0]))
        for hints in constrained[1:]:
            common.intersection_update(hints.preferred)
        if not common:
            return Hint(None, preferred=False)
        best = min(common)
        return Hint(None if best == self.full else best, preferred=True)
