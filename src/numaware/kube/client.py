"""The few calls we make to an API server, over one session that keeps its connections.

Everything on this path is made for a scheduler that binds hundreds of pods a second: bodies are encoded straight from
values, the answer to a write is handed back as the bytes it came in, and nothing is looked up twice.

When the server is busy (429, or any refusal that says when to come back) every call waits and tries again, since the
server has done nothing yet. When it fails or the connection breaks, only calls that may safely be made twice are: a bind
is not, and its error then says that the outcome is `uncertain`. `within` is for the whole call with all its tries.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from numaware import __version__
from numaware.errors import InputError
from numaware.kube.backoff import full_jitter
from numaware.kube.config import Connection
from numaware.kube.errors import ApiError, refusal
from numaware.kube.resources import EVENTS, PODS, Resource
from numaware.kube.watching import WatchEvent, WatchLines

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]
PatchKind = Literal["merge", "strategic", "json"]

_JSON = "application/json"
_PATCHES: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
# JSON is YAML, so the encoder serves this too.
_APPLY = "application/apply-patch+yaml"

# A page of 500 objects at etcd's limit of 1.5 MiB each would be larger, but no cluster is like that.
_MOST_ANSWER = 256 << 20
_RETRY = {"base": 0.1, "cap": 5.0}
_CONNECTIONS = 64
_CONNECT_SECONDS = 10.0

_encode = msgspec.json.Encoder().encode


class Page(msgspec.Struct, frozen=True):
    """Part of a list: the objects as they came, and the resourceVersion that all parts of the list share."""

    items: list[msgspec.Raw]
    version: str


class _ListMeta(msgspec.Struct, rename={"version": "resourceVersion", "more": "continue"}):
    version: str = ""
    more: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_List)


class Client:
    """A session with one API server: `async with Client(await connect(None, None)) as client`."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = 30.0,
        dice: random.Random | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._base = connection.base
        self._timeout = timeout
        self._dice = dice or random.SystemRandom()
        self._clock = clock
        self._sleep = sleep
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

    async def server_version(self) -> str:
        """Which Kubernetes answers; `InputError` if none does, so that a person learns it in one line."""
        try:
            answer = await self._send("GET", "/version", safe=True, within=min(self._timeout, 10.0))
            return msgspec.json.decode(answer, type=_Version).version
        except msgspec.MsgspecError:
            raise InputError(self._base, "what answers there is not a Kubernetes API server") from None
        except ApiError as error:
            raise InputError(self._base, f"cannot talk to the API server: {error}") from None

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        within: float | None = None,
    ) -> bytes:
        """One object."""
        return await self._send("GET", resource.path(namespace, name, subresource), safe=True, within=within)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        field_selector: str = "",
        label_selector: str = "",
        limit: int = 500,
    ) -> AsyncGenerator[Page, None]:
        """All objects that match, as they are now, a page at a time; `ApiError.gone` if reading took too long."""
        query = {"limit": str(limit)} | _selectors(field_selector, label_selector)
        while True:
            answer = await self._send("GET", f"{resource.path(namespace)}?{urlencode(query)}", safe=True)
            try:
                page = _LIST.decode(answer)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise ApiError(0, "BadAnswer", f"a list that cannot be read: {error}") from None
            yield Page(page.items or [], page.metadata.version)
            if not page.metadata.more:
                return
            query["continue"] = page.metadata.more

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        version: str,
        field_selector: str = "",
        label_selector: str = "",
        seconds: int = 300,
        quiet: float = 150.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """What changes after `version`, until the server ends the stream, which it does after about `seconds`.

        An ERROR event is raised as the `ApiError` it holds, and so is a stream that breaks, ends in mid-line or holds
        anything but events. A server sends a bookmark about every minute, so a stream that is `quiet` for much longer
        has died without a word and is given up too.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        } | _selectors(field_selector, label_selector)
        lines = WatchLines()
        failure: BaseException | None = None
        try:
            async with self._request(
                "GET",
                f"{resource.path(namespace)}?{urlencode(query)}",
                headers=await self._connection.headers(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=quiet),
            ) as response:
                if response.status == 401:
                    await self._connection.headers(renew=True)
                if response.status != 200:
                    raise refusal(response.status, response.headers, await _read(response))
                try:
                    async for chunk in response.content.iter_any():
                        for event in lines.feed(chunk):
                            if event.type == "ERROR":
                                raise refusal(0, {}, event.object)
                            yield event
                        # A server that always has more must not keep everything else in this loop waiting.
                        await asyncio.sleep(0)
                    lines.end()
                finally:
                    _abandon(response)
                return
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failure = error
        # Raised out here because the exception of the library knows the headers that were sent.
        raise _unanswered(failure)

    async def create(
        self, resource: Resource, body: object, namespace: str = "", *, within: float | None = None
    ) -> bytes:
        """A new object; `ApiError.conflict` if there is one of that name."""
        return await self._send(
            "POST", resource.path(namespace), body=_encode(body), safe=False, within=within
        )

    async def update(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        subresource: str = "",
        within: float | None = None,
    ) -> bytes:
        """The whole object anew; `ApiError.conflict` if its resourceVersion is not the newest any more."""
        return await self._send(
            "PUT",
            resource.path(namespace, name, subresource),
            body=_encode(body),
            safe=False,
            within=within,
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        within: float | None = None,
    ) -> bytes:
        """Part of an object; strategic patches only exist for Kubernetes' own kinds, not for custom ones."""
        return await self._send(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=_encode(body),
            content=_PATCHES[kind],
            safe=kind != "json",
            within=within,
        )

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        within: float | None = None,
    ) -> bytes:
        """Server-side apply: make the object have these fields and own them as `manager`; creates it if need be."""
        query = urlencode({"fieldManager": manager, "force": "true" if force else "false"})
        return await self._send(
            "PATCH",
            f"{resource.path(namespace, name, subresource)}?{query}",
            body=_encode(body),
            content=_APPLY,
            safe=True,
            within=within,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        within: float | None = None,
    ) -> bytes:
        """One object, and only if it still is the one with that `uid`."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._send(
            "DELETE", resource.path(namespace, name), body=_encode(options), safe=True, within=within
        )

    async def bind(
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
        *,
        within: float | None = None,
    ) -> None:
        """Give a pod its node, and its annotations in the same write.

        `ApiError.conflict` if it has one already or is another pod of that name by now.
        """
        metadata: dict[str, object] = {"name": name, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._send(
            "POST", PODS.path(namespace, name, "binding"), body=_encode(body), safe=False, within=within
        )

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        status: Mapping[str, object],
        *,
        within: float | None = None,
    ) -> None:
        """Part of a pod's status; conditions are matched by their type, so one is set and the others stay."""
        await self.patch(
            PODS,
            name,
            {"metadata": {"uid": uid}, "status": status},
            namespace,
            kind="strategic",
            subresource="status",
            within=within,
        )

    async def create_event(
        self, namespace: str, event: Mapping[str, object], *, within: float | None = None
    ) -> None:
        """One event, as `events.py` makes them."""
        await self.create(EVENTS, event, namespace, within=within)

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
            left = deadline - self._clock()
            try:
                headers = await self._connection.headers(renew=renew)
                async with self._request(
                    method,
                    path,
                    body=body,
                    headers=headers if body is None else {**headers, "Content-Type": content},
                    timeout=aiohttp.ClientTimeout(total=left, sock_connect=min(left, _CONNECT_SECONDS)),
                ) as response:
                    answer = await _read(response)
                    if response.status < 300:
                        return answer
                    error = refusal(response.status, response.headers, answer)
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                error = _unanswered(failure)
            # A token may have been replaced before its time: ask for a new one, once.
            renew = error.status == 401 and attempt == 0
            if not renew:
                wait = self._wait(error, attempt, safe=safe)
                if wait is None or self._clock() + wait >= deadline:
                    raise error
                await self._sleep(wait)
            attempt += 1

    def _wait(self, error: ApiError, attempt: int, *, safe: bool) -> float | None:
        """How long to wait before another try, None if there must not be one."""
        jitter = full_jitter(self._dice, attempt, base=_RETRY["base"], cap=_RETRY["cap"])
        if error.status == 429 or (error.retry_after is not None and error.status >= 500):
            return (error.retry_after or 0.0) + jitter
        if error.reason in {"BadCertificate", "TooLarge"}:
            return None
        return jitter if not error.sent or (safe and error.uncertain) else None


class _Version(msgspec.Struct, rename={"version": "gitVersion"}):
    version: str


def _selectors(field: str, label: str) -> dict[str, str]:
    return {name: text for name, text in (("fieldSelector", field), ("labelSelector", label)) if text}


def _abandon(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of an answer that was not read to its end: a goodbye over TLS would outlive who says it."""
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
        return ApiError(0, "BadCertificate", str(failure), sent=False)
    if isinstance(failure, aiohttp.ClientConnectorError):
        return ApiError(0, "Unreachable", str(failure), sent=False)
    if isinstance(failure, aiohttp.ConnectionTimeoutError):
        return ApiError(0, "Unreachable", "the server did not take the connection in time", sent=False)
    if isinstance(failure, TimeoutError):
        return ApiError(0, "Timeout", "the server did not answer in time")
    text = failure.message if isinstance(failure, aiohttp.ClientResponseError) else str(failure)
    return ApiError(0, "Broken", f"the connection broke: {text or type(failure).__name__}")


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
