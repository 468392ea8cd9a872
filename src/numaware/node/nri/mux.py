"""Several byte streams over one Unix socket, as container runtimes and their NRI plug-ins speak: header, then payload.

A header is the number of a stream and the length of what follows, big endian. Streams need no opening. What comes for one is
handed to its reader in whatever pieces it came; what is sent goes out in small pieces, since the Go side drops a connection
whose frame does not fit its buffer of 4 KiB.
"""

from __future__ import annotations

import asyncio
import struct

_HEADER = struct.Struct(">LL")
_LONGEST_RECEIVED = (4 << 20) + 10
_LONGEST_SENT = 4096
# It keeps 256 pieces of a stream for a reader that is slow, and drops the connection at the next one.
MOST_SENT = 255 * _LONGEST_SENT
# What may wait for a reader that is slow; beyond it the runtime is told nothing more.
_MOST_WAITING = 32 << 20


class WireError(Exception):
    """The other side does not keep to the protocol, or is gone."""


class Mux:
    """Streams by number; `run` reads until the socket ends, and whoever reads a stream then gets an end, too."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._streams: dict[int, asyncio.StreamReader] = {}
        self._waiting: dict[int, int] = {}

    async def run(self) -> None:
        """Read until the other side closes; `WireError` for what it should not have sent."""
        try:
            while True:
                try:
                    number, length = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                    if length > _LONGEST_RECEIVED:
                        raise WireError(f"a frame of {length} bytes, {_LONGEST_RECEIVED} are allowed")
                    payload = await self._reader.readexactly(length)
                except (asyncio.IncompleteReadError, ConnectionError):
                    return
                stream = self._streams.get(number)
                if stream is None:
                    continue
                self._waiting[number] += length
                if self._waiting[number] > _MOST_WAITING:
                    raise WireError(f"{self._waiting[number]} bytes wait to be read on stream {number}")
                stream.feed_data(payload)
        finally:
            for stream in self._streams.values():
                stream.feed_eof()

    def open(self, number: int) -> None:
        """From now on what comes for this stream is kept for `read`."""
        self._streams[number] = asyncio.StreamReader()
        self._waiting[number] = 0

    async def read(self, number: int, size: int) -> bytes:
        """Exactly so many bytes; `WireError` when the other side is gone."""
        try:
            data = await self._streams[number].readexactly(size)
        except asyncio.IncompleteReadError:
            raise WireError("the other side has closed the connection") from None
        self._waiting[number] -= size
        return data

    async def write(self, number: int, data: bytes) -> None:
        """All of it, in pieces, not mixed with what others write; `WireError` when the other side is gone."""
        try:
            async with self._writing:
                for begin in range(0, len(data), _LONGEST_SENT):
                    piece = data[begin : begin + _LONGEST_SENT]
                    self._writer.write(_HEADER.pack(number, len(piece)) + piece)
                await self._writer.drain()
        except ConnectionError as error:
            raise WireError(str(error)) from None
