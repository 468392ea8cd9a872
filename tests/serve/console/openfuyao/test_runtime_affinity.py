"""Runtime pod affinity: one word in an object of openFuyao's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

import pytest

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server
from numaware.kube.client import Client
from numaware.kube.resources import OENUMAS, Resource
from numaware.serve.console.live_cluster import LiveCluster
from numaware.serve.console.openfuyao.runtime_affinity import NAME, NAMESPACE, RuntimeAffinity
from numaware.serve.console.world import RUNTIME, SwitchError
from support.cache_world import Clock, cache_of
from support.volcano_cluster import MeddledClient

NODES = [{"name": "n1", "numa": [{"numaNum": 0, "cpuset": "0-3", "memset": "0"}]}]


@pytest.fixture(autouse=True)
def verbs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the account may do with the object; the small API server knows no rights."""
    allowed = {"get", "patch"}

    async def may_i(_: Client, verb: str, resource: Resource, name: str, namespace: str) -> bool:
        return verb in allowed and (resource, name, namespace) == (OENUMAS, NAME, NAMESPACE)

    monkeypatch.setattr("numaware.serve.console.openfuyao.runtime_affinity.may_i", may_i)
    return allowed


class Scene(NamedTuple):
    server: FakeApiServer
    client: MeddledClient
    part: RuntimeAffinity

    def put(self, word: str | None) -> None:
        spec = {"node": NODES} if word is None else {"node": NODES, "updateenable": word}
        self.server.put(OENUMAS, NAME, NAMESPACE, spec=spec)

    def word_is(self, word: str) -> bool:
        return bool(self.server.objects[OENUMAS.path(NAMESPACE, NAME)]["spec"]["updateenable"] == word)

    @property
    def writes(self) -> int:
        return sum(method == "PATCH" for method, _, _ in self.server.calls)


def run(story: Callable[[Scene], Awaitable[None]], word: str | None = "disable") -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            client = await stack.enter_async_context(MeddledClient(connection(server)))
            snapshot = Scene(server, client, RuntimeAffinity(client))
            snapshot.put(word)
            await story(snapshot)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("word", "status"),
    [("enable", "open"), ("Enable", "open"), ("disable", "close"), ("yes", "close"), (None, "close")],
)
def test_only_one_word_lets_the_plug_in_act(word: str | None, status: str) -> None:
    async def story(snapshot: Scene) -> None:
        await snapshot.part.read()
        assert snapshot.part.switch.status == status

    run(story, word)


@pytest.mark.parametrize("word", ["disable", None])
def test_it_is_opened_and_closed_by_one_write_each_and_all_else_stays(word: str | None) -> None:
    async def story(snapshot: Scene) -> None:
        assert await snapshot.part.move("open", "me") is True
        assert await snapshot.part.move("open", "me") is False
        assert snapshot.word_is("enable")
        assert (
            snapshot.part.switched("open") == snapshot.part.switch.conf == 'spec:\n  updateenable: "enable"\n'
        )
        assert snapshot.part.switched("close") == 'spec:\n  updateenable: "disable"\n'
        assert await snapshot.part.move("close", "me") is True
        assert snapshot.word_is("disable")
        assert snapshot.server.objects[OENUMAS.path(NAMESPACE, NAME)]["spec"]["node"] == NODES
        assert snapshot.writes == 2

    run(story, word)


def test_who_writes_in_between_is_not_written_over() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.client.meddle = [partial(snapshot.put, "off")]
        assert await snapshot.part.move("open", "me") is True
        snapshot.client.meddle = [partial(snapshot.put, word) for word in ["enable"] * 20]
        with pytest.raises(SwitchError, match="keeps writing"):
            await snapshot.part.move("close", "me")

    run(story)


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_is_looked_for(done: bool) -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.client.meddle = [lambda: snapshot.server.refusals.append(Refusal(0, done=done))]
        if done:
            assert await snapshot.part.move("open", "me") is True
        else:
            with pytest.raises(SwitchError, match="API server says"):
                await snapshot.part.move("open", "me")
        assert snapshot.part.switch.status == ("open" if done else "close")

    run(story)


def test_without_the_object_or_the_right_to_read_it_there_is_no_switch() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.refusals.append(Refusal(403))
        await snapshot.part.read()
        assert snapshot.part.switch.locked
        assert "may not get oenumas.resource.sop.huawei.com tcs/podafi" in str(snapshot.part.switch.missing)
        snapshot.server.remove(OENUMAS, NAME, NAMESPACE)
        await snapshot.part.read()
        assert not snapshot.part.switch.locked
        assert "there is no Oenuma tcs/podafi" in str(snapshot.part.switch.missing)
        with pytest.raises(SwitchError):
            await snapshot.part.move("open", "me")

    run(story)


def test_who_may_only_look_sees_how_it_stands_and_which_verb_is_missing(verbs: set[str]) -> None:
    verbs.remove("patch")

    async def story(snapshot: Scene) -> None:
        await snapshot.part.read()
        switch = snapshot.part.switch
        assert (switch.status, switch.locked) == ("open", True)
        assert "may not patch oenumas" in str(switch.missing)
        verbs.add("patch")
        await snapshot.part.read()
        assert not snapshot.part.switch.missing

    run(story, "enable")


def test_an_object_that_makes_no_sense_is_said_to_be_broken() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.put(OENUMAS, NAME, NAMESPACE, spec={"updateenable": 1})
        await snapshot.part.read()
        assert "cannot be read" in str(snapshot.part.switch.broken)

    run(story)


def test_a_world_moves_it_beside_the_others() -> None:
    async def story(snapshot: Scene) -> None:
        clock = Clock()
        world = LiveCluster("prod", cache_of(clock=clock), clock, 1000, (snapshot.part,))
        await asyncio.gather(*(world.read_switches() for _ in range(3)))
        assert [bool(one.missing) for one in world.switches] == [True, True, False]
        assert len(snapshot.server.calls) == 1
        assert (await world.set_switch(RUNTIME, "open", "me")).status == "open"
        assert [(change.switch, change.after) for change in world.changes] == [(RUNTIME, "open")]
        with pytest.raises(SwitchError, match="only looks"):
            await world.set_switch("numaaware", "open", "me")

    run(story)
