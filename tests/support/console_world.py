"""A console on the lab at a moment that never changes, and a client that needs no socket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from starlette.testclient import TestClient

from numaware.serve.authentication import TokenAuthentication
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import application
from numaware.serve.console.lab.world import HOUR, LabWorld, lab_cluster
from numaware.serve.guard import LOOPBACK, Authentication
from numaware.simulate.pod_churn import pod_of
from numaware.twin.account import free_memory

NOW = 1_800_000_000_000
STEP = 30_000


def console(*, seed: int = 1, nodes: int | None = None) -> Console:
    """The lab after its first hour, written down every half minute."""
    spec = lab_cluster()
    if nodes is not None:
        spec = msgspec.structs.replace(spec, nodes=spec.nodes[:nodes])
    world = LabWorld(NOW - HOUR, seed=seed, spec=spec)
    found = Console(world, lambda: world.now)
    for moment in range(NOW - HOUR, NOW + 1, STEP):
        world.advance(moment)
        found.recorder.record()
    return found


def lopsided_console() -> Console:
    """The lab before its first pod, but for one on gpu-5 that has nearly all memory of NUMA 0 and few of its CPUs."""
    world = LabWorld(NOW, spec=lab_cluster())
    free = free_memory(world.cluster.by_name["gpu-5"].node)[0] >> 30
    cache = pod_of("data/cache", "cache", {"cpu": "2", "memory": f"{free - 60}Gi"})
    assert world.cluster.bind(cache, "gpu-5").admitted
    return Console(world, lambda: world.now)


@lru_cache(maxsize=1)
def shared_console() -> Console:
    """One for all tests that change nothing."""
    return console()


def client(
    found: Console | None = None, *, token: str | None = None, gate: Authentication | None = None
) -> TestClient:
    """A client of the console; whatever it answers with, it raises nothing."""
    app = application(
        found or shared_console(), names=LOOPBACK, gate=gate if token is None else TokenAuthentication(token)
    )
    return TestClient(app, base_url="http://127.0.0.1:8080", raise_server_exceptions=False)


def get(path: str, **query: str) -> Any:
    """The JSON of a call that has to succeed."""
    answer = client().get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(path: str, body: Mapping[str, Any]) -> Any:
    """The same for a question with a body."""
    answer = client().post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()
