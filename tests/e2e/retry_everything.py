"""`numaware scheduler` as it would be without queueing hints: whatever happens to a node, every pod that waits is tried again
and worded at once. For `benchmarks/test_stuck_pods.py`, to be measured beside the real one in one run.
"""

from __future__ import annotations

from numaware.__main__ import run
from numaware.schedule.engine import Decision
from numaware.serve.queue import Queue, Waiting, group_of
from numaware.serve.stuck_pods import StuckPods

_refused = StuckPods.refused


def _word_at_once(self: StuckPods, decision: Decision, *, silent: bool = False) -> str:
    return _refused(self, decision, silent=silent) or self._words(group_of(decision.pod))


def _always(*_: object) -> bool:
    return True


def _at_once(_: Queue, one: Waiting, now: float) -> float:
    one.not_before = now
    return now + 1.0


if __name__ == "__main__":
    StuckPods.refused = _word_at_once  # type: ignore[method-assign] # that is the point
    StuckPods._helps = _always  # type: ignore[method-assign,assignment] # that is the point
    Queue._back_off = _at_once  # type: ignore[method-assign,assignment] # that is the point
    run()
