"""Calls that must not overtake each other: those for one node go one after the other, nodes do not wait for each other.

What a kubelet gives to a pod depends on who came before it. So a pod is bound only when the one that was put on the same
node before it has been bound, or has not and everything was worked out anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

# So many that an API server has work while answers wait here for a decision to end; more do not make it faster.
CALLS = 32


class Lines:
    """One line for each node, and a few calls at once in all."""

    def __init__(self, calls: int = CALLS) -> None:
        self._slots = asyncio.Semaphore(calls)
        # Nodes whose turn somebody has, and who waits for it.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def turn(self, node: str) -> Turn:
        """To be entered with `async with`; the place in the line is that of the moment this is entered."""
        return Turn(self, node)

    async def enter(self, node: str) -> None:
        """Wait for one's turn."""
        waiting = self._waiting.get(node)
        if waiting is None:
            self._waiting[node] = deque()
        else:
            turn = asyncio.get_running_loop().create_future()
            waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # The turn may have come in the same moment: then it is the next one's.
                if not turn.cancelled():
                    self._next(node)
                raise
        try:
            await self._slots.acquire()
        except asyncio.CancelledError:
            self._next(node)
            raise

    def leave(self, node: str) -> None:
        """Let the next one through."""
        self._slots.release()
        self._next(node)

    def _next(self, node: str) -> None:
        waiting = self._waiting[node]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[node]


class Turn:
    """A place in a line. A class of its own because a generator costs several times as much, for every pod."""

    __slots__ = ("_lines", "_node")

    def __init__(self, lines: Lines, node: str) -> None:
        self._lines = lines
        self._node = node

    async def __aenter__(self) -> None:
        await self._lines.enter(self._node)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.leave(self._node)
