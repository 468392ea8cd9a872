"""Keeps the kubelet informed of every resource: at the start, after each of its restarts, and after a socket was removed.

A kubelet that starts removes all sockets in its folder, makes its own, and waits to be told. inotify says at once that
something happened there; what that means is read from the folder itself, whose state decides alone. Once in a while it is
looked at without being asked to, for what inotify may have missed: a folder that was removed and made again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from pathlib import Path

import grpc
import structlog

from numaware.machine.words import printable
from numaware.node.device_plugin import deviceplugin_pb2 as wire
from numaware.node.device_plugin.server import VERSION, ResourceServer, identity, plugin_options
from numaware.node.inotify import FolderWatch
from numaware.node.troubles import Troubles

KUBELET_SOCKET = "kubelet.sock"
_CALL = f"/{VERSION}.Registration/Register"
_SECONDS = 3.0
_LOOK_AGAIN = 1.0
_RETRY = 0.25
# Within what a kubelet that starts needs to remove the last socket after it has removed the first.
_SETTLE = 0.05

log = structlog.get_logger("numaware.device-plugin")


class Registration:
    """Registers servers in one folder for as long as it runs; `wake` has it look at once."""

    def __init__(self, folder: Path, troubles: Troubles) -> None:
        self.folder = folder
        self._troubles = troubles
        self._woken = asyncio.Event()
        self._servers: dict[str, ResourceServer] = {}

    def serve(self, server: ResourceServer) -> None:
        self._servers[server.name] = server
        self.wake()

    def wake(self) -> None:
        self._woken.set()

    @property
    def unregistered(self) -> list[str]:
        """Resources that the kubelet has not been told of, or no longer listens to."""
        return sorted(name for name, server in self._servers.items() if server.registered is None)

    async def run(self) -> None:
        """Until cancelled; then every socket is closed, and the kubelet takes the devices for gone."""
        watch = FolderWatch({self.folder: None}, lambda _: self.wake())
        try:
            while True:
                watch.refresh()
                self._woken.clear()
                failed = await self._settle(list(self._servers.values()))
                # Not `wait_for`, which may lose a cancellation that comes with what it waits for.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY if failed else _LOOK_AGAIN):
                        await self._woken.wait()
                await asyncio.sleep(_SETTLE)
        finally:
            watch.close()
            for server in self._servers.values():
                await server.close()

    async def _settle(self, servers: Collection[ResourceServer]) -> bool:
        """Listen and register wherever that is due; whether something has to be tried again soon."""
        problem: tuple[str, str] | None = None
        for server in servers:
            kubelet = identity(self.folder / KUBELET_SOCKET)
            if kubelet is None:
                problem = "no-kubelet", f"{self.folder / KUBELET_SOCKET} is not there"
                break
            try:
                if not server.listening:
                    await server.listen()
                if server.registered != kubelet:
                    await self._register(server)
                    server.registered = kubelet
                    server.registrations += 1
                    log.info("registered", resource=server.name, devices=len(server.offer.listed()))
            except grpc.aio.AioRpcError as error:
                said = printable(error.details() or "", 300)
                problem = "refused", f"{server.name}: {error.code().name}: {said}"
            except (OSError, RuntimeError) as error:
                problem = "socket", f"{server.path}: {error}"
        if problem is None:
            self._troubles.cleared("registration")
        else:
            self._troubles.raised("registration", *problem)
        return problem is not None and problem[0] != "no-kubelet"

    async def _register(self, server: ResourceServer) -> None:
        request = wire.RegisterRequest(
            version=VERSION,
            endpoint=server.endpoint,
            resource_name=server.name,
            options=plugin_options(),
        )
        socket = (self.folder / KUBELET_SOCKET).absolute()
        async with grpc.aio.insecure_channel(f"unix://{socket}", (("grpc.enable_http_proxy", 0),)) as channel:
            call = channel.unary_unary(_CALL, wire.RegisterRequest.SerializeToString, wire.Empty.FromString)
            await call(request, timeout=_SECONDS)
