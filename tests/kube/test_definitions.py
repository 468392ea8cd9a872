"""A kind that is not defined yet: it is watched for, and noticed as soon as it is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server, until
from numaware.kube.client import Client
from numaware.kube.definitions import missing_text, waiting_for
from numaware.kube.reflector import Reflector
from numaware.kube.resources import (
    DEFINITIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_TRAFFICS,
    NUMATOPOLOGIES,
    OENUMAS,
    WHITELISTS,
)

ROOT = Path(__file__).parents[2]
NAME = "noderesourcetopologies.topology.node.k8s.io"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
SERVED = {"versions": [{"name": "v1alpha2", "served": True}]}


def play(story: Callable[[FakeApiServer, Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:
            await story(server, client)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("others.example.com", {"spec": SERVED, "status": ESTABLISHED}),
        (NAME, {"spec": SERVED}),
        (NAME, {"spec": {"versions": [{"name": "v1alpha1", "served": True}]}, "status": ESTABLISHED}),
        (NAME, {"spec": {"versions": [{"name": "v1alpha2", "served": False}]}, "status": ESTABLISHED}),
        (NAME, {"spec": 7}),
    ],
)
def test_only_the_definition_that_serves_the_version_ends_the_wait(name: str, fields: dict[str, Any]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(DEFINITIONS, name, **fields)
        waiting = asyncio.create_task(waiting_for(client, NODE_RESOURCE_TOPOLOGIES)())
        await server.watched()
        assert not waiting.done()
        server.put(DEFINITIONS, NAME, spec=SERVED, status=ESTABLISHED)
        await waiting

    play(story)


def test_a_reflector_goes_on_as_soon_as_its_kind_is_there() -> None:
    told: list[bool] = []

    async def story(server: FakeApiServer, client: Client) -> None:
        server.missing.add(NODE_RESOURCE_TOPOLOGIES.path())
        reflector = Reflector(
            client,
            NODE_RESOURCE_TOPOLOGIES,
            bytes,
            on_missing=told.append,
            until_defined=waiting_for(client, NODE_RESOURCE_TOPOLOGIES),
        )
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        await server.watched()
        assert told == [True]
        server.missing.clear()
        server.put(NODE_RESOURCE_TOPOLOGIES, "n1")
        server.put(DEFINITIONS, NAME, spec=SERVED, status=ESTABLISHED)
        await until(lambda: "n1" in reflector.items)
        assert told == [True, False]
        task.cancel()
        await asyncio.wait((task,))

    play(story)


def test_what_is_missing_is_named_with_the_command_that_ends_it() -> None:
    assert missing_text(NODE_RESOURCE_TOPOLOGIES).endswith(
        "kubectl apply -f deploy/crd/noderesourcetopology.yaml"
    )
    for kind in (NODE_TRAFFICS, OENUMAS, WHITELISTS):
        file = ROOT / missing_text(kind).rpartition(" ")[2]
        assert f"name: {kind.plural}.{kind.group}" in file.read_text(encoding="utf-8")
    assert "Numatopology (nodeinfo.volcano.sh/v1alpha1)" in missing_text(NUMATOPOLOGIES)
