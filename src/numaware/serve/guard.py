"""Who may come in, and with how much: addresses, tokens, sizes, rates, and the headers that every answer carries.

Stands before the console and the extender. A page on another site must not be able to use a server that only listens on
loopback. So the Host has to be one of ours
(a name that was bound to 127.0.0.1 by somebody else is not), and what changes something must not come from another origin.
There are no cookies: a token travels in a header, which no other site can make a browser send. Whose token it has to be is
the business of the gate (`authentication.py`); where there is one, all is closed but what is named as open.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from numaware.sentence import Sentence
from numaware.serve.problems import ProblemError, answer

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
# How long a body may take, and how much of it buys a second more: who sends byte by byte is not waited for.
_SECONDS_FOR_BODY = 30
_BYTES_A_SECOND = 16 << 10
_MOST_DIGITS = 20
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_CLIENTS = 4096
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/?#@\\\s]+)(?::[0-9]*)?")
# How long a stream goes on before its reader is looked at again.
_SECONDS_OF_TRUST = 10


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


class Ask(NamedTuple):
    """What a caller wants: verb and path as Kubernetes' API server would call them, the token sent, and from where."""

    token: str
    verb: str
    path: str
    client: str


class Authentication(Protocol):
    """Knows callers by their token."""

    async def admit(self, ask: Ask) -> str:
        """The caller's name, "" for one without; `ProblemError` 401, 403, or 503 where that cannot be found out."""


class _NoLongerAdmittedError(Exception):
    """Ends a stream whose reader may not read on."""


class Guard:
    """Stands before the whole application.

    `names` are the hosts it answers to, empty for any (a gate guards it then); `public` are the routes that need no token.
    `limit` says how many bytes a path takes. With `in_urls` a token may also come as a password, which is how programs send
    it that can only be given an address.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: frozenset[str],
        gate: Authentication | None,
        public: Sequence[BaseRoute],
        limit: Callable[[str], int],
        rate: Rate | None = None,
        in_urls: bool = False,
    ) -> None:
        self.app = app
        self.names = names
        self.gate = gate
        self.public = public
        self.limit = limit
        self.rate = rate
        self.in_urls = in_urls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        gate = self.gate
        if gate is not None and any(route.matches(scope)[0] is Match.FULL for route in self.public):
            gate = None
        begun = False
        trusted_until = time.monotonic() + _SECONDS_OF_TRUST

        async def guarded_send(message: Message) -> None:
            nonlocal begun, trusted_until
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], *SECURITY_HEADERS]
            elif gate is not None and message.get("more_body") and time.monotonic() > trusted_until:
                try:
                    await gate.admit(self._ask(request))
                except ProblemError:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    raise _NoLongerAdmittedError from None
                trusted_until = time.monotonic() + _SECONDS_OF_TRUST
            await send(message)

        try:
            self._check(request)
            if gate is not None:
                scope.setdefault("state", {})["caller"] = await gate.admit(self._ask(request))
        except ProblemError as error:
            await answer(error)(scope, receive, guarded_send)
            return
        bounded = _Bounded(receive, self.limit(scope["path"]))
        try:
            await self.app(scope, bounded, guarded_send)
        except ProblemError as error:
            # In the middle of an answer nothing can be said any more but that it ends here.
            if not begun:
                await answer(error)(scope, receive, guarded_send)
        except (_NoLongerAdmittedError, ClientDisconnect):
            return

    def _check(self, request: Request) -> None:
        host = _host(request.headers.get("host", ""))
        if not host or (self.names and host not in self.names):
            strange = Sentence("this server does not answer to that Host")
            raise ProblemError(421, strange, Sentence("open it by its own address"))
        # Whoever looks after the process may come from the address of somebody who calls too often.
        counted = self.rate if request.scope["path"] != "/healthz" else None
        wait = counted.wait(_address(request)) if counted else 0.0
        if wait:
            raise ProblemError(429, Sentence("too many calls"), headers={"retry-after": str(int(wait) + 1)})
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < _MOST_DIGITS):
            raise ProblemError(400, Sentence("Content-Length is not a number"))
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            plain = {"accept-encoding": "identity"}
            raise ProblemError(415, Sentence("the body has to come as it is, not compressed"), headers=plain)
        limit = self.limit(request.scope["path"])
        if int(length) > limit:
            raise ProblemError(413, Sentence("the body is larger than {most} MiB", most=limit >> 20))
        if request.method not in _SAFE:
            _check_origin(request)

    def _ask(self, request: Request) -> Ask:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        # Who may read may also ask whether there is something to read.
        verb = "get" if request.method == "HEAD" else request.method.lower()
        if kind.lower() == "basic" and self.in_urls:
            token = _password(token)
        elif kind.lower() != "bearer":
            token = ""
        return Ask(token.strip(), verb, request.scope["path"], _address(request))


def names_of(host: str) -> frozenset[str]:
    """The names that a server listening there answers to; none in particular beyond loopback."""
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    return LOOPBACK | {host} if local else frozenset()


def caller_of(request: Request) -> str:
    """Who does this: by name where the gate knows one, else the address."""
    return request.scope.get("state", {}).get("caller") or _address(request) or "somebody"


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


class _Bounded:
    """A body that neither grows beyond its limit nor takes for ever to come."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.receive = receive
        self.limit = limit
        self.got = 0
        self.complete = False
        self.began = time.monotonic()

    async def __call__(self) -> Message:
        if self.complete:
            return await self.receive()
        left = self.began + _SECONDS_FOR_BODY + self.got / _BYTES_A_SECOND - time.monotonic()
        try:
            message = await asyncio.wait_for(self.receive(), left)
        except TimeoutError:
            raise ProblemError(
                408, Sentence("the body did not come in time"), headers={"connection": "close"}
            ) from None
        self.complete = not message.get("more_body", False)
        self.got += len(message.get("body", b""))
        if self.got > self.limit:
            raise ProblemError(413, Sentence("the body is larger than {most} MiB", most=self.limit >> 20))
        return message


def _host(header: str) -> str:
    """The name in a Host header, without its port; "" for what is no Host."""
    found = _HOST.fullmatch(header.lower())
    return found["name"].strip("[]") if found else ""


def _check_origin(request: Request) -> None:
    """What changes something must come from this very site, or from no site at all (a program).

    Only the host of an origin is compared: behind a proxy that ends TLS the browser's scheme is not the one seen here.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    here = request.headers.get("host", "")
    if site not in ("same-origin", "none") or (
        origin is not None and origin not in (f"http://{here}", f"https://{here}")
    ):
        raise ProblemError(403, Sentence("another site may not change anything here"))
