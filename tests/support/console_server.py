"""A console that serves on a port of its own, in a thread, at a moment that only the test moves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access, serving_console

_Answer = TypeVar("_Answer")
_LOCAL = Access("127.0.0.1:0")


class RunningConsole:
    """The address, and a way to do something where the console lives."""

    def __init__(self, console: Console, loop: asyncio.AbstractEventLoop) -> None:
        self.console = console
        self.loop = loop
        self.url = ""

    def do(self, action: Callable[[Console], _Answer]) -> _Answer:
        """Run the action on the console's own thread."""

        async def run() -> _Answer:
            return action(self.console)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def advance(self, milliseconds: int) -> None:
        """Let the world live on for a while, and tell those who listen."""

        def move(console: Console) -> None:
            console.world.advance(console.world.now + milliseconds)
            console.look()

        self.do(move)


@contextlib.contextmanager
def running(make: Callable[[], Console], access: Access = _LOCAL) -> Iterator[RunningConsole]:
    """Serve the console that `make` gives while the block runs."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()
    found: list[RunningConsole] = []
    failed: list[BaseException] = []

    async def serve() -> None:
        server = RunningConsole(make(), loop)
        async with serving_console(server.console, access) as url:
            server.url = url
            found.append(server)
            ready.set()
            await stop.wait()

    def work() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:  # noqa: BLE001 - told to the test, whatever it is
            failed.append(error)
            ready.set()
        finally:
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(60)
        assert not failed, failed
        yield found[0]
    finally:
        if not failed:
            loop.call_soon_threadsafe(stop.set)
        thread.join(60)
