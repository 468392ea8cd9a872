"""Who may come in, and with how much: addresses, tokens, sizes, rates, and the headers that every answer carries.

A page on another site must not be able to use a console that only listens on loopback. So the Host has to be one of ours
(a name that was bound to 127.0.0.1 by somebody else is not), and what changes something must not come from another origin.
There are no cookies: a token travels in a header, which no other site can make a browser send.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from numaware.serve.console.problems import ProblemError, answer

SECURITY_HEADERS = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
            b" font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
MOST_BYTES = 1 << 20
# Logs and bundles for diagnosis.
MOST_UPLOAD = 64 << 20
_SECONDS_FOR_BODY = 30
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = ("/healthz", "/readyz", "/openapi.json")
_MOST_CLIENTS = 4096


class Rate:
    """So many calls a second for each client, with a reserve for bursts."""

    def __init__(self, per_second: int, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self.burst = burst
        self.clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Seconds to wait before the next call, 0 if it may go ahead."""
        now = self.clock()
        left, since = self._left.pop(client, (float(self.burst), now))
        left = min(self.burst, left + (now - since) * self.per_second)
        self._left[client] = (left - 1 if left >= 1 else left), now
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self.per_second


class Guard:
    """Stands before the whole application. `names` are the hosts it answers to, empty for any (a token guards it then)."""

    def __init__(self, app: ASGIApp, *, names: frozenset[str], token: str | None, rate: Rate) -> None:
        self.app = app
        self.names = names
        self.token = token
        self.rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY_HEADERS]
            await send(message)

        try:
            self._check(request)
        except ProblemError as error:
            await answer(error)(scope, receive, guarded_send)
            return
        limit = MOST_UPLOAD if scope["path"].startswith("/api/v1/diagnose") else MOST_BYTES
        bounded = _Bounded(receive, limit)
        try:
            await self.app(scope, bounded, guarded_send)
        except ProblemError as error:
            await answer(error)(scope, receive, guarded_send)

    def _check(self, request: Request) -> None:
        host = _host(request.headers.get("host", ""))
        if self.names and host not in self.names:
            raise ProblemError(421, "this console does not answer to that Host", "open it by its own address")
        wait = self.rate.wait(request.client.host if request.client else "")
        if wait:
            raise ProblemError(429, "too many calls", headers={"retry-after": str(int(wait) + 1)})
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise ProblemError(400, "Content-Length is not a number")
        limit = MOST_UPLOAD if request.url.path.startswith("/api/v1/diagnose") else MOST_BYTES
        if int(length) > limit:
            raise ProblemError(413, f"the body is larger than {limit >> 20} MiB")
        if request.method not in _SAFE:
            _check_origin(request)
        path = request.url.path
        if self.token is not None and path.startswith(("/api/", "/rest/")) and path not in _OPEN:
            self._check_token(request)

    def _check_token(self, request: Request) -> None:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(
            given.strip().encode(), (self.token or "").encode()
        ):
            raise ProblemError(
                401, "a token is needed", "send it as Authorization: Bearer …", {"www-authenticate": "Bearer"}
            )


class _Bounded:
    """A body that neither grows beyond its limit nor takes for ever to come."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.receive = receive
        self.limit = limit
        self.got = 0
        self.complete = False

    async def __call__(self) -> Message:
        if self.complete:
            return await self.receive()
        try:
            message = await asyncio.wait_for(self.receive(), _SECONDS_FOR_BODY)
        except TimeoutError:
            raise ProblemError(408, "the body did not come in time") from None
        self.complete = not message.get("more_body", False)
        self.got += len(message.get("body", b""))
        if self.got > self.limit:
            raise ProblemError(413, f"the body is larger than {self.limit >> 20} MiB")
        return message


def _host(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


def _check_origin(request: Request) -> None:
    """What changes something must come from this very site, or from no site at all (a program)."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    here = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if site not in ("same-origin", "none") or (origin is not None and origin != here):
        raise ProblemError(403, "another site may not change anything here")
