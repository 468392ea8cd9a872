"""A stand-in for the kubelet's PodResources service, on a real socket; what it says is what a test told it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from numaware.node import podresources_pb2 as wire

Call = Callable[[bytes, "grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[bytes]]


class FakePodResources:
    """Answers while its block runs; `hung` makes it take calls and say nothing, None for an answer that the call is unknown."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.pods: bytes = b""
        self.allocatable: bytes | None = b""
        self.hung = False
        self.problem = ""
        self.calls = 0

    def say(
        self,
        pods: wire.ListPodResourcesResponse,
        allocatable: wire.AllocatableResourcesResponse | None = None,
    ) -> None:
        self.pods = pods.SerializeToString()
        if allocatable is not None:
            self.allocatable = allocatable.SerializeToString()

    async def __aenter__(self) -> Self:
        calls: Mapping[str, Call] = {"List": self._list, "GetAllocatableResources": self._allocatable}
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "v1.PodResourcesLister",
                    {name: grpc.unary_unary_rpc_method_handler(call) for name, call in calls.items()},
                ),
            )
        )
        self._server.add_insecure_port(f"unix://{self.socket}")
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)

    async def _list(self, _: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        await self._before(context)
        return self.pods

    async def _allocatable(self, _: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        await self._before(context)
        if self.allocatable is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
            raise AssertionError
        return self.allocatable

    async def _before(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        self.calls += 1
        if self.hung:
            await asyncio.sleep(3600)
        if self.problem:
            await context.abort(grpc.StatusCode.UNKNOWN, self.problem)
