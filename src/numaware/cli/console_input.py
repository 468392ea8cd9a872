"""What `up` and `console` have in common: where to listen, who may call, and when to open a browser."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

from numaware.cli.live_input import tls_of
from numaware.cli.options import flag, option, optional
from numaware.errors import InputError
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access, serving_console
from numaware.serve.console.authentication import TokenAuthentication

Port = Annotated[int, option("Port to listen on; 0 lets the system choose.")]
Host = Annotated[str, option("Address to listen on; beyond loopback callers need a token.")]
TokenFile = Annotated[Path | None, optional("File with the token that callers have to send.")]
Prometheus = Annotated[str | None, optional("Prometheus that may be asked through this console.")]
Record = Annotated[
    Path | None,
    optional("File to keep history in, so that the page can go back in time: seven days, at most 1 GiB."),
]
NoBrowser = Annotated[bool, flag("Do not open the page in a browser.")]


def access_of(
    host: str,
    port: int,
    *,
    token_file: Path | None,
    tls: tuple[Path | None, Path | None],
    prometheus: str | None,
) -> Access:
    """Where to listen and who may call; `InputError` for what makes no sense."""
    if not 0 <= port <= 65535:
        raise InputError("--port", f"{port} is not from 0 to 65535")
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    gate = None if token_file is None else TokenAuthentication(_token(token_file))
    return Access(address, gate, prometheus, tls_of(*tls))


def _token(path: Path) -> str:
    """The token in a file; one line that is not empty."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        token = stream.read(4097).strip()
    if not 16 <= len(token) <= 4096 or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(str(path), "holds no token", hint="one line of 16 to 4096 letters, digits and signs")
    return token


async def serve_until_cancelled(console: Console, access: Access, *, no_browser: bool) -> None:
    """Serve, print the address, and open it where somebody may look."""
    async with serving_console(console, access) as url:
        sys.stdout.write(f"numaware: {url}/\n")
        sys.stdout.flush()
        if not no_browser:
            with contextlib.suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, url)
        await asyncio.Event().wait()


def milliseconds() -> int:
    """The clock on the wall."""
    return time.time_ns() // 1_000_000
