"""Volumes are bound before their pod: what is written, what is waited for, and when waiting is pointless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kube.fake_api_server import FakeApiServer, fake_api_server
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from numaware.kube.storage import decode_claim, decode_volume
from numaware.schedule.storage import Storage
from numaware.serve.volume_binding import VolumeBinder
from numaware.workload.scheduling import NodeTerm, Requirement
from numaware.workload.storage import VolumePlan
from support.live_cluster import kubeconfig
from support.live_objects import raw

CLAIM = ("default", "c")
STATIC = VolumePlan("n1", ((CLAIM, "v"),))
PROVISIONED = VolumePlan("n1", (), (CLAIM,))

Then = Callable[[Storage], None]


class World:
    """A claim and a volume, on a server and in the storage; `then` happens while the binder waits."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.storage = Storage()
        self.told: list[str] = []
        metadata = {"name": "c", "namespace": "default"}
        self.storage.put(
            decode_claim(
                raw(server.put(PERSISTENT_VOLUME_CLAIMS, "c", "default", metadata=metadata, spec={}))
            )
        )
        self.storage.put(
            decode_volume(raw(server.put(PERSISTENT_VOLUMES, "v", metadata={"name": "v"}, spec={})))
        )

    async def bind(
        self, folder: Path, plan: VolumePlan, *then: Then, wanted: bool = True, patience: float = 1.0
    ) -> str:
        steps, now = list(then), [0.0]

        async def sleep(seconds: float) -> None:
            now[0] += seconds
            if steps:
                steps.pop(0)(self.storage)

        async with Client(await connect(kubeconfig(self.server, folder), None)) as client:
            binder = VolumeBinder(
                client,
                self.storage,
                {"n1": {"zone": "a"}}.get,
                clock=lambda: now[0],
                seconds=patience,
                sleep=sleep,
            )
            return await binder.bind(plan, lambda: wanted, self.told.append)

    def claim(self) -> Any:
        return self.server.objects[PERSISTENT_VOLUME_CLAIMS.path("default", "c")]

    def volume(self) -> Any:
        return self.server.objects[PERSISTENT_VOLUMES.path("", "v")]


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with fake_api_server() as server:
            await story(World(server))

    asyncio.run(run())


def is_bound(storage: Storage) -> None:
    storage.put(replace(storage.claims[CLAIM], volume="v", bound=True))


def test_a_volume_that_is_there_is_promised_to_the_claim(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert not await world.bind(tmp_path, STATIC, lambda _: None, is_bound)
        volume = world.volume()
        assert volume["spec"]["claimRef"]["uid"] == world.storage.claims[CLAIM].uid
        assert volume["spec"]["claimRef"]["namespace"] == "default"
        assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}

    play(story)


def test_a_claim_to_be_provisioned_gets_the_node(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert not await world.bind(tmp_path, PROVISIONED, is_bound)
        assert world.claim()["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": "n1"}

    play(story)


@pytest.mark.parametrize(("patience", "told"), [(1.0, []), (60.0, ["claims default/c, default/d"])])
def test_who_waits_for_long_says_once_for_what(tmp_path: Path, patience: float, told: list[str]) -> None:
    async def story(world: World) -> None:
        metadata = {"name": "d", "namespace": "default"}
        made = world.server.put(PERSISTENT_VOLUME_CLAIMS, "d", "default", metadata=metadata, spec={})
        world.storage.put(decode_claim(raw(made)))
        plan = VolumePlan("n1", (), (CLAIM, ("default", "d")))
        assert "were not bound within" in await world.bind(tmp_path, plan, patience=patience)
        assert world.told == told

    play(story)


def test_a_volume_is_provisioned_where_the_node_can_have_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert not await world.bind(tmp_path, PROVISIONED, in_zone("a"))

    play(story)


def in_zone(zone: str) -> Then:
    """The claim is bound to a volume in that zone."""

    def then(storage: Storage) -> None:
        affinity = (NodeTerm((Requirement("zone", "In", (zone,)),)),)
        storage.put(replace(storage.volumes["v"], name="w", affinity=affinity))
        storage.put(replace(storage.claims[CLAIM], volume="w", bound=True))

    return then


def selected(storage: Storage, node: str = "n1") -> None:
    storage.put(replace(storage.claims[CLAIM], selected_node=node))


@pytest.mark.parametrize(
    ("plan", "then", "problem"),
    [
        (PROVISIONED, (), "not bound within 1 s"),
        (PROVISIONED, (selected, lambda storage: selected(storage, "")), "could not be provisioned"),
        (PROVISIONED, (lambda storage: storage.drop(storage.claims[CLAIM]),), "claim default/c is gone"),
        (STATIC, (lambda storage: storage.drop(storage.claims[CLAIM]),), "claim default/c is gone"),
        (STATIC, (lambda storage: storage.drop(storage.volumes["v"]),), "volume v is gone"),
        (
            STATIC,
            (lambda storage: storage.put(replace(storage.volumes["v"], claim=("default", "another"))),),
            "volume v was given to another claim",
        ),
        (PROVISIONED, (in_zone("b"),), "volume w cannot be had on n1"),
        (STATIC, (in_zone("b"),), "volume w cannot be had on n1"),
    ],
)
def test_waiting_ends_when_it_is_pointless(
    tmp_path: Path, plan: VolumePlan, then: tuple[Then, ...], problem: str
) -> None:
    async def story(world: World) -> None:
        assert problem in await world.bind(tmp_path, plan, *then)

    play(story)


def test_nobody_waits_for_a_pod_that_is_gone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert await world.bind(tmp_path, PROVISIONED, wanted=False)

    play(story)


def test_what_somebody_else_has_written_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.server.put(PERSISTENT_VOLUMES, "v", metadata={"name": "v"}, spec={"claimRef": {"name": "x"}})
        assert await world.bind(tmp_path, STATIC)
        assert world.volume()["spec"]["claimRef"] == {"name": "x"}
        world.storage.drop(world.storage.claims[CLAIM])
        assert await world.bind(tmp_path, PROVISIONED)

    play(story)


def test_what_is_written_already_is_not_written_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        storage = world.storage
        storage.put(replace(storage.claims[CLAIM], selected_node="n1"))
        storage.put(
            replace(
                storage.volumes["v"], claim=CLAIM, claim_uid=storage.claims[CLAIM].uid, version="outdated"
            )
        )
        assert not await world.bind(tmp_path, PROVISIONED, is_bound)
        assert not await world.bind(tmp_path, STATIC)
        assert "annotations" not in world.claim()["metadata"]

    play(story)
