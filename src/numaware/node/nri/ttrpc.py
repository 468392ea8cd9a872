"""Calls and answers over one stream of the mux: ttrpc, gRPC's small relative of container runtimes, as far as unary calls go.

A frame is a header (length, number of the call, kind, flags, big endian) and a message. A client numbers its calls with
odd numbers that grow; an answer bears the number of its call.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

from numaware.node.nri import ttrpc_pb2 as wire
from numaware.node.nri.mux import MOST_SENT, Mux, WireError

_HEADER = struct.Struct(">LLBB")
_REQUEST, _RESPONSE = 1, 2
# A message that comes, and one that is sent: however slow the other side is, it can keep the whole of it.
LONGEST_RECEIVED = 4 << 20
LONGEST_SENT = MOST_SENT - _HEADER.size
# Codes of gRPC.
_INTERNAL, _UNIMPLEMENTED, _TOO_LARGE = 13, 12, 8

# The bytes of an answer, or None for a method that is not there.
Handler = Callable[[str, str, bytes], Awaitable[bytes | None]]


class CallError(Exception):
    """The other side answered with an error of its own."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(f"{message} (code {code})")


async def serve(mux: Mux, stream: int, handler: Handler) -> None:
    """Answer calls until the other side is gone; a handler answers at once, as the runtime waits for it."""
    while True:
        number, kind, body = await _frame(mux, stream)
        if kind != _REQUEST:
            continue
        response = await _answer(body, handler)
        await mux.write(stream, _HEADER.pack(len(response), number, _RESPONSE, 0) + response)


async def _answer(body: bytes, handler: Handler) -> bytes:
    request = wire.Request()
    try:
        request.ParseFromString(body)
        payload = await handler(request.service, request.method, request.payload)
    except Exception as error:  # noqa: BLE001 - whatever it was, the runtime must have its answer
        return _failure(_INTERNAL, str(error))
    if payload is None:
        return _failure(_UNIMPLEMENTED, f"no method {request.method} in {request.service}")
    response = wire.Response(payload=payload).SerializeToString()
    return response if len(response) <= LONGEST_SENT else _failure(_TOO_LARGE, "the answer is too large")


def _failure(code: int, message: str) -> bytes:
    return wire.Response(status=wire.Status(code=code, message=message[:1000])).SerializeToString()


class Client:
    """Calls over a stream. `run` reads the answers, and must be running while anybody calls."""

    def __init__(self, mux: Mux, stream: int) -> None:
        self._mux = mux
        self._stream = stream
        self._number = -1
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def run(self) -> None:
        """Read answers until the other side is gone; then all who wait hear of it."""
        try:
            while True:
                number, kind, body = await _frame(self._mux, self._stream)
                future = self._waiting.pop(number, None)
                if kind == _RESPONSE and future is not None and not future.done():
                    future.set_result(body)
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(WireError("the other side has closed the connection"))
            self._waiting.clear()

    async def call(self, service: str, method: str, payload: bytes, seconds: float) -> bytes:
        """The answer's bytes; `CallError` for one that says no, `WireError`, or `TimeoutError`."""
        timeout = int(seconds * 1e9)
        request = wire.Request(service=service, method=method, payload=payload, timeout_nano=timeout)
        body = request.SerializeToString()
        if len(body) > LONGEST_SENT:
            raise CallError(_TOO_LARGE, f"a call of {len(body)} bytes, {LONGEST_SENT} are allowed")
        self._number += 2
        number = self._number
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(seconds):
                await self._mux.write(self._stream, _HEADER.pack(len(body), number, _REQUEST, 0) + body)
                answered = await future
        finally:
            self._waiting.pop(number, None)
        response = wire.Response()
        try:
            response.ParseFromString(answered)
        except Exception as error:  # noqa: BLE001 - protobuf has no public class for it
            raise WireError(f"an answer that cannot be read: {error}") from None
        if response.status.code:
            raise CallError(response.status.code, response.status.message)
        return response.payload


async def _frame(mux: Mux, stream: int) -> tuple[int, int, bytes]:
    length, number, kind, _ = _HEADER.unpack(await mux.read(stream, _HEADER.size))
    if length > LONGEST_RECEIVED:
        raise WireError(f"a message of {length} bytes, {LONGEST_RECEIVED} are allowed")
    return number, kind, await mux.read(stream, length)
