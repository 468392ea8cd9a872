"""One resource on its socket: what the kubelet calls to hear of devices, to be told which ones to take, and to hand them out.

The kubelet removes every socket of the folder when it starts, and so may anybody else: `listening` says whether the socket
is still the one that was made, and `registration` has it made anew. No call changes what is offered, so that a kubelet which
hangs up in the middle of one leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from hashlib import blake2s
from pathlib import Path

import grpc
import structlog
from google.protobuf.message import DecodeError

from numaware.node.device_plugin import deviceplugin_pb2 as wire
from numaware.node.device_plugin.offer import Offer, RefusedError
from numaware.twin.state.alloc_response import AllocResponse

VERSION = "v1beta1"
_SERVICE = f"{VERSION}.DevicePlugin"
_OPTIONS = (("grpc.max_receive_message_length", 16 << 20),)
_LONGEST_NAME = 40
_STATUS = {
    "unknown": grpc.StatusCode.NOT_FOUND,
    "unhealthy": grpc.StatusCode.FAILED_PRECONDITION,
    "impossible": grpc.StatusCode.INVALID_ARGUMENT,
}

log = structlog.get_logger("numaware.device-plugin")

Context = grpc.aio.ServicerContext[bytes, bytes]
# Device, inode and time of change: another socket in the same place differs in one of them.
Identity = tuple[int, int, int]


class ResourceServer:
    """Serves one resource; `lost` is called when the kubelet has stopped listening."""

    def __init__(self, offer: Offer, folder: Path, lost: Callable[[], None]) -> None:
        self.name = offer.resource.name
        self.endpoint = f"numaware-{_file_name(self.name)}.sock"
        self.path = folder / self.endpoint
        # The kubelet's socket that was told of this one.
        self.registered: Identity | None = None
        # Outcome -> calls of Allocate.
        self.allocations: Counter[str] = Counter()
        self.registrations = 0
        self.offer = offer
        self._lost = lost
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._identity: Identity | None = None

    async def announce(self, offer: Offer) -> None:
        """Offer something else from now on; the kubelet hears of it if it differs in what is announced."""
        self.offer = offer
        async with self._changed:
            self._changed.notify_all()

    # The socket

    @property
    def listening(self) -> bool:
        """Whether the socket that was made is still there for the kubelet to find."""
        return self._identity is not None and identity(self.path) == self._identity

    async def listen(self) -> None:
        """Make the socket, anew if there was one."""
        await self.close()
        calls: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self._options),
            "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(self._preferred),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._watch),
        }
        # gRPC takes the place of a socket that was left behind, and of nothing else.
        self.path.unlink(missing_ok=True)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, calls),))
        server.add_insecure_port(f"unix://{self.path.absolute()}")
        await server.start()
        self._server, self._identity = server, identity(self.path)

    async def close(self) -> None:
        server, self._server, self._identity, self.registered = self._server, None, None, None
        if server is not None:
            await server.stop(None)

    # What the kubelet calls

    async def _options(self, _: bytes, __: Context) -> bytes:
        return plugin_options().SerializeToString()

    async def _watch(self, _: bytes, __: Context) -> AsyncIterator[bytes]:
        server = self._server
        told: bytes | None = None
        try:
            while True:
                async with self._changed:
                    while (news := _listed(self.offer)) == told:
                        await self._changed.wait()
                told = news
                yield news
        finally:
            # Unless we have closed it, the kubelet is gone, or has dropped us: it has to be told of us again.
            if server is self._server:
                self.registered = None
                self._lost()

    async def _preferred(self, data: bytes, context: Context) -> bytes:
        return await self._answered(self._prefer, data, context)

    async def _allocate(self, data: bytes, context: Context) -> bytes:
        answer = await self._answered(self._give, data, context)
        self.allocations["answered"] += 1
        return answer

    async def _answered(self, answer: Callable[[bytes], bytes], data: bytes, context: Context) -> bytes:
        """The answer, or the one line that the kubelet then writes on the pod."""
        try:
            return answer(data)
        except DecodeError:
            return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{self.name}: not such a request")
        except RefusedError as error:
            if answer == self._give:
                self.allocations[error.cause] += 1
            log.warning("refused", resource=self.name, cause=error.cause, message=str(error))
            return await context.abort(_STATUS[error.cause], str(error))

    def _prefer(self, data: bytes) -> bytes:
        answers = [
            wire.ContainerPreferredAllocationResponse(
                deviceIDs=self.offer.preferred(
                    asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size
                )
            )
            for asked in wire.PreferredAllocationRequest.FromString(data).container_requests
        ]
        return wire.PreferredAllocationResponse(container_responses=answers).SerializeToString()

    def _give(self, data: bytes) -> bytes:
        """All containers of the request, or none."""
        answers = [
            _message(self.offer.allocated(asked.devices_ids))
            for asked in wire.AllocateRequest.FromString(data).container_requests
        ]
        return wire.AllocateResponse(container_responses=answers).SerializeToString()


def _file_name(resource: str) -> str:
    """The resource's name, shortened where it would not fit: the path of a socket has at most 107 letters."""
    name = resource.replace("/", "_")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:23]}-{blake2s(resource.encode(), digest_size=8).hexdigest()}"


def plugin_options() -> wire.DevicePluginOptions:
    return wire.DevicePluginOptions(get_preferred_allocation_available=True)


def identity(path: Path) -> Identity | None:
    """Which socket is at a path; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _listed(offer: Offer) -> bytes:
    """Devices without a NUMA node have no topology at all: a node of -1 would be one that nobody has."""
    return wire.ListAndWatchResponse(
        devices=[
            wire.Device(
                ID=device.id,
                health="Healthy" if device.healthy else "Unhealthy",
                topology=None
                if device.numa is None
                else wire.TopologyInfo(nodes=[wire.NUMANode(ID=device.numa)]),
            )
            for device in offer.listed()
        ]
    ).SerializeToString()


def _message(given: AllocResponse) -> wire.ContainerAllocateResponse:
    return wire.ContainerAllocateResponse(
        envs=given.envs,
        mounts=[
            wire.Mount(container_path=one.container_path, host_path=one.host_path, read_only=one.read_only)
            for one in given.mounts
        ],
        devices=[
            wire.DeviceSpec(
                container_path=one.container_path, host_path=one.host_path, permissions=one.permissions
            )
            for one in given.devices
        ],
        annotations=given.annotations,
        cdi_devices=[wire.CDIDevice(name=name) for name in given.cdi_devices],
    )
