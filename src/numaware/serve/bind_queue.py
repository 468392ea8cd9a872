"""The calls that bind pods: those for one node are made one after the other in the order they came, nodes do not wait.

What a kubelet gives to a pod depends on who came before it, so a pod is bound only after the one that was put on the same
node earlier. The scheduler puts calls in and goes on deciding; the extender waits for the result of each. A worker makes one
call after the other and ends when no node is ready, which is cheaper than a task, or a lock, for each call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

# So many at once that an API server has work while answers wait here for a decision to end; more do not make it faster.
CALLS = 32

T = TypeVar("T")
R = TypeVar("R")


class BindQueue(Generic[T, R]):
    """Makes `call(node, item)` for every item put in; `left` counts those that are not done yet."""

    def __init__(self, call: Callable[[str, T], Awaitable[R]], calls: int = CALLS) -> None:
        self.left = 0
        self._call = call
        self._calls = calls
        # The items of each node with who waits for their results; the one whose call is being made stands first.
        self._queues: dict[str, deque[tuple[T, asyncio.Future[R] | None]]] = {}
        # Nodes whose first call nobody makes yet.
        self._ready: deque[str] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._mark = 0
        self._low = asyncio.Event()

    def put(self, node: str, item: T, result: asyncio.Future[R] | None = None) -> None:
        """One more call; what it returns or raises goes to `result`, if somebody waits."""
        self.left += 1
        queue = self._queues.get(node)
        if queue is not None:
            queue.append((item, result))
            return
        self._queues[node] = deque(((item, result),))
        self._ready.append(node)
        if len(self._workers) < self._calls:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)

    def ask(self, node: str, item: T) -> asyncio.Future[R]:
        """One more call and its result. Who stops waiting for it does not stop the call."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.put(node, item, result)
        return result

    async def until(self, mark: int) -> None:
        """Wait until so few calls are left, counting those under way."""
        self._mark = mark
        self._low.clear()
        if self.left > mark:
            await self._low.wait()

    async def _work(self) -> None:
        while self._ready:
            node = self._ready.popleft()
            queue = self._queues[node]
            item, result = queue[0]
            try:
                returned = await self._call(node, item)
                if result is not None and not result.done():
                    result.set_result(returned)
            except Exception as error:  # noqa: BLE001 - a mistake of ours; it must not pass unnoticed, nor stop the others
                _report(node, error, result)
            queue.popleft()
            if queue:
                self._ready.append(node)
            else:
                del self._queues[node]
            self.left -= 1
            if self.left <= self._mark:
                self._low.set()
        # At once, not when the task is done: whoever puts something in meanwhile has to start another.
        self._workers.remove(asyncio.current_task())  # type: ignore[arg-type] # it runs in one


def _report(node: str, error: Exception, result: asyncio.Future[R] | None) -> None:
    """Tell who waits of a call that broke, or the event loop where nobody does."""
    if result is not None and not result.done():
        result.set_exception(error)
    else:
        context = {"message": f"a call for {node} failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
