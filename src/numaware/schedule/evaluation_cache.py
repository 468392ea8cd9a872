"""Where the answers of classes of nodes to kinds of pods are kept, and what they were worked out from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from numaware.diagnose.reason import Reason
from numaware.schedule.answer import Answer
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.pod_kinds import Kind
from numaware.schedule.score import Outcome
from numaware.schedule.shares import Share
from numaware.schedule.standing import Standing
from numaware.twin.topology.hints import Hint

# In place of a score; on a node that has more on it than it should, scores may be below zero.
REFUSED = -(1 << 62)


# The most that a node may be worth to a pod, REFUSED where that is certain; None if nothing is.
Bound = Callable[[Standing], int | None]
Way = tuple[Share | None, int, Outcome]


class Fit(msgspec.Struct, frozen=True, gc=False):
    """What the node says to the pod: the merged hints and every way to place it, or the reasons why not.

    A way is a share of a GPU, the NUMA nodes that the pod then has something of (a mask), and what it leaves behind.
    """

    hints: tuple[Hint, ...]
    ways: tuple[Way, ...]
    reasons: tuple[Reason, ...]


class EvaluationCache:
    """What classes say to one kind of pod, by their numbers.

    `whole` are answers as long as the mix of pods is the same; `promises` are what scores can be at most, or the scores
    where they are known. `refused` are classes that will not have such a pod, whatever the mix. `moves` says which class a
    member is of after such a pod was bound to it, `footprints` what it takes of nodes by the numbers of their kubelets;
    `bounds` and `bounds_of` how promises are found there, or by what it takes, as long as the mix is the same.
    """

    __slots__ = (
        "bounds",
        "bounds_of",
        "fits",
        "footprints",
        "kind",
        "moves",
        "only_strands",
        "promises",
        "refused",
        "whole",
    )

    def __init__(self, kind: Kind, *, only_strands: bool) -> None:
        self.kind = kind
        # Whether alignment and what is stranded are all that counts (`Profile.only_strands`).
        self.only_strands = only_strands
        self.refused: set[int] = set()
        self.fits: dict[int, Fit] = {}
        self.whole: dict[int, Answer] = {}
        self.moves: dict[int, int] = {}
        self.promises: dict[int, int] = {}
        self.bounds: dict[int, Bound] = {}
        self.bounds_of: dict[PodFootprint | None, Bound] = {}
        self.footprints: dict[int, PodFootprint | None] = {}
