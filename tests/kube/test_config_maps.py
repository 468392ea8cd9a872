"""One key of a ConfigMap, written over what was read and nothing newer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server
from numaware.kube import config_maps
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.resources import CONFIG_MAPS


def run(story: Callable[[FakeApiServer, Client], Awaitable[None]]) -> None:
    async def play() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:
            server.put(CONFIG_MAPS, "m", "ns", data={"a/b~c": "old", "other": "kept"}, immutable=False)
            await story(server, client)

    asyncio.run(play())


def test_one_key_changes_and_all_else_stays() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        found = await config_maps.read(client, "m", "ns")
        written = await config_maps.write(client, found, "a/b~c", "new")
        assert written.data == {"a/b~c": "new", "other": "kept"}
        assert server.objects[CONFIG_MAPS.path("ns", "m")]["immutable"] is False
        # What came back can be written again.
        await config_maps.write(client, written, "a/b~c", "newer")

    run(story)


def test_over_what_somebody_else_wrote_nothing_is_written() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        found = await config_maps.read(client, "m", "ns")
        server.put(CONFIG_MAPS, "m", "ns", data={"a/b~c": "theirs"})
        with pytest.raises(ApiError) as caught:
            await config_maps.write(client, found, "a/b~c", "new")
        assert caught.value.conflict
        assert (await config_maps.read(client, "m", "ns")).data == {"a/b~c": "theirs"}

    run(story)


def test_a_write_is_never_sent_twice() -> None:
    """Else a conflict could be one with ourselves."""

    async def story(server: FakeApiServer, client: Client) -> None:
        found = await config_maps.read(client, "m", "ns")
        server.refusals.append(Refusal(0, done=True))
        with pytest.raises(ApiError) as caught:
            await config_maps.write(client, found, "a/b~c", "new")
        assert caught.value.uncertain
        assert [method for method, _, _ in server.calls] == ["GET", "PATCH"]
        assert (await config_maps.read(client, "m", "ns")).data["a/b~c"] == "new"

    run(story)


def test_a_map_without_data_has_none_and_one_that_is_none_cannot_be_read() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(CONFIG_MAPS, "empty", "ns")
        assert (await config_maps.read(client, "empty", "ns")).data == {}
        server.put(CONFIG_MAPS, "odd", "ns", data={"a": 1})
        with pytest.raises(ApiError, match="BadAnswer"):
            await config_maps.read(client, "odd", "ns")

    run(story)
