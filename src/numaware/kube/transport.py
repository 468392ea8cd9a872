"""One session with an API server: connections that are kept, credentials, and when a call is made again.

When the server is busy (429, or any failure that says when to come back) every call waits and tries again, since the
server has done nothing yet. When it fails or the connection breaks, only calls that may safely be made twice are: a bind
is not, and its error then says that the outcome is `uncertain`. `within` is for the whole call with all its tries.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from yarl import URL

from numaware import __version__
from numaware.kube.config import Connection
from numaware.kube.errors import ApiError, refusal

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]
# Hears of every try: its method, the status of the answer (0 where there was none), and the seconds that it took. A stream
# is heard of when it begins.
Heard = Callable[[str, int, float], None]

_JSON = "application/json"
_CONNECT_SECONDS = 10.0

# A page of 500 objects at etcd's limit of 1.5 MiB each would be larger, but no cluster is like that.
_MOST_ANSWER = 256 << 20
_RETRY = {"base": 0.1, "cap": 5.0}
_CONNECTIONS = 64
# Doubling stops mattering long before; keeps the power small however long a server stays away.
_MOST_DOUBLINGS = 16


def full_jitter(dice: random.Random, attempt: int, *, base: float, cap: float) -> float:
    """Seconds to wait after failure number `attempt` (from 0): anything up to a bound that doubles, up to `cap`.

    At random, so that clients do not all come again at the same moment.
    """
    return dice.uniform(0, min(cap, base * 2 ** min(attempt, _MOST_DOUBLINGS)))


class Transport:
    """An open session; what the calls are is the business of who builds on it."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = 30.0,
        dice: random.Random | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        heard: Heard | None = None,
    ) -> None:
        self._connection = connection
        self._base = connection.base
        self._timeout = timeout
        self._dice = dice or random.SystemRandom()
        self._clock = clock
        self._sleep = sleep
        self._heard = heard
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._connection.tls or False,
                limit=_CONNECTIONS,
                socket_factory=_kept_alive,
            ),
            # Compressing costs both ends more than a cluster's network does.
            headers={"Accept": _JSON, "Accept-Encoding": "identity", "User-Agent": f"numaware/{__version__}"},
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=self._connection.proxy,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        body: bytes | None = None,
    ) -> Any:
        if self._session is None:
            raise RuntimeError("the client is not open: use `async with`")
        return self._session.request(
            method,
            URL(self._base + path, encoded=True),
            data=body,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self._connection.server_name,
        )

    async def _send(
        self,
        method: str,
        path: str,
        *,
        safe: bool,
        body: bytes | None = None,
        content: str = _JSON,
        within: float | None = None,
    ) -> bytes:
        """One call, tried until it succeeds, cannot succeed, or its time is up; `safe` if it may be made twice."""
        deadline = self._clock() + (self._timeout if within is None else within)
        attempt = 0
        renew = False
        while True:
            began = self._clock()
            left = deadline - began
            status = 0
            try:
                headers = await self._connection.headers(renew=renew)
                async with self._request(
                    method,
                    path,
                    body=body,
                    headers=headers if body is None else {**headers, "Content-Type": content},
                    timeout=aiohttp.ClientTimeout(total=left, sock_connect=min(left, _CONNECT_SECONDS)),
                ) as response:
                    status = response.status
                    answer = await _read(response)
                    if status < 300:
                        return answer
                    error = refusal(status, response.headers, answer)
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                error = _unanswered(failure)
            finally:
                self._tell(method, status, began)
            # A token may have been replaced before its time: ask for a new one, once.
            renew = error.status == 401 and attempt == 0
            if not renew:
                wait = self._wait(error, attempt, safe=safe)
                if wait is None or self._clock() + wait >= deadline:
                    raise error
                await self._sleep(wait)
            attempt += 1

    async def _stream(self, path: str, quiet: float) -> AsyncGenerator[bytes, None]:
        """One answer, piece by piece for as long as it lasts, given up when nothing comes for `quiet` seconds."""
        failure: Exception | None = None
        began = self._clock()
        try:
            async with self._request(
                "GET",
                path,
                headers=await self._connection.headers(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=quiet),
            ) as response:
                self._tell("GET", response.status, began)
                if response.status == 401:
                    await self._connection.headers(renew=True)
                if response.status != 200:
                    raise refusal(response.status, response.headers, await _read(response))
                try:
                    async for chunk in response.content.iter_any():
                        yield chunk
                finally:
                    _abandon(response)
                return
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failure = error
        # Raised out here because the exception of the library knows the headers that were sent.
        raise _unanswered(failure)

    def _tell(self, method: str, status: int, began: float) -> None:
        if self._heard is not None:
            self._heard(method, status, self._clock() - began)

    def _wait(self, error: ApiError, attempt: int, *, safe: bool) -> float | None:
        """How long to wait before another try, None if there must not be one."""
        jitter = full_jitter(self._dice, attempt, **_RETRY)
        if error.status == 429 or (error.retry_after is not None and error.status >= 500):
            return (error.retry_after or 0.0) + jitter
        if error.reason == "BadCertificate":
            return None
        return jitter if not error.sent or (safe and error.uncertain) else None


def _abandon(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of an answer that was not read to its end, without the exchange that ends TLS."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        transport.abort()


async def _read(response: aiohttp.ClientResponse) -> bytes:
    if response.content_length is not None and response.content_length <= _MOST_ANSWER:
        return await response.read()
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MOST_ANSWER:
            raise ApiError(0, "TooLarge", f"an answer of more than {_MOST_ANSWER >> 20} MiB")
    return bytes(body)


def _unanswered(failure: BaseException | None) -> ApiError:
    """What to call a call that broke: whether it was sent, and why, without what it carried."""
    if isinstance(failure, aiohttp.ClientSSLError):
        return ApiError(0, "BadCertificate", _distrusted(failure), sent=False)
    if isinstance(failure, aiohttp.ClientConnectorError):
        return ApiError(0, "Unreachable", _unconnected(failure), sent=False)
    if isinstance(failure, aiohttp.ClientHttpProxyError):
        return ApiError(
            0, "Unreachable", f"the proxy refused: {failure.status} {failure.message}", sent=False
        )
    if isinstance(failure, aiohttp.ConnectionTimeoutError):
        return ApiError(0, "Timeout", "the server did not take the connection in time", sent=False)
    if isinstance(failure, TimeoutError):
        return ApiError(0, "Timeout", "the server did not answer in time")
    # The text of this one would show the headers.
    text = failure.message if isinstance(failure, aiohttp.ClientResponseError) else str(failure)
    return ApiError(0, "Broken", f"the connection broke: {text or type(failure).__name__}")


def _unconnected(failure: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in the system's own words."""
    error = failure.os_error
    # What asyncio says instead repeats the address. Names that are not found have numbers of their own, below zero.
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return f"cannot connect to {failure.host}:{failure.port}: {why}"


def _distrusted(failure: aiohttp.ClientSSLError) -> str:
    error = getattr(failure, "certificate_error", None)
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(failure)
    return f"the certificate of {failure.host}:{failure.port} is not trusted: {why}"


def _kept_alive(address: aiohttp.connector.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute that the other end has vanished, however quiet a watch is."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made
