"""A stand-in for the kubelet's side of device plugins, on real sockets: takes registrations, watches, and calls back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from numaware.node.device_plugin import deviceplugin_pb2 as wire

_PLUGIN = "/v1beta1.DevicePlugin"


class FakeDeviceManager:
    """Listens while its block runs. `devices` is resource -> id -> (healthy, NUMA nodes), as each plugin last said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registrations: list[wire.RegisterRequest] = []
        self.devices: dict[str, dict[str, tuple[bool, tuple[int, ...]]]] = {}
        self.refuse = ""
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._channels: list[grpc.aio.Channel] = []

    async def __aenter__(self) -> Self:
        """As a kubelet does that starts: every socket goes, and its own comes."""
        for socket in self.folder.glob("*.sock"):
            socket.unlink()
        self._server = grpc.aio.server()
        call = grpc.unary_unary_rpc_method_handler(
            self._register, wire.RegisterRequest.FromString, wire.Empty.SerializeToString
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": call}),)
        )
        self._server.add_insecure_port(f"unix://{self.folder / 'kubelet.sock'}")
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches.values():
            watch.cancel()
        for channel in self._channels:
            await channel.close()
        await self._server.stop(None)

    async def call(self, resource: str, name: str, request: bytes, seconds: float = 10) -> bytes:
        """One call to the plugin of a resource."""
        endpoint = next(one.endpoint for one in reversed(self.registrations) if one.resource_name == resource)
        async with grpc.aio.insecure_channel(f"unix://{self.folder / endpoint}") as channel:
            answer: bytes = await channel.unary_unary(f"{_PLUGIN}/{name}")(request, timeout=seconds)  # type: ignore[arg-type] # bytes as they are
        return answer

    async def allocate(self, resource: str, *containers: list[str]) -> wire.AllocateResponse:
        request = wire.AllocateRequest(
            container_requests=[wire.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        return wire.AllocateResponse.FromString(
            await self.call(resource, "Allocate", request.SerializeToString())
        )

    async def preferred(self, resource: str, available: list[str], must: list[str], size: int) -> list[str]:
        one = wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = wire.PreferredAllocationRequest(container_requests=[one]).SerializeToString()
        answer = wire.PreferredAllocationResponse.FromString(
            await self.call(resource, "GetPreferredAllocation", request)
        )
        return list(answer.container_responses[0].deviceIDs)

    async def drop(self, resource: str) -> None:
        """Stop listening to a plugin, as a kubelet does that has lost the connection."""
        self._watches.pop(resource).cancel()

    async def _register(
        self,
        request: wire.RegisterRequest,
        context: grpc.aio.ServicerContext[wire.RegisterRequest, wire.Empty],
    ) -> wire.Empty:
        if self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        self.registrations.append(request)
        earlier = self._watches.pop(request.resource_name, None)
        if earlier:
            earlier.cancel()
        self._watches[request.resource_name] = asyncio.create_task(self._watch(request))
        return wire.Empty()

    async def _watch(self, request: wire.RegisterRequest) -> None:
        channel = grpc.aio.insecure_channel(f"unix://{self.folder / request.endpoint}")
        self._channels.append(channel)
        stream = channel.unary_stream(
            f"{_PLUGIN}/ListAndWatch",
            wire.Empty.SerializeToString,
            wire.ListAndWatchResponse.FromString,
        )(wire.Empty())
        try:
            async for told in stream:
                self.devices[request.resource_name] = {
                    device.ID: (
                        device.health == "Healthy",
                        tuple(node.ID for node in device.topology.nodes)
                        if device.HasField("topology")
                        else (),
                    )
                    for device in told.devices
                }
        except grpc.aio.AioRpcError:
            self.devices.pop(request.resource_name, None)
        finally:
            stream.cancel()


async def until(look: Callable[[], object], seconds: float = 30) -> None:
    """Wait for a state; the limit is for a test that would never end."""
    async with asyncio.timeout(seconds):
        while not look():  # noqa: ASYNC110 - what is looked at is on the other side of a socket
            await asyncio.sleep(0.02)
