"""A container runtime that runs nothing: it remembers what the kubelet told it to run, and says that it does.

Enough for a real kubelet to admit pods, keep its state files and answer PodResources. A container whose command is `exit`
ends well at once, all others run until they are stopped.

A program of its own (`python fake_cri.py SOCKET`): the tests are clients of gRPC in the manner of asyncio, and that library
does not take well to a busy server with threads in the same process.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

# Made from the .proto file when the tests run: nobody but they needs these messages.
wire: Any = grpc.protos("e2e/protos/cri.proto")

_READY, _NOT_READY = 0, 1
_CREATED, _RUNNING, _EXITED = 0, 1, 2


class FakeCri:
    """The runtime at a socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.sandboxes: dict[str, Any] = {}
        self.containers: dict[str, Any] = {}
        self.configs: dict[str, Any] = {}
        self._owner: dict[str, str] = {}
        self._count = itertools.count(1)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._server = grpc.server(ThreadPoolExecutor(4))
        for service, calls in (
            ("runtime.v1.RuntimeService", self._runtime_calls()),
            ("runtime.v1.ImageService", self._image_calls()),
        ):
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, calls),))
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()

    def _runtime_calls(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        return {
            "Version": self._call(wire.Empty, self._version),
            "Status": self._call(wire.Empty, self._status),
            "RunPodSandbox": self._call(wire.RunPodSandboxRequest, self._run_sandbox),
            "StopPodSandbox": self._call(wire.Id, self._stop_sandbox),
            "RemovePodSandbox": self._call(wire.Id, self._remove_sandbox),
            "PodSandboxStatus": self._call(wire.Id, self._sandbox_status),
            "ListPodSandbox": self._call(wire.ListPodSandboxRequest, self._list_sandboxes),
            "CreateContainer": self._call(wire.CreateContainerRequest, self._create),
            "StartContainer": self._call(wire.Id, self._start),
            "StopContainer": self._call(wire.Id, self._stop),
            "RemoveContainer": self._call(wire.Id, self._remove),
            "ListContainers": self._call(wire.ListContainersRequest, self._list_containers),
            "ContainerStatus": self._call(wire.Id, self._container_status),
            "UpdateContainerResources": self._call(wire.Empty, lambda _: wire.Empty()),
            "ReopenContainerLog": self._call(wire.Id, lambda _: wire.Empty()),
            "UpdateRuntimeConfig": self._call(wire.Empty, lambda _: wire.Empty()),
            "ListContainerStats": self._call(wire.Empty, lambda _: wire.Empty()),
            "ListPodSandboxStats": self._call(wire.Empty, lambda _: wire.Empty()),
        }

    def _image_calls(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        return {
            "ListImages": self._call(wire.Empty, lambda _: wire.ListImagesResponse()),
            "ImageStatus": self._call(wire.ImageStatusRequest, self._image),
            "ImageFsInfo": self._call(wire.Empty, lambda _: wire.Empty()),
        }

    def _call(self, request: Any, answer: Callable[[Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
        def handle(asked: Any, context: grpc.ServicerContext) -> Any:
            try:
                with self._lock:
                    return answer(asked)
            except KeyError as error:
                return context.abort(grpc.StatusCode.NOT_FOUND, f"no such thing: {error}")

        return grpc.unary_unary_rpc_method_handler(
            handle, request.FromString, lambda found: found.SerializeToString()
        )

    def _version(self, _: Any) -> Any:
        return wire.VersionResponse(
            version="0.1.0", runtime_name="fake", runtime_version="1.0.0", runtime_api_version="v1"
        )

    def _status(self, _: Any) -> Any:
        ready = [wire.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        return wire.StatusResponse(status=wire.RuntimeStatus(conditions=ready))

    def _image(self, asked: Any) -> Any:
        return wire.ImageStatusResponse(
            image=wire.Image(id=asked.image.image, repo_tags=[asked.image.image], size=1)
        )

    def _run_sandbox(self, asked: Any) -> Any:
        name = f"sandbox-{next(self._count)}"
        config = asked.config
        self.sandboxes[name] = wire.Sandbox(
            id=name,
            metadata=config.metadata,
            state=_READY,
            created_at=time.time_ns(),
            labels=config.labels,
            annotations=config.annotations,
        )
        return wire.Id(id=name)

    def _stop_sandbox(self, asked: Any) -> Any:
        if asked.id in self.sandboxes:
            self.sandboxes[asked.id].state = _NOT_READY
            for name in self.containers:
                if self._owner[name] == asked.id:
                    self._end(name)
        return wire.Empty()

    def _remove_sandbox(self, asked: Any) -> Any:
        self.sandboxes.pop(asked.id, None)
        for name in [name for name, owner in self._owner.items() if owner == asked.id]:
            self._forget(name)
        return wire.Empty()

    def _sandbox_status(self, asked: Any) -> Any:
        found = self.sandboxes[asked.id]
        return wire.PodSandboxStatusResponse(
            status=wire.SandboxStatus(
                id=found.id,
                metadata=found.metadata,
                state=found.state,
                created_at=found.created_at,
                network=wire.NetworkStatus(ip=self._address(found.id)),
                labels=found.labels,
                annotations=found.annotations,
            )
        )

    def _address(self, _: str) -> str:
        """Of a pod, by its sandbox."""
        return "127.0.0.1"

    def _list_sandboxes(self, asked: Any) -> Any:
        return wire.ListPodSandboxResponse(
            items=[one for one in self.sandboxes.values() if _matches(one, asked.filter)]
        )

    def _create(self, asked: Any) -> Any:
        name = f"container-{next(self._count)}"
        config = asked.config
        self.configs[name] = config
        self.containers[name] = wire.ContainerStatus(
            id=name,
            metadata=config.metadata,
            state=_CREATED,
            created_at=time.time_ns(),
            image=config.image,
            image_ref=config.image.image,
            image_id=config.image.image,
            labels=config.labels,
            annotations=config.annotations,
            # The kubelet clears away the log of a container that is gone: without a path, whatever is near.
            log_path=f"{self.socket.parent}/logs/{name}.log",
        )
        self._owner[name] = asked.pod_sandbox_id
        return wire.Id(id=name)

    def _start(self, asked: Any) -> Any:
        container = self.containers[asked.id]
        container.state, container.started_at = _RUNNING, time.time_ns()
        if list(self.configs[asked.id].command) == ["exit"]:
            self._end(asked.id)
        return wire.Empty()

    def _stop(self, asked: Any) -> Any:
        if asked.id in self.containers:
            self._end(asked.id)
        return wire.Empty()

    def _remove(self, asked: Any) -> Any:
        self._forget(asked.id)
        return wire.Empty()

    def _end(self, name: str) -> None:
        container = self.containers[name]
        if container.state != _EXITED:
            container.state, container.finished_at, container.reason = _EXITED, time.time_ns(), "Completed"

    def _forget(self, name: str) -> None:
        self.containers.pop(name, None)
        self.configs.pop(name, None)
        self._owner.pop(name, None)

    def _list_containers(self, asked: Any) -> Any:
        listed = [
            wire.Container(
                id=one.id,
                pod_sandbox_id=self._owner[one.id],
                metadata=one.metadata,
                image=one.image,
                image_ref=one.image_ref,
                image_id=one.image_id,
                state=one.state,
                created_at=one.created_at,
                labels=one.labels,
                annotations=one.annotations,
            )
            for one in self.containers.values()
        ]
        return wire.ListContainersResponse(
            containers=[
                one
                for one in listed
                if _matches(one, asked.filter) and asked.filter.pod_sandbox_id in ("", one.pod_sandbox_id)
            ]
        )

    def _container_status(self, asked: Any) -> Any:
        return wire.ContainerStatusResponse(status=self.containers[asked.id])


def _matches(one: Any, wanted: Any) -> bool:
    return (
        wanted.id in ("", one.id)
        and (not wanted.HasField("state") or wanted.state.state == one.state)
        and all(one.labels.get(name) == text for name, text in wanted.label_selector.items())
    )


def main() -> None:
    """Serve until killed."""
    with FakeCri(Path(sys.argv[1])):
        threading.Event().wait()


if __name__ == "__main__":
    main()
