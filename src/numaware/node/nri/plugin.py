"""An NRI plug-in: registers with the container runtime, answers it at once, and changes running containers.

Both generations of the protocol are spoken: one call that tells every change of state, and the calls of their own that
replace it from v0.12 on. The runtime drops a plug-in that is slow and fails a container whose plug-in answers with an error,
so whoever uses this answers from what he knows already (`Resident`), and an exception of his becomes an answer that changes
nothing, and so does half of the runtime's patience without an answer. `run` comes back when the runtime goes;
`numaware.node.affinity` calls it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

import msgspec
import structlog
from google.protobuf.message import DecodeError

from numaware.node.nri import nri_pb2 as wire
from numaware.node.nri import ttrpc
from numaware.node.nri.mux import Mux, WireError
from numaware.node.nri.ttrpc import CallError

log = structlog.get_logger("numaware.agent")

PLUGIN_STREAM, RUNTIME_STREAM = 1, 2
_RUNTIME = "nri.pkg.api.v1alpha1.Runtime"
_PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
# Pods that run, stop or are removed; containers that are created, updated, stopped or removed. Valid in every release.
EVENTS = 0x1 | 0x2 | 0x4 | 0x8 | 0x80 | 0x200 | 0x400
_POD_REMOVED, _CONTAINER_REMOVED = 3, 11
_TOLD_OF_PODS = ("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox")
_ONLY_TOLD = (
    "PostUpdatePodSandbox",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "PostUpdateContainer",
    "RemoveContainer",
)
_SECONDS = 5.0
# A runtime that does not say how long it waits for an answer waits for two seconds.
_PATIENCE_MS = 2000
_PREFERRED = 1
# A runtime changes one container after the other, each by a program of its own, and makes none meanwhile.
_MOST_UPDATES, _SECONDS_OF_UPDATES = 20, 60.0


class Sandbox(msgspec.Struct, frozen=True):
    """A pod as the runtime knows it."""

    id: str
    uid: str
    namespace: str
    name: str
    network: str = ""
    addresses: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class RunningContainer(msgspec.Struct, frozen=True):
    """A container and the CPUs and memory nodes it has, as lists; empty where nobody has set any."""

    id: str
    sandbox: str
    name: str
    cpus: str = ""
    mems: str = ""
    cgroup: str = ""
    pid: int = 0


class CpusAndMems(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a container shall have; an empty list leaves it as it is.

    `preferred` are memory nodes that new pages come from as long as there is room. It is for a container that is being
    made, as processes that run keep the policy they have; runtimes that know no memory policies do without.
    """

    cpus: str = ""
    mems: str = ""
    preferred: str = ""


Changes = dict[str, CpusAndMems]


class Resident(Protocol):
    """Who lives in the plug-in, called in a thread of its own, one call at a time. All of it is answered from memory, at once.

    What fails or takes too long changes nothing.
    """

    def synchronized(self, sandboxes: list[Sandbox], containers: list[RunningContainer]) -> Changes:
        """All that runs; what shall be changed of it."""

    def created(self, sandbox: Sandbox, container: RunningContainer) -> CpusAndMems | None:
        """A container that is being made; what it shall have instead."""

    def updated(
        self, sandbox: Sandbox, container: RunningContainer, wanted: CpusAndMems
    ) -> CpusAndMems | None:
        """Somebody, mostly the kubelet, changes a container; what it shall have instead."""

    def removed(self, sandbox: str, container: str) -> None:
        """A container is gone, or, where that is empty, a pod."""


