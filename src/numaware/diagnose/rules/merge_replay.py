"""The merge in a log, done again by the twin: does the outcome follow from the hints, and under which policy?

A log seldom says which policy it was written under, or which release. Both show in what the merge made of its hints: a
hint without nodes that is not preferred comes from single-numa-node only, and a preferred one from unequal masks only
from kubelets before 1.24.
"""

from __future__ import annotations

from typing import NamedTuple

from numaware.diagnose.evidence.logs.journal import Part
from numaware.twin.topology.hints import Hint, Hints
from numaware.twin.topology.policies import Policy

_MOST_NODES = 16


class Replay(NamedTuple):
    """Whether the twin comes to the same hint; the policies under which it does, and what it said otherwise."""

    confirmed: bool
    policies: tuple[str, ...]
    expected: Hint


def replay(
    part: Part, nodes: int, policy: str = "", *, old: bool | None = None, more: bool = False
) -> Replay | None:
    """Merge the part's hints again, with the known policy or each in turn; None where the log lacks what it takes.

    `nodes` is how many NUMA nodes the machine has; with `more` there may be others, of which the log does not speak
    (memory without CPUs). `old` says whether the kubelet is older than 1.24, None if unknown.
    """
    replayed = _replay(part, nodes, policy, old)
    if more and replayed is not None and not replayed.confirmed:
        # All that counts of others is that they are there: one stands for all.
        larger = _replay(part, nodes + 1, policy, old)
        return larger if larger is not None and larger.confirmed else replayed
    return replayed


def _replay(part: Part, nodes: int, policy: str, old: bool | None) -> Replay | None:
    lists = [None if listed is None else as_hints(listed) for listed in part.hints.values()]
    if part.merged is None or not lists or not 0 < nodes <= _MOST_NODES:
        return None
    full = (1 << nodes) - 1
    if any(mask > full for hints in lists if hints for mask in hints.masks):
        return None
    agreeing = []
    expected = Hint(None, preferred=False)
    for name in (policy,) if policy in _POLICIES else _POLICIES:
        # Whether masks have to be equal: the rules to try.
        outcomes = [
            Policy(name, full, equal_masks=equal).merged(lists)
            for equal in ((True, False) if old is None else (not old,))
        ]
        expected = outcomes[0]
        if part.merged in outcomes:
            agreeing.append(name)
    return Replay(bool(agreeing), tuple(agreeing), expected)


_POLICIES = ("best-effort", "restricted", "single-numa-node")


def as_hints(listed: list[Hint]) -> Hints:
    """A logged list as the twin keeps one; entries without nodes say nothing about nodes."""
    masks = [one.mask for one in listed if one.mask]
    order = sorted(set(masks), key=lambda mask: (mask.bit_count(), masks.index(mask)))
    preferred = {one.mask for one in listed if one.mask and one.preferred}
    return Hints(order, [mask for mask in order if mask in preferred])
