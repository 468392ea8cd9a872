"""Calls that must not overtake each other: those for one node go one after the other, nodes do not wait for each other.

What a kubelet gives to a pod depends on who came before it. So a pod is bound only when the one that was put on the same
node before it has been bound, or has not and everything was worked out anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# More calls at once do not make an API server faster.
CALLS = 16


class Lines:
    """One line for each node, and a few calls at once in all."""

    def __init__(self, calls: int = CALLS) -> None:
        self._slots = asyncio.Semaphore(calls)
        self._last: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, node: str) -> AsyncIterator[None]:
        """Wait for one's turn; the place in the line is that of the moment this is entered."""
        before, done = self._last.get(node), asyncio.Event()
        self._last[node] = done
        try:
            if before is not None:
                await before.wait()
            async with self._slots:
                yield
        finally:
            done.set()
            if self._last.get(node) is done:
                del self._last[node]
