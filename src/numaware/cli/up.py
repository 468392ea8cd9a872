"""`numaware up`: the console on the embedded lab."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from numaware.errors import InputError
from numaware.serve.console.api import Console
from numaware.serve.console.app import serving_console
from numaware.serve.console.guards import LOOPBACK
from numaware.serve.console.lab import HOUR, LabWorld

app = App(name="up", usage="Usage: numaware up [OPTIONS]")

_STEP = 15_000


@app.default
def up(
    *,
    port: Annotated[int, Parameter(help="Port to listen on; 0 lets the system choose.")] = 8080,
    host: Annotated[
        str, Parameter(help="Address to listen on; beyond loopback a token is needed.")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None, Parameter(show_default=False, help="File with the token that callers have to send.")
    ] = None,
    no_browser: Annotated[
        bool, Parameter(negative="", show_default=False, help="Do not open the page in a browser.")
    ] = False,
    seed: Annotated[int, Parameter(help="Which life the lab leads.")] = 1,
) -> int:
    """Open the console on the embedded lab: no cluster, no Prometheus, no Node.js.

    The lab has thirty machines (among them a 28-CPU box with three P100, boxes of
    2 x 16 CPUs, and machines with eight GPUs) on which pods come and go. Ctrl-C ends it.

    Exit code: 0 ended by Ctrl-C or SIGTERM, 2 bad input.

    For example:

      numaware up
      numaware up --port 0 --no-browser
      numaware up --host 0.0.0.0 --token-file token
    """
    if not 0 <= port <= 65535:
        raise InputError("--port", f"{port} is not from 0 to 65535")
    token = read_token(token_file)
    asyncio.run(_serve(host, port, token, no_browser=no_browser, seed=seed))
    return 0


def read_token(path: Path | None) -> str | None:
    """The token in a file; one line that is not empty."""
    if path is None:
        return None
    with path.open(encoding="utf-8", errors="replace") as stream:
        token = stream.read(4097).strip()
    if not 16 <= len(token) <= 4096 or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(str(path), "holds no token", hint="one line of 16 to 4096 letters, digits and signs")
    return token


async def _serve(host: str, port: int, token: str | None, *, no_browser: bool, seed: int) -> None:
    if host not in LOOPBACK and token is None:
        raise InputError(
            "--host", f"{host} can be reached by others", hint="give --token-file, or stay on 127.0.0.1"
        )
    begin = _now()
    world = LabWorld(begin - HOUR, seed=seed)
    console = Console(world, _now)
    for moment in range(begin - HOUR, begin, _STEP):
        world.advance(moment)
        console.recorder.record()
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, done.set)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    async with serving_console(console, address, token) as url:
        sys.stdout.write(f"numaware: {url}/\n")
        sys.stdout.flush()
        if not no_browser:
            with contextlib.suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, url)
        await done.wait()


def _now() -> int:
    return time.time_ns() // 1_000_000
