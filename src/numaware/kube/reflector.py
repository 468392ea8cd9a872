"""A local copy of all objects of one kind, kept true by listing once and watching ever after.

The copy holds what `decode` makes of an object, nothing else. After a cut the watch goes on from the last version seen,
which bookmarks move along even where nothing changes; when the server has forgotten that version, everything is listed
anew and compared with the copy, so that whoever listens sees each change once, whichever way it was learnt.

Decisions a reader of the copy relies on:

- Callbacks run in order, in the event loop, before the next event is looked at.
- An object that `decode` cannot read is reported once for each of its versions and leaves the copy as it was: it still
  exists, and to forget a pod would free what it holds. It is absent only if no version of it could ever be read.
- An object that `decode` gives None for is none of ours: absent.
- Another object of the same name (another uid) is told as a deletion and an addition.
- A kind that the server does not know (its CRD is not installed) has no objects; that is looked at again in a minute, or as
  soon as `until_defined` returns.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from numaware.kube.client import Client
from numaware.kube.errors import UNREADABLE, ApiError
from numaware.kube.resources import Resource
from numaware.kube.transport import Clock, Sleep, full_jitter
from numaware.kube.watching import WatchEvent
from numaware.machine.words import printable

T = TypeVar("T")

_MISSING_KIND_SECONDS = 60.0
# Between the moment at which a kind is defined and the one at which it is served.
_DEFINED_KIND_SECONDS = 0.2
_BACKOFF = {"base": 0.25, "cap": 30.0}
# Failures in a row before the version itself is doubted: it may be one that the server will never serve.
_MOST_FRUITLESS = 4
# Times that a kind must be missing before its objects are believed to be gone: a server that is starting may not know yet.
_SURELY_MISSING = 3
# A watch that the server ends sooner than this, without a word, would be asked for again in a tight loop.
_SHORT_SECONDS = 1.0
# How long a watch lasts. Shorter than the silence that means a dead stream: a server whose etcd sends no progress tells
# of kinds in which nothing happens only by ending their watches.
_WATCH_SECONDS = (90.0, 130.0)
_MOST_MESSAGE = 400


class Change(NamedTuple, Generic[T]):
    """One object that is new (`old` None), different, or gone (`new` None); `key` is `namespace/name`, or its name."""

    key: str
    old: T | None
    new: T | None


class _Metadata(msgspec.Struct, rename={"version": "resourceVersion"}):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Head(msgspec.Struct):
    metadata: _Metadata


_HEAD = msgspec.json.Decoder(_Head)


class _Seen(NamedTuple):
    uid: str
    version: str


class Reflector(Generic[T]):
    """Start it with `asyncio.create_task(reflector.run())`, wait for `synced`, read `items`.

    Nobody is told of an object whose new reading equals the old one. `last_contact` is when the server was last heard of,
    by `clock`; bookmarks make that every minute or so while all is well. `problems` has what is wrong at the moment, by the
    key of the object, or by the address of the kind where that cannot be read at all. `on_problem` is told of objects,
    `on_trouble` of what keeps the whole kind from being read, `on_missing` whether the server does not know the kind: all of
    them when it is news.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        decode: Callable[[bytes], T | None],
        *,
        namespace: str = "",
        field_selector: str = "",
        on_change: Callable[[Change[T]], None] = lambda _: None,
        on_problem: Callable[[str, str], None] = lambda _, __: None,
        on_trouble: Callable[[ApiError], None] = lambda _: None,
        on_missing: Callable[[bool], None] = lambda _: None,
        until_defined: Callable[[], Awaitable[None]] | None = None,
        page: int = 500,
        dice: random.Random | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.last_contact: float | None = None
        self.problems: dict[str, str] = {}
        self.lists = 0
        self.kind_is_missing = False
        self._items: dict[str, T] = {}
        self.items: Mapping[str, T] = MappingProxyType(self._items)
        self._seen: dict[str, _Seen] = {}
        self._unreadable: dict[str, str] = {}
        # What a problem with all of them goes by.
        self._address = resource.path(namespace)
        self._client = client
        self._decode = decode
        self._namespace = namespace
        self._field_selector = field_selector
        self._on_change = on_change
        self._on_problem = on_problem
        self._on_trouble = on_trouble
        self._on_missing = on_missing
        self._until_defined = until_defined
        self._page = page
        self._dice = dice or random.SystemRandom()
        self._clock = clock
        self._sleep = sleep
        # Where the watch goes on from; None to list first.
        self._version: str | None = None
        # In a row, without a word from the server that makes sense.
        self._failures = 0
        self._missing = 0

    @property
    def in_trouble(self) -> bool:
        """Whether the kind cannot be read at the moment."""
        return self._address in self.problems

    async def run(self) -> NoReturn:
        """Keep the copy true until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                else:
                    await self._watch(self._version)
            except ApiError as error:
                await self._pause(self._after(error))

    async def _pause(self, seconds: float) -> None:
        """Wait so long; for a kind that is missing, at most until it is defined."""
        if not self.kind_is_missing or self._until_defined is None:
            await self._sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._until_defined()
        except TimeoutError:
            return
        await self._sleep(_DEFINED_KIND_SECONDS)

    def _after(self, error: ApiError) -> float:
        """What an error means for what is known, and how long to wait before going on."""
        if error.not_found:
            return self._kind_is_missing()
        wait = min(error.retry_after or 0.0, _BACKOFF["cap"])
        wait += full_jitter(self._dice, self._failures, **_BACKOFF)
        self._failures += 1
        refused = 400 <= error.status < 500 and error.status != 429
        if refused or error.gone or self._failures >= _MOST_FRUITLESS:
            self._version = None
        message = printable(str(error), _MOST_MESSAGE)
        if not error.gone and self.problems.get(self._address) != message:
            self._on_trouble(error)
            self.problems[self._address] = message
        return wait

    def _kind_is_missing(self) -> float:
        self._version = None
        self._missing += 1
        self.last_contact = self._clock()
        self.problems.pop(self._address, None)
        if self._items and self._missing < _SURELY_MISSING:
            return 1.0
        if not self.kind_is_missing:
            self.kind_is_missing = True
            self._on_missing(True)
        self._keep_only(set())
        self.synced.set()
        return _MISSING_KIND_SECONDS

    def _contact(self) -> None:
        """The server answered, and it made sense."""
        self.last_contact = self._clock()
        self._missing = 0
        if self.kind_is_missing:
            self.kind_is_missing = False
            self._on_missing(False)
        self.problems.pop(self._address, None)

    async def _list(self) -> None:
        """Take everything as it is now; what is not in it is gone."""
        listed: set[str] = set()
        version = ""
        self.lists += 1
        async with aclosing(
            self._client.list(
                self.resource,
                self._namespace,
                limit=self._page,
                field_selector=self._field_selector,
            )
        ) as pages:
            async for page in pages:
                # Failures stay counted: where listing is allowed and watching is not, this would go round at full speed.
                self._contact()
                for raw in page.items:
                    metadata = self._head(raw)
                    if metadata is not None:
                        listed.add(metadata.key)
                        self._take(metadata, raw)
                version = page.version
        self._keep_only(listed)
        self._version = version
        self.synced.set()

    async def _watch(self, version: str) -> None:
        """Follow the changes until the server ends the stream."""
        began, spoke = self._clock(), False
        seconds = round(self._dice.uniform(*_WATCH_SECONDS))
        async with aclosing(
            self._client.watch(
                self.resource,
                self._namespace,
                version=version,
                seconds=seconds,
                field_selector=self._field_selector,
            )
        ) as events:
            async for event in events:
                self._contact()
                self._failures = 0
                spoke = True
                self._follow(event)
        if not spoke and self._clock() - began < _SHORT_SECONDS:
            raise ApiError(0, "ShortWatch", "the server ended the watch at once")
        self._contact()
        self._failures = 0

    def _follow(self, event: WatchEvent) -> None:
        metadata = self._head(event.object)
        if metadata is None:
            return
        if event.type in {"ADDED", "MODIFIED"}:
            seen = self._seen.get(metadata.key)
            # What is not in the copy was never there, or is gone by now: an event no newer than the stream is a repeat.
            if _is_newer(metadata.version, than=seen.version if seen else self._version):
                self._take(metadata, event.object)
        elif event.type == "DELETED":
            seen = self._seen.get(metadata.key)
            if seen is None or not _is_newer(seen.version, than=metadata.version):
                self._drop(metadata.key)
        # Bookmarks, and any type that is yet to be invented, only move the version along.
        if _is_newer(metadata.version, than=self._version):
            self._version = metadata.version

    def _head(self, raw: msgspec.Raw) -> _Metadata | None:
        """Which object it is; None, and a report, if it does not say."""
        try:
            return _HEAD.decode(raw).metadata
        except UNREADABLE as error:
            self._report(f"{self._address} without metadata", str(error))
            return None

    def _take(self, metadata: _Metadata, raw: msgspec.Raw) -> None:
        """Put one object, as it is now, into the copy."""
        key, now = metadata.key, _Seen(metadata.uid, metadata.version)
        before = self._seen.get(key)
        if now.version and (before == now or self._unreadable.get(key) == now.version):
            return
        if before is not None and before.uid != now.uid:
            self._drop(key)
        try:
            value = self._decode(bytes(raw))
        except Exception as error:  # noqa: BLE001 - one object, whatever is wrong with it, must not stop the others
            self._unreadable[key] = now.version
            self._report(key, str(error) or type(error).__name__)
            return
        self._unreadable.pop(key, None)
        self.problems.pop(key, None)
        if value is None:
            self._drop(key)
            return
        old = self._items.get(key)
        self._items[key], self._seen[key] = value, now
        if old != value:
            self._on_change(Change(key, old, value))

    def _drop(self, key: str) -> None:
        self._seen.pop(key, None)
        self._unreadable.pop(key, None)
        self.problems.pop(key, None)
        old = self._items.pop(key, None)
        if old is not None:
            self._on_change(Change(key, old, None))

    def _keep_only(self, listed: set[str]) -> None:
        for key in [*self._items, *self._unreadable]:
            if key not in listed:
                self._drop(key)

    def _report(self, key: str, message: str) -> None:
        message = printable(message, _MOST_MESSAGE)
        if self.problems.get(key) != message or key in self._unreadable:
            self.problems[key] = message
            self._on_problem(key, message)


def _is_newer(version: str, *, than: str | None) -> bool:
    """Whether to believe that `version` came after; versions that are no numbers are believed in the order they come."""
    if _is_number(version) and than is not None and _is_number(than):
        return int(version) > int(than)
    return version != than


def _is_number(version: str) -> bool:
    return version.isdecimal() and len(version) <= 20
