"""Slices of DRA drivers as the agent's metrics tell of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from kube.fake_api_server import FakeApiServer, fake_api_server, until
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.resources import RESOURCE_SLICES
from numaware.node.dra_devices import DraDevices
from numaware.node.troubles import Troubles
from support.live_cluster import kubeconfig

Story = Callable[[FakeApiServer, DraDevices, Troubles], Awaitable[None]]


def play(folder: Path, story: Story, *, forbidden: bool = False, missing: bool = False) -> None:
    async def run() -> None:
        async with fake_api_server() as server:
            path = RESOURCE_SLICES.path()
            (server.forbidden if forbidden else server.missing if missing else set()).add(path)
            async with Client(await connect(kubeconfig(server, folder), None)) as client:
                troubles = Troubles()
                devices = DraDevices("n0", client, troubles)
                task = asyncio.create_task(devices.run())
                try:
                    await story(server, devices, troubles)
                finally:
                    task.cancel()
                    await asyncio.wait((task,))

    asyncio.run(run())


def publish(server: FakeApiServer, name: str, node: str, *devices: tuple[str, int | None]) -> None:
    """The slice of a driver; a device without a number is on no NUMA node that it knows of."""
    where = "resource.kubernetes.io/numaNode"
    listed = [
        {"name": device, "attributes": {} if numa is None else {where: {"int": numa}}}
        for device, numa in devices
    ]
    pool = {"name": node, "generation": 1}
    server.put(
        RESOURCE_SLICES, name, spec={"driver": "d.io", "nodeName": node, "pool": pool, "devices": listed}
    )


def told(devices: DraDevices) -> dict[tuple[str, ...], float]:
    return {labels: number for family in devices.families() for labels, number in family.samples}


def test_devices_of_the_node_are_counted_where_their_driver_says_that_they_are(tmp_path: Path) -> None:
    async def story(server: FakeApiServer, devices: DraDevices, troubles: Troubles) -> None:
        publish(server, "s", "n0", ("d0", 0), ("d1", 1), ("d2", 1), ("d3", None))
        publish(server, "other", "n1", ("d0", 0))
        await until(lambda: bool(told(devices)))
        assert told(devices) == {("d.io", ""): 1, ("d.io", "0"): 1, ("d.io", "1"): 2}
        server.remove(RESOURCE_SLICES, "s")
        await until(lambda: not told(devices))
        assert not troubles.current

    play(tmp_path, story)


def test_a_server_without_dra_is_no_trouble_and_one_that_forbids_it_is(tmp_path: Path) -> None:
    async def calm(server: FakeApiServer, devices: DraDevices, troubles: Troubles) -> None:
        await until(lambda: any("resourceslices" in where for _, where, _ in server.calls))
        assert (told(devices), dict(troubles.current)) == ({}, {})

    async def refused(_: FakeApiServer, devices: DraDevices, troubles: Troubles) -> None:
        await until(lambda: "slices" in troubles.current)
        assert told(devices) == {}
        assert troubles.current["slices"][0] == "unwatched"

    play(tmp_path, calm, missing=True)
    play(tmp_path, refused, forbidden=True)
