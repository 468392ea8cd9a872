"""An event loop in a thread of its own: what goes on beside a test while the test does one thing after another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

PATIENCE = 120.0


class LoopThread:
    """Started by `with`. Whoever inherits says in `_live` what goes on; `_ask` and `_do` are for the test's thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    async def _live(self) -> None:
        """To be written: set up, call `_until_stopped`, take down."""
        raise NotImplementedError

    async def _until_stopped(self) -> None:
        self._started.set_result(None)
        await self._stop.wait()

    def _ask(self, question: Callable[[], T]) -> T:
        """An answer that is given between two steps of the loop, so that nothing changes meanwhile."""

        async def answer() -> T:
            return question()

        return self._do(answer())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
            # Connections over TLS say goodbye before they close.
            self._loop.run_until_complete(asyncio.sleep(0.2))
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
                return
            raise
        finally:
            self._loop.close()
