"""The NodeResourceTopology that this node's agent has published: watched, so that whatever others do to it is put right.

`publisher.py` says what is true; here is known what stands in the API server, and written where the two differ. Somebody who
keeps writing over it (two publishers of one object) is not fought with: each repair then waits longer than the one before,
up to a minute, and the trouble is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from numaware.kube.client import Client
from numaware.kube.definitions import missing_text, waiting_for
from numaware.kube.errors import UNREADABLE, ApiError
from numaware.kube.reflector import Change, Reflector
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES
from numaware.kube.topology import complete
from numaware.machine.node_topology import NodeTopology
from numaware.node.troubles import Troubles

MANAGER = "numaware-agent"
CALL_SECONDS = 10.0
# Repairs in a row that are made at once; somebody who writes again after each of them means it.
_MOST_REPAIRS = 5
# After so long without another's hand in it, a repair is the first again; also the longest wait for one.
_PEACE_SECONDS = 60.0


class UndefinedError(Exception):
    """The API server does not know the kind: what is missing, and what ends that."""


class Published(NodeTopology, frozen=True, rename="camel"):
    """An object in the parts that we own: as the API server has it, or as we would write it."""

    class Metadata(msgspec.Struct, frozen=True, rename="camel"):
        class Owner(msgspec.Struct, frozen=True):
            uid: str = ""

        name: str = ""
        owner_references: tuple[Owner, ...] = ()
        resource_version: str = ""

    metadata: Metadata = Metadata()

    @property
    def generation(self) -> int:
        """The number of the writing, 0 where it has none."""
        text = self.attribute(complete.GENERATION) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0

    def content(self) -> Published:
        """What it says, without what is another with every write."""
        attributes = tuple(entry for entry in self.attributes if entry.name != complete.GENERATION)
        owners = Published.Metadata(owner_references=self.metadata.owner_references)
        return msgspec.structs.replace(self, attributes=attributes, metadata=owners)


class PublishedObject:
    """What stands in the API server under the name of this node, while `run` runs; `touched` is called when others change it.

    `there` is what it says, None if it is not there. `known` is set when it was looked for once, or cannot be.
    """

    def __init__(self, client: Client, name: str, troubles: Troubles, touched: Callable[[], None]) -> None:
        self.there: Published | None = None
        self.known = asyncio.Event()
        self._name = name
        self._client = client
        self._troubles = troubles
        self._touched = touched
        # What we have last written, or found to be as we would have written it, and the version of that; and what is on its way.
        self._ours: Published | None = None
        self._writing: Published | None = None
        self._version = 0
        self._generation = 0
        self._repairs = 0
        self._repaired_at = 0.0
        self._reflector: Reflector[Published] = Reflector(
            client,
            NODE_RESOURCE_TOPOLOGIES,
            self._decode,
            field_selector=f"metadata.name={name}",
            on_change=self._changed,
            on_trouble=self._unwatched,
            on_missing=self._missing,
            until_defined=waiting_for(client, NODE_RESOURCE_TOPOLOGIES),
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run())
            await self._reflector.synced.wait()
            self.known.set()

    def unready(self) -> str:
        """Why what stands there is not what is true, empty if it is."""
        if self.there is not None and self.there == self._ours:
            return ""
        if self._reflector.kind_is_missing:
            return missing_text(NODE_RESOURCE_TOPOLOGIES)
        if self._ours is None:
            return "nothing was published yet"
        what = "deleted" if self.there is None else "written over"
        return f"somebody has {what} the NodeResourceTopology {self._name}; it is published again"

    async def make_true(self, body_of: Callable[[int], dict[str, Any]]) -> int:
        """Have the object say what `body_of` says with the number of this writing; that number, 0 if nothing was written.

        `UndefinedError` where there is no such kind.
        """
        number = self._generation + 1
        body = body_of(number)
        wanted = msgspec.convert(body, Published).content()
        if wanted == self.there:
            self._ours = wanted
            return 0
        self._writing = wanted
        try:
            answer = await self._client.apply(
                NODE_RESOURCE_TOPOLOGIES, self._name, body, manager=MANAGER, within=CALL_SECONDS
            )
        except ApiError as error:
            if error.not_found:
                raise UndefinedError(missing_text(NODE_RESOURCE_TOPOLOGIES)) from None
            raise
        finally:
            self._writing = None
        self._version = max(self._version, _version(_read(answer)))
        self._generation = max(self._generation, number)
        self.there = self._ours = wanted
        return number

    def cleared(self) -> None:
        """All that could be done was done: what was wrong with the object is over, unless it cannot be watched or is contested."""
        contested = self._repairs > _MOST_REPAIRS and time.monotonic() - self._repaired_at < _PEACE_SECONDS
        if not contested and not self._reflector.in_trouble:
            self._troubles.cleared("published")

    # What the watch brings

    def _decode(self, raw: bytes) -> Published | None:
        """The object; somebody else's words that make no sense are an object that says nothing."""
        found = _read(raw)
        # Not every server heeds the selector.
        return found if found.metadata.name in ("", self._name) else None

    def _changed(self, change: Change[Published]) -> None:
        new = change.new
        if new is not None and 0 < _version(new) <= self._version:
            # Our own writing, or what was there before it.
            return
        self.there = None if new is None else new.content()
        if new is not None:
            self._generation = max(self._generation, new.generation)
        # The watch may tell of our own writing before the answer to it comes.
        expected = self.there is not None and self.there in (self._ours, self._writing)
        if self._ours is not None and not expected:
            self._repair()

    def _repair(self) -> None:
        """Have it put right: at once, or later where somebody writes over it again and again."""
        now = time.monotonic()
        self._repairs = self._repairs + 1 if now - self._repaired_at < _PEACE_SECONDS else 1
        self._repaired_at = now
        if self._repairs <= _MOST_REPAIRS:
            self._touched()
            return
        self._troubles.raised(
            "published",
            "contested",
            f"somebody keeps writing over the NodeResourceTopology {self._name}; a node has one publisher: end the other",
        )
        wait = min(_PEACE_SECONDS / 2, 2.0 ** (self._repairs - _MOST_REPAIRS))
        asyncio.get_running_loop().call_later(wait, self._touched)

    def _unwatched(self, error: ApiError) -> None:
        self._troubles.raised("published", "unwatched", str(error))
        self.known.set()

    def _missing(self, missing: bool) -> None:
        if missing:
            self._troubles.raised("published", "undefined", missing_text(NODE_RESOURCE_TOPOLOGIES))
        else:
            self._touched()


def _read(raw: bytes) -> Published:
    try:
        return msgspec.json.decode(raw, type=Published)
    except UNREADABLE:
        return Published()


def _version(published: Published) -> int:
    """The version of an object, 0 where it tells none that can be compared."""
    text = published.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) < 21 else 0
