"""A small cluster on the API server of `kube/fake_api_server.py`: its nodes with their topologies, its pods, and a way in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import yaml

from e2e.loop_thread import LoopThread
from kube.fake_api_server import FakeApiServer, fake_api_server
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numaware.kube.topology import publish
from numaware.twin.node import Node
from support.small_clusters import facts_of


def kubeconfig(server: FakeApiServer, folder: Path) -> str:
    path = folder / "kubeconfig"
    named = {"name": "x"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{**named, "cluster": {"server": server.base}}],
        "users": [{**named, "user": {"token": "t"}}],
        "contexts": [{**named, "context": {"cluster": "x", "user": "x"}}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(path)


def add_node(server: FakeApiServer, name: str, twin: Node, *, published: bool = True) -> None:
    amounts = {
        key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in facts_of(name, twin).allocatable
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    server.put(NODES, name, spec={}, status={"allocatable": amounts, "capacity": amounts, **ready})
    if published:
        body = publish.encode(name, twin, 1)
        body.pop("metadata")
        server.put(NODE_RESOURCE_TOPOLOGIES, name, **body)


def add_pod(server: FakeApiServer, name: str, cpus: int, namespace: str = "default", **spec: Any) -> None:
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    container = {"name": "c", "image": "none", "resources": {"limits": amounts, "requests": amounts}}
    server.put(PODS, name, namespace, spec={"schedulerName": "numaware", "containers": [container], **spec})


class ServerThread(LoopThread):
    """The API server in a thread of its own, for commands that run a loop themselves; fill it between commands."""

    def __init__(self) -> None:
        super().__init__("fake API server")
        self.server = FakeApiServer()

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    async def _live(self) -> None:
        async with fake_api_server() as self.server:
            await self._until_stopped()
