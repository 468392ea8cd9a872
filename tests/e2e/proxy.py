"""Trouble on the way to the API server: a proxy that cuts, delays, refuses and loses what goes through it.

Clients reach it with the same certificate and tokens as the server itself, so a kubeconfig with its address is all that
changes (`plane.kubeconfig(user, proxy.url)`). Started by `with`; all methods are for the test's thread.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

from e2e.control_plane import ControlPlane, free_port
from e2e.loop_thread import LoopThread

# Headers that are about one connection, not about what goes over it.
_OF_ONE_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}

# Told the method and the path with its query.
Match = Callable[[str, str], bool]


def everything(_method: str, _path: str) -> bool:
    return True


def is_watch(_method: str, path: str) -> bool:
    return "watch=1" in path or "watch=true" in path


def is_bind(method: str, path: str) -> bool:
    return method == "POST" and path.partition("?")[0].endswith("/binding")


class _Rule(NamedTuple):
    """What is done to requests that match: at most `left` of them."""

    match: Match
    left: int


class FaultyProxy(LoopThread):
    """In front of a control plane; without trouble asked for, everything goes through as it is."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__("faulty proxy")
        self._plane = plane
        self._port = free_port()
        self._down = False
        self._delays: tuple[Match, float] = (everything, 0.0)
        self._frozen: Match | None = None
        self._refusals = _Rule(everything, 0)
        self._losses = _Rule(everything, 0)
        self._retry_after = 0
        self._seen: Counter[str] = Counter()
        self._open: dict[int, web.BaseRequest] = {}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    # Trouble

    def cut(self, match: Match = everything) -> int:
        """Break what is going on right now, as a failing switch does; how many requests that were."""
        return self._ask(lambda: self._abort(match))

    def down(self) -> None:
        """Break everything, and every new request too, until `up`."""

        def fall() -> None:
            self._down = True
            self._abort(everything)

        self._ask(fall)

    def up(self) -> None:
        """Back to work."""
        self._down = False

    def delay(self, seconds: float, match: Match = everything) -> None:
        """Let every such request wait before it goes on; 0 ends it."""
        self._delays = (match, seconds)

    def freeze(self, match: Match = is_watch) -> None:
        """Hold back what the server says, without a word to the client, until `thaw`: a connection that died in silence."""
        self._frozen = match

    def thaw(self) -> None:
        """Let go of what was held back."""
        self._frozen = None

    def refuse(self, count: int, match: Match = everything, retry_after: int = 1) -> None:
        """Answer the next such requests with 429, as a server does that has too much to do."""
        self._retry_after = retry_after
        self._refusals = _Rule(match, count)

    def lose_answers(self, count: int, match: Match = is_bind) -> None:
        """Let the next such requests reach the server, and break the connection instead of answering."""
        self._losses = _Rule(match, count)

    def seen(self) -> Counter[str]:
        """What happened so far: `refused`, `lost`, `cut`, `passed`, and each answer: `403 GET /api/v1/pods`, `200 WATCH …`."""
        return self._ask(lambda: Counter(self._seen))

    def answers(self, status: int) -> int:
        """How often the server has answered so."""
        return sum(number for text, number in self.seen().items() if text.startswith(f"{status} "))

    # The thread

    def _abort(self, match: Match) -> int:
        victims = [request for request in self._open.values() if match(request.method, request.path_qs)]
        for request in victims:
            self._break(request)
        self._seen["cut"] += len(victims)
        return len(victims)

    @staticmethod
    def _break(request: web.BaseRequest) -> None:
        if request.transport is not None:
            request.transport.abort()

    def _hit(self, rule: _Rule, request: web.BaseRequest) -> bool:
        return rule.left > 0 and rule.match(request.method, request.path_qs)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._open[id(request)] = request
        try:
            return await self._pass_on(request)
        except (aiohttp.ClientError, OSError):
            # The server is away, or the client: either way the other end sees a connection that breaks.
            self._break(request)
            return web.Response(status=502)
        finally:
            del self._open[id(request)]

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        match, seconds = self._delays
        if seconds and match(request.method, request.path_qs):
            await asyncio.sleep(seconds)
        if self._down:
            self._break(request)
            return web.Response(status=502)
        if self._hit(self._refusals, request):
            self._refusals = self._refusals._replace(left=self._refusals.left - 1)
            self._seen["refused"] += 1
            return self._too_many()
        lost = self._hit(self._losses, request)
        if lost:
            self._losses = self._losses._replace(left=self._losses.left - 1)
        async with self._session.request(
            request.method,
            URL(self._plane.url + request.raw_path, encoded=True),
            data=body or None,
            headers=[pair for pair in request.headers.items() if pair[0].lower() not in _OF_ONE_HOP],
            allow_redirects=False,
        ) as answer:
            method = "WATCH" if is_watch(request.method, request.path_qs) else request.method
            self._seen[f"{answer.status} {method} {request.path}"] += 1
            if lost:
                await answer.read()
                self._seen["lost"] += 1
                self._break(request)
                return web.Response(status=502)
            response = web.StreamResponse(
                status=answer.status,
                headers=[pair for pair in answer.headers.items() if pair[0].lower() not in _OF_ONE_HOP],
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                while self._frozen is not None and self._frozen(request.method, request.path_qs):  # noqa: ASYNC110 - set from another thread
                    await asyncio.sleep(0.02)
                await response.write(chunk)
            await response.write_eof()
        self._seen["passed"] += 1
        return response

    def _too_many(self) -> web.Response:
        text = "too many requests, please try again later"
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests"}
        return web.Response(
            status=429,
            headers={"Retry-After": str(self._retry_after)},
            content_type="application/json",
            body=json.dumps({**status, "message": text, "code": 429}).encode(),
        )

    async def _live(self) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._plane.ca, self._plane.key)
        upstream = ssl.create_default_context(cafile=str(self._plane.ca))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
        ) as self._session:
            server = web.Server(self._handle, handler_cancellation=True)
            runner = web.ServerRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=tls).start()
                await self._until_stopped()
            finally:
                # Clients that keep connections open would have to say goodbye first.
                for connection in server.connections:
                    if connection.transport is not None:
                        connection.transport.abort()
                await runner.cleanup()
