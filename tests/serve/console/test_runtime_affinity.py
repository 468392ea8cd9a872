"""Runtime pod affinity: one word in an object of openFuyao's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

import pytest

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server
from numaware.kube.resources import OENUMAS
from numaware.serve.console.livecluster import LiveCluster
from numaware.serve.console.runtime_affinity import NAME, NAMESPACE, RuntimeAffinity
from numaware.serve.console.world import RUNTIME, SwitchError
from truth_world import Clock, truth_of
from volcano_cluster import MeddledClient

NODES = [{"name": "n1", "numa": [{"numaNum": 0, "cpuset": "0-3", "memset": "0"}]}]


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
            scene = Scene(server, client, RuntimeAffinity(client))
            scene.put(word)
            await story(scene)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("word", "status"),
    [("enable", "open"), ("Enable", "open"), ("disable", "close"), ("yes", "close"), (None, "close")],
)
def test_only_one_word_lets_the_plug_in_act(word: str | None, status: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.part.read()
        assert scene.part.switch.status == status

    run(story, word)


@pytest.mark.parametrize("word", ["disable", None])
def test_it_is_opened_and_closed_by_one_write_each_and_all_else_stays(word: str | None) -> None:
    async def story(scene: Scene) -> None:
        assert await scene.part.move("open", "me") is True
        assert await scene.part.move("open", "me") is False
        assert scene.word_is("enable")
        assert scene.part.switched("open") == scene.part.switch.conf == 'spec:\n  updateenable: "enable"\n'
        assert scene.part.switched("close") == 'spec:\n  updateenable: "disable"\n'
        assert await scene.part.move("close", "me") is True
        assert scene.word_is("disable")
        assert scene.server.objects[OENUMAS.path(NAMESPACE, NAME)]["spec"]["node"] == NODES
        assert scene.writes == 2

    run(story, word)


def test_who_writes_in_between_is_not_written_over() -> None:
    async def story(scene: Scene) -> None:
        scene.client.meddle = [partial(scene.put, "off")]
        assert await scene.part.move("open", "me") is True
        scene.client.meddle = [partial(scene.put, word) for word in ["enable"] * 20]
        with pytest.raises(SwitchError, match="keeps writing"):
            await scene.part.move("close", "me")

    run(story)


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_is_looked_for(done: bool) -> None:
    async def story(scene: Scene) -> None:
        scene.client.meddle = [lambda: scene.server.refusals.append(Refusal(0, done=done))]
        if done:
            assert await scene.part.move("open", "me") is True
        else:
            with pytest.raises(SwitchError, match="API server says"):
                await scene.part.move("open", "me")
        assert scene.part.switch.status == ("open" if done else "close")

    run(story)


def test_without_the_object_or_the_right_to_read_it_there_is_no_switch() -> None:
    async def story(scene: Scene) -> None:
        scene.server.refusals.append(Refusal(403))
        await scene.part.read()
        assert "may not read" in scene.part.switch.missing
        scene.server.remove(OENUMAS, NAME, NAMESPACE)
        await scene.part.read()
        assert "not installed" in scene.part.switch.missing
        with pytest.raises(SwitchError):
            await scene.part.move("open", "me")

    run(story)


def test_an_object_that_makes_no_sense_is_said_to_be_broken() -> None:
    async def story(scene: Scene) -> None:
        scene.server.put(OENUMAS, NAME, NAMESPACE, spec={"updateenable": 1})
        await scene.part.read()
        assert "cannot be read" in scene.part.switch.broken

    run(story)


def test_a_world_moves_it_beside_the_others() -> None:
    async def story(scene: Scene) -> None:
        clock = Clock()
        world = LiveCluster("prod", truth_of(clock=clock), clock, 1000, (scene.part,))
        await asyncio.gather(*(world.read_switches() for _ in range(3)))
        assert [bool(one.missing) for one in world.switches] == [True, True, False]
        assert len(scene.server.calls) == 1
        assert (await world.set_switch(RUNTIME, "open", "me")).status == "open"
        assert [(change.switch, change.after) for change in world.changes] == [(RUNTIME, "open")]
        with pytest.raises(SwitchError, match="only looks"):
            await world.set_switch("numaaware", "open", "me")

    run(story)