class Plugin:
    """One plug-in; `counts` tells calls and failures by method."""

    def __init__(self, resident: Resident, *, name: str = "numaware", index: str = "90") -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.runtime = ""
        self.synchronized = asyncio.Event()
        self._resident = resident
        self._name = name
        self._index = index
        self._parts: tuple[list[Sandbox], list[RunningContainer]] = ([], [])
        self._client: ttrpc.Client | None = None
        self._thread = ThreadPoolExecutor(1, "nri")
        self._patience = _PATIENCE_MS / 2000
        self._knows_memory_policies = False

    async def run(self, socket: str) -> None:
        """Register and serve until the runtime goes (`WireError`) or refuses (`CallError`); OSError if it is not there."""
        reader, writer = await asyncio.open_unix_connection(socket)
        mux = Mux(reader, writer)
        mux.open(PLUGIN_STREAM)
        mux.open(RUNTIME_STREAM)
        client = self._client = ttrpc.Client(mux, RUNTIME_STREAM)
        try:
            async with asyncio.TaskGroup() as group:
                # The runtime may configure us before it has answered the registration.
                group.create_task(mux.run())
                group.create_task(client.run())
                group.create_task(ttrpc.serve(mux, PLUGIN_STREAM, self._answer))
                request = wire.RegisterPluginRequest(plugin_name=self._name, plugin_idx=self._index)
                await client.call(_RUNTIME, "RegisterPlugin", request.SerializeToString(), _SECONDS)
        except* (WireError, CallError, TimeoutError) as errors:
            raise errors.exceptions[0] from None
        finally:
            self._client = None
            self.synchronized.clear()
            writer.close()

    async def update(self, changes: Changes) -> tuple[str, ...]:
        """Change running containers; those that could not be changed. `WireError` where no runtime is there."""
        client = self._client
        if client is None or not self.synchronized.is_set():
            raise WireError("no runtime is connected")
        failed: list[str] = []
        wanted = sorted(changes.items())
        for begin in range(0, len(wanted), _MOST_UPDATES):
            request = wire.UpdateContainersRequest(update=_updates(wanted[begin : begin + _MOST_UPDATES]))
            data = request.SerializeToString()
            answered = await client.call(_RUNTIME, "UpdateContainers", data, _SECONDS_OF_UPDATES)
            try:
                answer = wire.UpdateContainersResponse.FromString(answered)
            except DecodeError as error:
                raise WireError(f"an answer that cannot be read: {error}") from None
            failed += [update.container_id for update in answer.failed]
        return tuple(failed)

    async def _answer(self, service: str, method: str, payload: bytes) -> bytes | None:
        """Never an error, and never late: it would fail somebody's container."""
        handler = getattr(self, f"_on_{method}", None) if service == _PLUGIN else None
        if handler is None and method not in _ONLY_TOLD and method not in _TOLD_OF_PODS:
            return None
        self.counts[method, "called"] += 1
        try:
            answering = asyncio.get_running_loop().run_in_executor(
                self._thread, handler or partial(self._told, method), payload
            )
            # What waits behind a slow one is still told, as it happens whether we answer or not.
            answered: bytes = await asyncio.wait_for(asyncio.shield(answering), self._patience)
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody's container may fail for it
            self.counts[method, "failed"] += 1
            log.warning(
                "no answer for the container runtime, nothing is changed", method=method, error=repr(error)
            )
            return b""
        finally:
            if method == "Synchronize" and self._parts == ([], []):
                self.synchronized.set()
        return answered

    def _on_Configure(self, payload: bytes) -> bytes:  # noqa: N802 - as the protocol names it, here and below
        request = wire.ConfigureRequest.FromString(payload)
        self.runtime = f"{request.runtime_name} {request.runtime_version}".strip()
        self._patience = (request.request_timeout or _PATIENCE_MS) / 2000
        # Both are there since v0.12.
        self._knows_memory_policies = bool(request.nri_version)
        self._parts = ([], [])
        return wire.ConfigureResponse(events=EVENTS).SerializeToString()

    def _on_Synchronize(self, payload: bytes) -> bytes:  # noqa: N802
        request = wire.SynchronizeRequest.FromString(payload)
        sandboxes, containers = self._parts
        sandboxes += map(_sandbox, request.pods)
        containers += map(_container, request.containers)
        if request.more:
            return wire.SynchronizeResponse(more=True).SerializeToString()
        self._parts = ([], [])
        changes = self._resident.synchronized(sandboxes, containers)
        log.info("the container runtime has told what runs", runtime=self.runtime, containers=len(containers))
        return wire.SynchronizeResponse(update=_updates(sorted(changes.items()))).SerializeToString()

    def _on_CreateContainer(self, payload: bytes) -> bytes:  # noqa: N802
        request = wire.CreateContainerRequest.FromString(payload)
        change = self._resident.created(_sandbox(request.pod), _container(request.container))
        response = wire.CreateContainerResponse()
        if change is not None:
            response.adjust.linux.resources.cpu.CopyFrom(_cpu(change))
            if change.preferred and self._knows_memory_policies:
                policy = wire.LinuxMemoryPolicy(mode=_PREFERRED, nodes=change.preferred)
                response.adjust.linux.memory_policy.CopyFrom(policy)
        return response.SerializeToString()

    def _on_UpdateContainer(self, payload: bytes) -> bytes:  # noqa: N802
        request = wire.UpdateContainerRequest.FromString(payload)
        container = _container(request.container)
        cpu = request.linux_resources.cpu
        wanted = CpusAndMems(cpu.cpus, cpu.mems)
        change = self._resident.updated(_sandbox(request.pod), container, wanted)
        updates = [] if change is None else _updates([(container.id, change)])
        return wire.UpdateContainerResponse(update=updates).SerializeToString()

    def _on_StopContainer(self, payload: bytes) -> bytes:  # noqa: N802
        request = wire.ContainerEvent.FromString(payload)
        self._resident.removed(request.pod.id, request.container.id)
        return b""

    def _on_StateChange(self, payload: bytes) -> bytes:  # noqa: N802
        request = wire.StateChangeEvent.FromString(payload)
        if request.event in (_POD_REMOVED, _CONTAINER_REMOVED):
            container = request.container.id if request.event == _CONTAINER_REMOVED else ""
            self._resident.removed(request.pod.id, container)
        return b""

    def _on_Shutdown(self, _: bytes) -> bytes:  # noqa: N802
        return b""

    def _told(self, method: str, payload: bytes) -> bytes:
        if method == "RemovePodSandbox":
            self._resident.removed(wire.PodEvent.FromString(payload).pod.id, "")
        elif method == "RemoveContainer":
            request = wire.ContainerEvent.FromString(payload)
            self._resident.removed(request.pod.id, request.container.id)
        return b""


def _sandbox(pod: wire.PodSandbox) -> Sandbox:
    networks = (one.path for one in pod.linux.namespaces if one.type == "network")
    return Sandbox(
        pod.id,
        pod.uid,
        pod.namespace,
        pod.name,
        next(networks, ""),
        tuple(pod.ips),
        dict(pod.labels),
        dict(pod.annotations),
    )


def _container(container: wire.Container) -> RunningContainer:
    cpu = container.linux.resources.cpu
    return RunningContainer(
        container.id,
        container.pod_sandbox_id,
        container.name,
        cpu.cpus,
        cpu.mems,
        container.linux.cgroups_path,
        container.pid,
    )


def _cpu(change: CpusAndMems) -> wire.LinuxCPU:
    return wire.LinuxCPU(cpus=change.cpus, mems=change.mems)


def _updates(changes: Iterable[tuple[str, CpusAndMems]]) -> list[wire.ContainerUpdate]:
    """A container that has gone meanwhile is no failure of the others."""
    updates = []
    for container, change in changes:
        update = wire.ContainerUpdate(container_id=container)
        update.linux.resources.cpu.CopyFrom(_cpu(change))
        updates.append(update)
    return updates
