"""A few hands for many calls: those for one node are made one after the other, in the order in which they were given.

What a kubelet gives to a pod depends on who came before it; nodes do not wait for each other. A hand takes one call after
the other, which is cheaper than a task for each of them. Who has to wait for a call of its own uses `lines.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from numaware.serve.lines import CALLS

T = TypeVar("T")


class Crew(Generic[T]):
    """`async with crew.at_work()`, then `give`; leaving waits for everything that was given."""

    def __init__(self, call: Callable[[str, T], Awaitable[None]]) -> None:
        self.left = 0
        self._call = call
        # The calls for each node, the one that is under way first.
        self._lines: dict[str, deque[T]] = {}
        # Nodes whose next call nobody has taken yet.
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._mark = 0
        self._low = asyncio.Event()

    def give(self, node: str, what: T) -> None:
        """One more call."""
        self.left += 1
        line = self._lines.get(node)
        if line is None:
            self._lines[node] = deque((what,))
            self._ready.put_nowait(node)
        else:
            line.append(what)

    async def until(self, mark: int) -> None:
        """Wait until so few calls are left, counting those under way."""
        self._mark = mark
        self._low.clear()
        if self.left > mark:
            await self._low.wait()

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None, None]:
        """All hands at work; whoever leaves, in whatever way, waits until nothing is left."""
        hands = [asyncio.create_task(self._work()) for _ in range(CALLS)]
        try:
            yield
        finally:
            try:
                await self.until(0)
            finally:
                for hand in hands:
                    hand.cancel()
                await asyncio.wait(hands)

    async def _work(self) -> None:
        while True:
            node = await self._ready.get()
            line = self._lines[node]
            try:
                await self._call(node, line[0])
            except Exception as error:  # noqa: BLE001 - a mistake of ours; it must not pass unnoticed, nor stop the others
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"a call for {node} failed", "exception": error}
                )
            line.popleft()
            if line:
                self._ready.put_nowait(node)
            else:
                del self._lines[node]
            self.left -= 1
            if self.left <= self._mark:
                self._low.set()
