"""Where the answers of classes of nodes to kinds of pods are kept, and what they were worked out from."""

from __future__ import annotations

import msgspec

from numaware.diagnose.reason import Reason
from numaware.schedule.answer import Answer
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.pod_kinds import Kind
from numaware.schedule.score import Outcome
from numaware.schedule.shares import Share
from numaware.twin.topology.hints import Hint

# In place of a score; on a node that has more on it than it should, scores may be below zero.
REFUSED = -(1 << 62)


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
    where they are known. `moves` says which class a member is of after such a pod was bound to it, `footprints` what it
    takes of nodes by the numbers of their kubelets.
    """

    __slots__ = ("fits", "footprints", "kind", "moves", "promises", "whole")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.fits: dict[int, Fit] = {}
        self.whole: dict[int, Answer] = {}
        self.moves: dict[int, int] = {}
        self.promises: dict[int, int] = {}
        self.footprints: dict[int, PodFootprint | None] = {}
