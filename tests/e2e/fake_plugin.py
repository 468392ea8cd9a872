"""A device plugin that announces devices on NUMA nodes and hands them out without a word."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

wire: Any = grpc.protos("e2e/protos/deviceplugin.proto")


class FakePlugin:
    """`devices` is id -> NUMA nodes; the plugin has to be registered again after each start of the kubelet.

    It does not say which devices it would like a container to have.
    """

    prefers = False

    def __init__(self, folder: Path, resource: str, devices: Mapping[str, tuple[int, ...]]) -> None:
        self.folder = folder
        self.resource = resource
        self.devices = dict(devices)
        self._endpoint = resource.replace("/", "-") + ".sock"
        self._changed = threading.Condition()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def register(self) -> None:
        """Listen, and tell the kubelet; it removes all sockets when it starts."""
        self._close()
        self._ended = False
        self._server = grpc.server(ThreadPoolExecutor(4))
        calls: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda *_: b""),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._watch),
            "Allocate": grpc.unary_unary_rpc_method_handler(_allocate),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", calls),)
        )
        self._server.add_insecure_port(f"unix://{self.folder / self._endpoint}")
        self._server.start()
        request = wire.RegisterRequest(
            version="v1beta1", endpoint=self._endpoint, resource_name=self.resource
        ).SerializeToString()
        with grpc.insecure_channel(f"unix://{self.folder / 'kubelet.sock'}") as channel:
            channel.unary_unary("/v1beta1.Registration/Register")(request, timeout=10, wait_for_ready=True)

    def announce(self, devices: Mapping[str, tuple[int, ...]]) -> None:
        """Other devices from now on."""
        with self._changed:
            self.devices = dict(devices)
            self._changed.notify_all()

    def _watch(self, _: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        told: dict[str, tuple[int, ...]] | None = None
        while context.is_active():
            with self._changed:
                if self.devices == told and not self._ended:
                    self._changed.wait(timeout=1)
                if self._ended:
                    return
                if self.devices == told:
                    continue
                told = dict(self.devices)
            yield wire.ListAndWatchResponse(
                devices=[
                    wire.Device(
                        ID=name,
                        health="Healthy",
                        topology=wire.TopologyInfo(nodes=[wire.NumaNode(ID=node) for node in nodes])
                        if nodes
                        else None,
                    )
                    for name, nodes in sorted(told.items())
                ]
            ).SerializeToString()

    def _close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if hasattr(self, "_server"):
            self._server.stop(None).wait()


def _allocate(data: bytes, _: grpc.ServicerContext) -> bytes:
    asked = wire.AllocateRequest.FromString(data).container_requests
    answer: bytes = wire.AllocateResponse(
        container_responses=[wire.AllocateResponse.Container() for _ in asked]
    ).SerializeToString()
    return answer
