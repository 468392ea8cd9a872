"""The one answer to the one question (`Engine.ask`): what a node says to a pod. Everybody who wants to know reads this."""

from __future__ import annotations

import msgspec

from numaware.diagnose.reason import Reason
from numaware.schedule.shares import Share
from numaware.twin.topology.hints import Hint


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A node would take the pod: the kubelet's merged hints, the part of a GPU it gets, and how good that place is.

    Or it would not, for these reasons. `numa` is the mask of the NUMA nodes that the pod would have something of for itself.
    Nodes in equal state share one answer.
    """

    score: int
    hints: tuple[Hint, ...]
    share: Share | None
    reasons: tuple[Reason, ...]
    numa: int = 0

    @property
    def admitted(self) -> bool:
        return not self.reasons

    @property
    def is_unknown(self) -> bool:
        """Whether the node does not refuse, but nobody can tell whether it would."""
        return bool(self.reasons) and all(reason.is_unknown for reason in self.reasons)


def refused(*reasons: Reason) -> Answer:
    return Answer(0, (), None, reasons)
