"""The runtime's side of NRI on a real socket: registers plug-ins and calls them, as a test says. Both ends are in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from numaware.node.nri import nri_pb2 as wire
from numaware.node.nri import ttrpc
from numaware.node.nri.mux import Mux
from numaware.node.nri.plugin import PLUGIN_STREAM, RUNTIME_STREAM

_PLUGIN = "nri.pkg.api.v1alpha1.Plugin"


class FakeNriRuntime:
    """One plug-in at a time. `updates` are what it asked for unsolicited, `failing` the containers that cannot be changed.

    With `garbage` it answers that.
    """

    def __init__(self) -> None:
        self.registered: list[tuple[str, str]] = []
        self.updates: list[wire.ContainerUpdate] = []
        self.failing: set[str] = set()
        self.garbage = b""
        self.connected = asyncio.Event()
        self.writer: asyncio.StreamWriter | None = None
        self.ended = asyncio.Event()
        self._client: ttrpc.Client | None = None

    async def call(self, method: str, request: bytes, seconds: float = 5) -> bytes:
        assert self._client is not None
        return await self._client.call(_PLUGIN, method, request, seconds)

    async def start_plugin(
        self, *, pods: int = 0, parts: int = 1, patience_ms: int = 0, version: str = ""
    ) -> wire.SynchronizeResponse:
        """Configure and synchronise, the pods in so many parts, each with one container of the same number."""
        await self.connected.wait()
        said = wire.ConfigureRequest(runtime_name="fake", request_timeout=patience_ms, nri_version=version)
        configured = await self.call("Configure", said.SerializeToString())
        assert wire.ConfigureResponse.FromString(configured).events
        numbers = list(range(pods))
        size = max(1, -(-pods // parts))
        pieces = [numbers[begin : begin + size] for begin in range(0, pods, size)] or [[]]
        answer = wire.SynchronizeResponse()
        for place, piece in enumerate(pieces):
            request = wire.SynchronizeRequest(
                pods=[pod_of(number) for number in piece],
                containers=[container_of(number) for number in piece],
                more=place + 1 < len(pieces),
            )
            answer = wire.SynchronizeResponse.FromString(
                await self.call("Synchronize", request.SerializeToString())
            )
            assert answer.more == request.more
        return answer

    async def _answer(self, _: str, method: str, payload: bytes) -> bytes | None:
        if method == "RegisterPlugin":
            request = wire.RegisterPluginRequest.FromString(payload)
            self.registered.append((request.plugin_name, request.plugin_idx))
            self.connected.set()
            return b""
        if method == "UpdateContainers":
            asked = wire.UpdateContainersRequest.FromString(payload)
            self.updates += asked.update
            if self.garbage:
                return self.garbage
            failed = [update for update in asked.update if update.container_id in self.failing]
            return wire.UpdateContainersResponse(failed=failed).SerializeToString()
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        mux = Mux(reader, writer)
        mux.open(PLUGIN_STREAM)
        mux.open(RUNTIME_STREAM)
        self._client = ttrpc.Client(mux, PLUGIN_STREAM)
        tasks = [
            asyncio.create_task(mux.run()),
            asyncio.create_task(self._client.run()),
            asyncio.create_task(ttrpc.serve(mux, RUNTIME_STREAM, self._answer)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()
            self.ended.set()


@asynccontextmanager
async def fake_nri_runtime(
    socket: Path, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] | None = None
) -> AsyncIterator[FakeNriRuntime]:
    """A runtime that listens while the block runs; with `serve` it does something else with who connects."""
    runtime = FakeNriRuntime()
    server = await asyncio.start_unix_server(serve or runtime.serve, socket)
    try:
        yield runtime
    finally:
        server.close()
        if runtime.writer is not None:
            runtime.writer.close()
            await runtime.ended.wait()


def pod_of(number: int) -> wire.PodSandbox:
    linux = wire.LinuxPodSandbox(
        namespaces=[wire.LinuxNamespace(type="network", path=f"/run/netns/{number}")]
    )
    return wire.PodSandbox(
        id=f"s{number}", name=f"p{number}", uid=f"u{number}", namespace="default", linux=linux
    )


def container_of(number: int, cpus: str = "") -> wire.Container:
    made = wire.Container(id=f"c{number}", pod_sandbox_id=f"s{number}", name="main")
    made.linux.resources.cpu.cpus = cpus
    return made
