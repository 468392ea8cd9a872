"""What `up` and `console` have in common: where to listen, who may call, and when to open a browser."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from numaware.cli.live_input import NO_TLS, TlsOptions
from numaware.cli.options import flag, option, optional
from numaware.errors import InputError
from numaware.schedule.gc_tuning import settle
from numaware.serve.authentication import TokenAuthentication
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access, serving_console
from numaware.web import read_token


@Parameter(name="*")
@dataclass(frozen=True)
class Listening:
    """Where a console listens."""

    port: Annotated[int, option("Port to listen on; 0 lets the system choose.")] = 8080
    host: Annotated[str, option("Address to listen on; beyond loopback callers need a token.")] = "127.0.0.1"

    def address(self) -> str:
        """For the server; `InputError` for a port that is none, or that somebody else has."""
        if not 0 <= self.port <= 65535:
            raise InputError("--port", f"{self.port} is not from 0 to 65535")
        address = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        # Told before a lab plays its first hour or a cluster is read.
        with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    hint = "another program has it; give another --port, or --port 0 for any that is free"
                    raise InputError(address, "cannot be listened on", hint=hint) from None
        return address


@Parameter(name="*")
@dataclass(frozen=True)
class ConsoleOptions:
    """Who may call a console, and what it does besides."""

    token_file: Annotated[Path | None, optional("File with the token that callers have to send.")] = None
    tls: TlsOptions = NO_TLS
    prometheus: Annotated[str | None, optional("Prometheus that may be asked through this console.")] = None
    record: Annotated[
        Path | None,
        optional("File to keep history in, so that the page can go back in time: seven days, at most 1 GiB."),
    ] = None
    no_browser: Annotated[bool, flag("Do not open the page in a browser.")] = False

    def access(self, where: Listening) -> Access:
        """Where to listen and who may call; `InputError` for what makes no sense."""
        address = where.address()
        gate = None if self.token_file is None else TokenAuthentication(read_token(self.token_file))
        return Access(address, gate, self.prometheus, self.tls.for_server())


USUAL_PLACE, USUAL_CONSOLE = Listening(), ConsoleOptions()


async def serve_until_cancelled(console: Console, access: Access, options: ConsoleOptions) -> None:
    """Serve, print the address, and open it where somebody may look."""
    # A call that has to wait until all the cluster's twins were gone through for garbage waits the longest.
    settle()
    async with serving_console(console, access) as url:
        sys.stdout.write(f"numaware: {url}/\n")
        sys.stdout.flush()
        if not options.no_browser:
            with contextlib.suppress(webbrowser.Error):
                await asyncio.to_thread(webbrowser.open, url)
        await asyncio.Event().wait()


def milliseconds() -> int:
    """The clock on the wall."""
    return time.time_ns() // 1_000_000
