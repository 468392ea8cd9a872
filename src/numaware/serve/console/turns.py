"""Work that one caller asks for and that must not keep the others waiting: on threads, or on the loop in short turns.

`api/routes.py` reads manifests and explains on threads (`Slots`), once for all who ask the same (`SharedAnswers`), and has
nodes judged in turns (`judge_in_turns`), because what the judge remembers belongs to the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from numaware.schedule.trial_policies import AS_THEY_ARE, TrialPolicies
from numaware.sentence import Sentence
from numaware.serve.console.views.judging import Judge
from numaware.serve.problems import ProblemError
from numaware.workload.pod import Pod

# A turn on the loop is about this long; a node alone may take longer, and is asked alone then.
_SECONDS_A_TURN = 0.005

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


class Slots:
    """Calls worked out at the same time, each on a thread; whoever waits longer than `seconds` is told to come again."""

    def __init__(self, at_once: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._running: set[asyncio.Future[Any]] = set()

    async def run(
        self, work: Callable[_Given, _Answer], *given: _Given.args, **more: _Given.kwargs
    ) -> _Answer:
        """What the work comes to; 503 after the deadline. Its slot is taken until its thread has really ended."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
                thread = asyncio.ensure_future(asyncio.to_thread(work, *given, **more))
                self._running.add(thread)
                thread.add_done_callback(self._ended)
                return await asyncio.shield(thread)
        except TimeoutError:
            late = Sentence("that takes longer than {seconds} s", seconds=int(self._seconds))
            raise ProblemError(503, late, Sentence("try again"), {"retry-after": "5"}) from None

    def _ended(self, thread: asyncio.Future[Any]) -> None:
        self._running.discard(thread)
        self._free.release()
        if not thread.cancelled():
            # Where nobody waits any more, nobody else asks what was wrong.
            thread.exception()


class SharedAnswers(Generic[_Answer]):
    """Answers that many ask for: each is worked out once, for those who ask meanwhile as for those who ask later."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: dict[Hashable, asyncio.Task[_Answer]] = {}

    async def answer(self, question: Hashable, work: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """What is kept for the question, or what the work comes to; who fails is asked again next time."""
        task = self._tasks.get(question)
        if task is None:
            if len(self._tasks) >= self._most:
                del self._tasks[next(iter(self._tasks))]
            task = self._tasks[question] = asyncio.create_task(work())
            task.add_done_callback(partial(self._ended, question))
        return await asyncio.shield(task)

    def _ended(self, question: Hashable, task: asyncio.Task[_Answer]) -> None:
        """Also where nobody waits any more: who asks next is not to hear of a failure that is long over."""
        if (task.cancelled() or task.exception()) and self._tasks.get(question) is task:
            del self._tasks[question]


async def judge_in_turns(
    judge: Judge, pod: Pod, names: Sequence[str], policies: TrialPolicies = AS_THEY_ARE
) -> None:
    """Have the nodes judged a few at a time, others' calls in between: to ask the judge for all of them is quick then."""
    begin, count = 0, 1
    while begin < len(names):
        since = time.perf_counter()
        judge.judge(pod, names[begin : begin + count], policies)
        begin += count
        count = 2 * count if time.perf_counter() - since < _SECONDS_A_TURN else max(1, count // 2)
        await asyncio.sleep(0)
