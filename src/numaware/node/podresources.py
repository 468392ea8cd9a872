"""What the kubelet says every container holds, and what there is to hold: its PodResources service, version 1.

The kubelet listens on a unix socket that is not there while it restarts, and may accept a call and never answer it: each
call has a time limit and each answer a size limit. Kubelets before v1.21 cannot be asked what is allocatable, those before
v1.23 only behind a gate: that is None, which is not the same as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

import grpc
import msgspec
from google.protobuf.message import DecodeError

from numaware.machine.cpuset import CpuSet
from numaware.machine.words import printable
from numaware.node import podresources_pb2 as wire

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_SERVICE = "/v1.PodResourcesLister"
_SECONDS = 5.0
# Ten thousand pods with hundreds of CPUs each stay below this.
_MOST_BYTES = 32 << 20
_MOST_PODS = 20_000
# The most NUMA nodes a Linux kernel can be built for.
_LARGEST_NODE = 1023
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    # A kubelet is back in a second or two; gRPC would wait up to two minutes before it looks again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # One agent, one kubelet: nothing to share connections with.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)
_DISABLED = "disabled"

Cause = Literal["unavailable", "timeout", "refused", "garbage"]
T = TypeVar("T")


class PodResourcesError(Exception):
    """The kubelet gave no usable answer; `cause` is the same word for the same trouble."""

    def __init__(self, cause: Cause, message: str) -> None:
        self.cause = cause
        super().__init__(message)


class Devices(msgspec.Struct, frozen=True):
    """Devices of one resource that lie on the same NUMA nodes; no nodes means the plugin named none."""

    resource: str
    ids: tuple[str, ...]
    nodes: tuple[int, ...] = ()


class Memory(msgspec.Struct, frozen=True):
    """Memory or huge pages (`kind` is the resource's name) out of a group of NUMA nodes."""

    kind: str
    size: int
    nodes: tuple[int, ...] = ()


class ContainerHoldings(msgspec.Struct, frozen=True):
    """What one container has for itself; `cpus` are exclusive ones only."""

    name: str
    cpus: CpuSet = CpuSet()
    devices: tuple[Devices, ...] = ()
    memory: tuple[Memory, ...] = ()


def held_cpus(containers: Iterable[ContainerHoldings]) -> CpuSet:
    """All CPUs that containers have for themselves."""
    return CpuSet.union(container.cpus for container in containers)


class PodHoldings(msgspec.Struct, frozen=True):
    """The containers of one pod; the kubelet gives no uid here."""

    namespace: str
    name: str
    containers: tuple[ContainerHoldings, ...] = ()


class Allocatable(msgspec.Struct, frozen=True):
    """All that could be handed out, in use or not: reserved CPUs and memory are no part of it."""

    cpus: CpuSet
    devices: tuple[Devices, ...] = ()
    memory: tuple[Memory, ...] = ()


class PodResources:
    """The service at a socket; the connection is made when first asked and again whenever it was lost."""

    def __init__(self, socket: Path = SOCKET, seconds: float = _SECONDS) -> None:
        self.socket = socket
        self._seconds = seconds
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(f"unix://{self.socket.absolute()}", options=_OPTIONS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def pods(self) -> tuple[PodHoldings, ...]:
        """Every pod that is active on the node, by namespace and name."""
        answer = await self._call("List", wire.ListPodResourcesRequest().SerializeToString())
        return _decoded("List", answer, _pods)

    async def allocatable(self) -> Allocatable | None:
        """What can be handed out; None from a kubelet that does not tell."""
        try:
            answer = await self._call(
                "GetAllocatableResources", wire.AllocatableResourcesRequest().SerializeToString()
            )
        except _NotOfferedError:
            return None
        return _decoded("GetAllocatableResources", answer, _allocatable)

    async def _call(self, name: str, request: bytes) -> bytes:
        if self._channel is None:
            raise RuntimeError("used outside its `async with`")
        # Plain bytes both ways, so that an answer that is no message is told from a call that failed.
        call = self._channel.unary_unary(f"{_SERVICE}/{name}", _as_is, _as_is)
        try:
            return await call(request, timeout=self._seconds)
        except grpc.aio.AioRpcError as error:
            details = printable(error.details() or "", 300)
            status = error.code()
            if status is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise PodResourcesError(
                    "timeout", f"{self.socket}: no answer to {name} in {self._seconds:g} s"
                ) from None
            if status is grpc.StatusCode.UNAVAILABLE:
                raise PodResourcesError("unavailable", f"{self.socket}: {details}") from None
            message = f"{self.socket}: {name} was answered with {status.name}: {details}"
            # Kubelets v1.21 and v1.22 have the call behind a gate, and say so in words only.
            if status is grpc.StatusCode.UNIMPLEMENTED or _DISABLED in details:
                raise _NotOfferedError("refused", message) from None
            raise PodResourcesError("refused", message) from None


class _NotOfferedError(PodResourcesError):
    """The kubelet does not have this call."""


def _as_is(data: bytes) -> bytes:
    return data


def _decoded(name: str, data: bytes, read: Callable[[bytes], T]) -> T:
    try:
        return read(data)
    except (DecodeError, ValueError) as error:
        raise PodResourcesError(
            "garbage", f"the answer to {name} cannot be read: {printable(str(error), 300)}"
        ) from None


def _pods(data: bytes) -> tuple[PodHoldings, ...]:
    listed = wire.ListPodResourcesResponse.FromString(data).pod_resources
    if len(listed) > _MOST_PODS:
        raise ValueError(f"{len(listed)} pods are more than the {_MOST_PODS} that are looked at")
    pods = [
        PodHoldings(
            pod.namespace,
            pod.name,
            tuple(
                ContainerHoldings(
                    container.name,
                    CpuSet(container.cpu_ids),
                    _devices(container.devices),
                    _memory(container.memory),
                )
                for container in pod.containers
            ),
        )
        for pod in listed
    ]
    return tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))


def _allocatable(data: bytes) -> Allocatable:
    answer = wire.AllocatableResourcesResponse.FromString(data)
    return Allocatable(CpuSet(answer.cpu_ids), _devices(answer.devices), _memory(answer.memory))


def _devices(entries: Iterable[wire.ContainerDevices]) -> tuple[Devices, ...]:
    """One entry for each resource and set of NUMA nodes, sorted: the kubelet lists them as its maps come.

    A device that belongs to two nodes stands there twice, once under each; it is one device all the same.
    """
    nodes_of: dict[tuple[str, str], set[int]] = {}
    for entry in entries:
        nodes = _nodes(entry.topology)
        for device in entry.device_ids:
            nodes_of.setdefault((entry.resource_name, device), set()).update(nodes)
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (resource, device), known in sorted(nodes_of.items()):
        groups.setdefault((resource, tuple(sorted(known))), []).append(device)
    return tuple(Devices(resource, tuple(ids), nodes) for (resource, nodes), ids in sorted(groups.items()))


def _memory(entries: Iterable[wire.ContainerMemory]) -> tuple[Memory, ...]:
    blocks = [Memory(entry.memory_type, entry.size, _nodes(entry.topology)) for entry in entries]
    return tuple(sorted(blocks, key=lambda block: (block.kind, block.nodes, block.size)))


def _nodes(topology: wire.TopologyInfo) -> tuple[int, ...]:
    """NUMA ids, ascending; -1 is how some plugins say that they know of none."""
    nodes = sorted({node.ID for node in topology.nodes if node.ID >= 0})
    if nodes and nodes[-1] > _LARGEST_NODE:
        raise ValueError(f"{nodes[-1]} is no NUMA node")
    return tuple(nodes)
