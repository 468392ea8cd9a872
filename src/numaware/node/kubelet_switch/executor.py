"""Carries a plan out, step by step, and undoes all of it when one fails; takes up what a crash left half-way.

Everything is written into the journal before it is done. What was begun is taken for done when it is undone, and for not
done when it is taken up again: steps stand both.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

import msgspec

from numaware.kube.errors import ApiError
from numaware.node.kubelet_switch.journal import Journal, Mark, Recorded, Story
from numaware.node.kubelet_switch.steps import TROUBLES, AnyStep, Hands, Start, StepError, Stop
from numaware.sentence import Sentence, quoted

# `stuck`: neither applied nor put back; what is left to be undone is in the journal.
Result = Literal["applied", "rolled-back", "stuck"]
Happens = Literal["begin", "done", "failed", "undone", "stuck"]
Listener = Callable[[Happens, int, Sentence], None]


class Outcome(msgspec.Struct, frozen=True):
    """How a switch ended: at which step it failed, if it did, and why."""

    result: Result
    step: int = -1
    why: Sentence = msgspec.field(default_factory=Sentence)


def _deaf(happens: Happens, step: int, why: Sentence) -> None:
    """For who does not want to hear of every step."""


class Executor:
    """One switch: its plan, its journal, and what it works with. `tell` hears of every step."""

    def __init__(self, plan: Recorded, journal: Journal, hands: Hands, tell: Listener = _deaf) -> None:
        self._steps = plan.steps
        self._journal = journal
        self._hands = hands
        self._tell = tell

    async def apply(self, first: int = 0) -> Outcome:
        """Do the steps from `first` on; whatever fails, or whoever cancels, all is put back."""
        for number in range(first, len(self._steps)):
            try:
                await self._do(number)
            except TROUBLES as error:
                return await self._failed(number, _words(error))
            except asyncio.CancelledError:
                # Who asked wants it to end; half-way is no end.
                await self._failed(number, Sentence("it was interrupted"))
                raise
        self._journal.note("applied")
        return Outcome("applied")

    async def resume(self, story: Story) -> Outcome:
        """Take up what was left half-way: on to the end, or on with the undoing."""
        if story.is_undoing:
            return await self.undo(story.next_step, quoted(story.failure))
        first = story.next_step
        if first <= self._place(Start):
            # A machine that was booted meanwhile has started its kubelet: what was done may not be so any more.
            for number in range(first):
                if not await self._stands(number):
                    first = number
                    break
        return await self.apply(first)

    async def undo(self, last: int, why: Sentence) -> Outcome:
        """Undo everything up to and with this step, the last first; who cancels it meanwhile is heard when that is done."""
        undoing = asyncio.ensure_future(self._undone(last, why))
        interrupted = False
        while not undoing.done():
            try:
                await asyncio.shield(undoing)
            except asyncio.CancelledError:
                interrupted = True
        if interrupted:
            raise asyncio.CancelledError
        return undoing.result()

    async def _undone(self, last: int, why: Sentence) -> Outcome:
        if self._place(Stop) < last <= self._place(Start):
            # Files are put back under no kubelet that runs.
            last = self._place(Start)
        for number in range(min(last, len(self._steps) - 1), -1, -1):
            try:
                self._try_to_note("undoing", number)
                await self._steps[number].undo(self._hands)
                self._try_to_note("undone", number)
            except TROUBLES as error:
                self._tell("stuck", number, _words(error))
                problem = Sentence("{why}; and then: {problem}", why=why, problem=_words(error))
                return Outcome("stuck", number, problem)
            self._tell("undone", number, Sentence())
        self._try_to_note("rolled-back")
        return Outcome("rolled-back", last, why)

    async def _do(self, number: int) -> None:
        step = self._steps[number]
        self._tell("begin", number, Sentence())
        self._journal.note("begin", number)
        await step.do(self._hands)
        if not await step.verify(self._hands):
            raise StepError(Sentence("it was done, and is not so"))
        self._journal.note("done", number)
        self._tell("done", number, Sentence())

    async def _failed(self, number: int, why: Sentence) -> Outcome:
        self._tell("failed", number, why)
        self._try_to_note("failed", number, str(why))
        outcome = await self.undo(number, why)
        return msgspec.structs.replace(outcome, step=number) if outcome.result == "rolled-back" else outcome

    def _try_to_note(self, mark: Mark, step: int = -1, why: str = "") -> None:
        """A full disk may be what has failed: the way back is walked all the same."""
        with contextlib.suppress(OSError):
            self._journal.note(mark, step, why)

    async def _stands(self, number: int) -> bool:
        try:
            return await self._steps[number].verify(self._hands)
        except TROUBLES:
            return False

    def _place(self, kind: type[AnyStep]) -> int:
        return next(number for number, step in enumerate(self._steps) if isinstance(step, kind))


def _words(error: Exception) -> Sentence:
    match error:
        case StepError():
            return error.problem
        case ApiError():
            return Sentence("the API server: {problem}", problem=str(error))
        case OSError():
            return Sentence(
                "{source}: {problem}", source=error.filename or "", problem=error.strerror or str(error)
            )
    return quoted(str(error))
