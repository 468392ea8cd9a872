"""A Volcano scheduler without Volcano: its map, its Deployment, and a controller that makes its pods ready or does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from kube.fake_api_server import FakeApiServer, Object, connection, fake_api_server
from numaware.kube.client import Client
from numaware.kube.deployments import RESTARTED_AT
from numaware.kube.resources import CONFIG_MAPS, DEPLOYMENTS, Resource
from numaware.serve.console.openfuyao.volcano import DEPLOYMENT, Volcano
from numaware.serve.console.openfuyao.volcano_conf import KEY, MAP, NAMESPACE

CONF = """\
actions: "enqueue, allocate, backfill"  # by hand
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
OPEN = CONF + "  - name: numa-aware\n"
MAP_PATH = CONFIG_MAPS.path(NAMESPACE, MAP)
DEPLOYMENT_PATH = DEPLOYMENTS.path(NAMESPACE, DEPLOYMENT)


class VolcanoServer(FakeApiServer):
    """Its Deployment starts anew at once. `stuck` pods never become ready; `gives_up` then says so."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = False
        self.gives_up = False
        self.restarts: list[str | None] = []

    @property
    def text(self) -> str:
        found: str = self.objects[MAP_PATH]["data"][KEY]
        return found

    @property
    def restarted_at(self) -> str | None:
        found: str | None = _annotation(self.objects[DEPLOYMENT_PATH])
        return found

    def install(self, text: str = CONF, *, restarted_at: str | None = None) -> None:
        """What Volcano's chart installs."""
        self.put(CONFIG_MAPS, MAP, NAMESPACE, data={KEY: text, "other": "kept"}, immutable=False)
        annotations = {RESTARTED_AT: restarted_at} if restarted_at else {}
        template = {"metadata": {"labels": {"app": DEPLOYMENT}, "annotations": annotations}}
        self.put(DEPLOYMENTS, DEPLOYMENT, NAMESPACE, spec={"replicas": 1, "template": template})
        self.restarts.clear()

    def writes(self, resource: Resource) -> int:
        """How often objects of a kind were written to."""
        return sum(method != "GET" and f"/{resource.plural}/" in path for method, path, _ in self.calls)

    def _write(self, path: str, body: Object) -> Object:
        if path == DEPLOYMENT_PATH:
            old = self.objects.get(path)
            if old is None or _annotation(old) != _annotation(body):
                self.restarts.append(_annotation(body))
                generation = 1 + (old["metadata"]["generation"] if old else 0)
                body["metadata"]["generation"] = generation
                body["status"] = self._status(generation)
        return super()._write(path, body)

    def _status(self, generation: int) -> Object:
        # The pods from before the first restart are those it comes back to.
        bad = self.stuck and len(self.restarts) == 1
        failed = {"type": "Progressing", "status": "False", "message": "timed out progressing"}
        return {
            "observedGeneration": generation,
            "replicas": 2 if bad else 1,
            "updatedReplicas": 1,
            "availableReplicas": 1,
            "conditions": [failed] if bad and self.gives_up else [],
        }


def _annotation(deployment: Object) -> Any:
    return deployment["spec"]["template"]["metadata"].get("annotations", {}).get(RESTARTED_AT)


class MeddledClient(Client):
    """Somebody else writes just before each write of ours, as long as they have something to write."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.meddle: list[Callable[[], None]] = []

    async def patch(
        self, resource: Resource, name: str, body: object, namespace: str = "", **more: Any
    ) -> bytes:
        if self.meddle:
            self.meddle.pop(0)()
        return await super().patch(resource, name, body, namespace, **more)


class Time:
    """Passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[Callable[[], None]] = []

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        if self.slept:
            self.slept.pop(0)()


class Scene:
    """The server, a client, and the switch on them."""

    def __init__(self, server: VolcanoServer, client: MeddledClient) -> None:
        self.server = server
        self.client = client
        self.time = Time()
        self.volcano = Volcano(
            client, patience=20.0, clock=self.time.clock, now=self.time.now, sleep=self.time.sleep
        )


@asynccontextmanager
async def volcano_scene() -> AsyncIterator[Scene]:
    server = VolcanoServer()
    async with fake_api_server(server=server), MeddledClient(connection(server)) as client:
        yield Scene(server, client)


Story = Callable[[Scene], Awaitable[None]]
