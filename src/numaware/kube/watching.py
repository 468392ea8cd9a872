"""A watch stream, cut into the events it is made of.

A server sends one JSON object a line, in pieces that end anywhere. A stream that holds anything else, or ends in mid-line,
was damaged on the way; whoever reads it starts again from the last version seen, so nothing here is repaired or guessed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.kube.errors import ApiError, decoded

# etcd takes no object beyond 1.5 MiB; written out as JSON it may grow, but not to this.
MOST_LINE = 16 << 20


class WatchEvent(msgspec.Struct, frozen=True):
    """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object it is about."""

    type: str
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(WatchEvent)


class WatchLines:
    """Takes the stream piece by piece and gives the events that are complete."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[WatchEvent]:
        """The events that end within this piece; an `ApiError` at the first line that is none."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if self._rest:
                self._rest += line
                line = bytes(self._rest)  # noqa: PLW2901 -- the same line, with the start that came before
                self._rest.clear()
            if line.strip():
                yield decoded(_EVENT, line, "a watch event", "BadStream")
        self._rest += rest
        if len(self._rest) > MOST_LINE:
            raise ApiError(0, "BadStream", f"a watch event of more than {MOST_LINE >> 20} MiB")

    def end(self) -> None:
        """The stream is over: an `ApiError` if it was in mid-line."""
        if self._rest.strip():
            raise ApiError(0, "BadStream", "the watch ended in the middle of an event")
