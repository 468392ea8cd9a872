"""An HTTP server inside a daemon's own event loop: health, metrics, and whatever routes the daemon brings.

uvicorn would take over the process's signals; a daemon that has more to put down than its sockets keeps them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import h11
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from numaware.errors import InputError

_SECONDS_TO_FINISH = 5
_MOST_TOKEN = 4096
# For a connection beyond this the one is given up that has waited longest for its client, so that slow clients take nothing
# from quick ones. Where none waits, twice as many are let in, and the rest is turned away.
_MOST_CONNECTIONS = 512
# How long the head of a request may take to come, and how much of an answer has to be read within what time.
_SECONDS_FOR_HEAD = 10.0
_SECONDS_TO_READ = 30.0
_LEAST_READ = 16 << 10


class Tls(NamedTuple):
    """A certificate and its key, as PEM files; `clients` is the authority whose certificates clients must have."""

    certificate: Path
    key: Path
    clients: Path | None = None


class _ImpatientProtocol(H11Protocol):
    """A connection that is given up when the other side does not get on: uvicorn would wait for ever.

    The body of a request is read by who asked for one, and waited for as long as they see fit.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.waits_since = self.loop.time()
        self._await("head", _SECONDS_FOR_HEAD, self.transport.abort)
        if len(self.connections) > _MOST_CONNECTIONS:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
            self._came("head")
        else:
            self._await("head", _SECONDS_FOR_HEAD, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._came("reader")

    def on_response_complete(self) -> None:
        self.waits_since = self.loop.time()
        super().on_response_complete()
        # What little is left below the mark at which writing pauses would keep a connection from closing, too.
        if self.transport.get_write_buffer_size():
            self._await_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came("head")
        self._came("reader")
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Give up the connection whose client has owed the rest of a request, or the next one, for longest."""
        waiting = [
            one
            for one in self.connections
            if isinstance(one, _ImpatientProtocol)
            and one.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            and not one.transport.is_closing()
        ]
        min(waiting, key=lambda one: one.waits_since).transport.abort()

    def _await(self, what: str, seconds: float, give_up: Callable[..., None], *facts: int) -> None:
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(seconds, give_up, *facts)

    def _came(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()

    def _await_reader(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._await("reader", _SECONDS_TO_READ, self._look_after_reader, unread)

    def _look_after_reader(self, unread: int) -> None:
        self._came("reader")
        left = self.transport.get_write_buffer_size()
        if left and unread - left < _LEAST_READ:
            self.transport.abort()
        elif left:
            self._await_reader()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.ended = asyncio.Event()

    async def main_loop(self) -> None:
        """Sleep until the end. uvicorn looks ten times a second whether it should stop, which an idle daemon pays for."""
        await self.on_tick(0)
        await self.ended.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: Starlette, address: str, tls: Tls | None = None) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address it listens on (port 0 lets the system choose)."""
    host, port = host_and_port(address)
    listener = _listen(host, port, address)
    config = uvicorn.Config(
        app,
        http=_ImpatientProtocol,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        headers=[("strict-transport-security", "max-age=31536000")] if tls else [],
        # Nobody sets the clock on (`main_loop`).
        date_header=False,
        limit_concurrency=2 * _MOST_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
        ssl_ca_certs=str(tls.clients) if tls and tls.clients else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.clients else ssl.CERT_NONE,
    )
    try:
        config.load()
    except OSError as error:
        listener.close()
        raise InputError(str(tls.certificate if tls else address), f"cannot be used: {error}") from None
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await server.up.wait()
        bound = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        yield f"{'https' if tls else 'http'}://{shown}:{bound}"
    finally:
        server.should_exit = True
        server.ended.set()
        await task


def host_and_port(address: str) -> tuple[str, int]:
    """`127.0.0.1:9443`, `[::1]:9443`, `:9443` (every address)."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InputError(address, "is no address to listen on", hint="such as 127.0.0.1:9443")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # noqa: S104 - asked for by leaving it out


def read_token(path: Path) -> str:
    """The token in a file, for whoever asks its callers for one; `InputError` for one that could be guessed, or is none."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        token = stream.read(_MOST_TOKEN + 1).strip()
    if not 16 <= len(token) <= _MOST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(str(path), "holds no token", hint="one line of 16 to 4096 letters, digits and signs")
    return token


def _listen(host: str, port: int, address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio knows the connections for TCP and sends small answers at once. If not, head and body
    # of an answer go out 40 ms apart, as long as the other side waits before it confirms the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InputError(address, f"cannot be listened on: {error.strerror or error}") from None
    return listener


class Metrics(Protocol):
    """Who writes its metrics itself."""

    def __call__(self, *, openmetrics: bool) -> bytes: ...


def status_routes(
    metered: CollectorRegistry | Metrics,
    unready: Callable[[], str],
    *,
    prepare: Callable[[], Awaitable[None]] | None = None,
    token: str = "",
) -> Sequence[BaseRoute]:
    """`/healthz` (the process answers), `/readyz` (it can do its work; else why not), `/metrics` (OpenMetrics).

    `prepare` is awaited before metrics are collected; with a `token` only those who bear it get them.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        reason = unready()
        if reason:
            return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def metrics(request: Request) -> Response:
        if token and not secrets.compare_digest(
            request.headers.get("authorization", "").encode(), f"Bearer {token}".encode()
        ):
            return Response("unauthorized", status_code=401, headers={"www-authenticate": "Bearer"})
        if prepare is not None:
            await prepare()
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        if isinstance(metered, CollectorRegistry):
            text = encode(metered)
        else:
            text = metered(openmetrics=content_type.startswith("application/openmetrics-text"))
        return Response(text, headers={"content-type": content_type})

    return (Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics))
