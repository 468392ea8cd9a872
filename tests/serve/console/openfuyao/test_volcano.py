"""Moving the switch of a live cluster: what is written and restarted, how often, and what happens when it goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from kube.fake_api_server import Refusal, until
from numaware.kube.resources import CONFIG_MAPS, DEPLOYMENTS
from numaware.serve.console.live_cluster import LiveCluster
from numaware.serve.console.openfuyao.volcano import DEPLOYMENT
from numaware.serve.console.openfuyao.volcano_conf import KEY, MAP, NAMESPACE
from numaware.serve.console.world import AFFINITY, Progress, SwitchError
from support.cache_world import Clock, cache_of
from support.volcano_cluster import (
    CONF,
    DEPLOYMENT_PATH,
    MAP_PATH,
    OPEN,
    Scene,
    Story,
    VolcanoServer,
    volcano_scene,
)

FIRST = "2026-01-01T00:00:00.000000Z"


def run(story: Story, text: str | None = CONF, restarted_at: str | None = None) -> None:
    async def play() -> None:
        async with volcano_scene() as snapshot:
            if text is not None:
                snapshot.server.install(text, restarted_at=restarted_at)
            await story(snapshot)

    asyncio.run(play())


def rewrite(server: VolcanoServer, text: str) -> None:
    """Somebody else writes the map."""
    server.put(CONFIG_MAPS, MAP, NAMESPACE, data={KEY: text})


def test_opening_writes_the_map_once_and_restarts_the_scheduler_once() -> None:
    async def story(snapshot: Scene) -> None:
        assert await snapshot.volcano.move("open", "me") is True
        assert snapshot.server.text == OPEN
        assert snapshot.server.objects[MAP_PATH]["data"]["other"] == "kept"
        assert snapshot.server.objects[MAP_PATH]["immutable"] is False
        assert snapshot.server.restarts == [FIRST]
        assert snapshot.volcano.switch.status == "open"
        assert snapshot.volcano.switch.progress is None

    run(story)


@pytest.mark.parametrize(("text", "status"), [(OPEN, "open"), (CONF, "close")])
def test_what_stands_there_already_is_neither_written_nor_restarted(text: str, status: str) -> None:
    async def story(snapshot: Scene) -> None:
        assert await snapshot.volcano.move("open" if status == "open" else "close", "me") is False
        assert snapshot.server.writes(CONFIG_MAPS) == snapshot.server.writes(DEPLOYMENTS) == 0

    run(story, text)


def test_open_and_close_give_back_every_byte_and_restart_twice() -> None:
    async def story(snapshot: Scene) -> None:
        await snapshot.volcano.move("open", "me")
        snapshot.time.seconds += 1
        await snapshot.volcano.move("close", "me")
        assert snapshot.server.text == CONF
        assert len(snapshot.server.restarts) == 2

    run(story)


def test_undoing_a_close_brings_the_arguments_back_too() -> None:
    text = CONF.replace(
        "  - name: nodeorder", "  - name: numa-aware # ours\n    arguments: {weight: 7}\n  - name: nodeorder"
    )

    async def story(snapshot: Scene) -> None:
        await snapshot.volcano.move("close", "me")
        assert snapshot.server.text == CONF
        assert snapshot.volcano.switched("open") == text
        await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == text
        # Somebody edits it: what was there once says nothing about that.
        rewrite(snapshot.server, CONF + "# new\n")
        await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == OPEN + "# new\n"

    run(story, text)


# Others


def test_a_write_in_between_is_kept_and_ours_comes_on_top() -> None:
    async def story(snapshot: Scene) -> None:
        changed = CONF.replace("gang", "gang-2")
        snapshot.client.meddle = [partial(rewrite, snapshot.server, changed)]
        assert await snapshot.volcano.move("open", "me") is True
        assert snapshot.server.text == OPEN.replace("gang", "gang-2")
        assert snapshot.server.restarts == [snapshot.server.restarted_at]

    run(story)


def test_who_is_overtaken_by_the_same_wish_restarts_nothing() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.client.meddle = [partial(rewrite, snapshot.server, OPEN)]
        assert await snapshot.volcano.move("open", "me") is False
        assert snapshot.server.restarts == []

    run(story)


def test_one_who_never_stops_writing_wins() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.client.meddle = [partial(rewrite, snapshot.server, f"{CONF}# {n}\n") for n in range(50)]
        with pytest.raises(SwitchError, match="keeps writing"):
            await snapshot.volcano.move("open", "me")
        assert snapshot.server.restarts == []
        assert len(snapshot.client.meddle) > 30

    run(story)


def test_while_it_is_being_moved_nobody_else_moves_it() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.delay = 0.05
        first = asyncio.create_task(snapshot.volcano.move("open", "me"))
        await asyncio.sleep(0)
        assert snapshot.volcano.switch.progress == Progress("writing")
        with pytest.raises(SwitchError, match="already") as caught:
            await snapshot.volcano.move("close", "you")
        assert caught.value.busy
        assert await first is True
        assert snapshot.server.text == OPEN

    run(story)


# Trouble with the server


def lose_writes(snapshot: Scene, *, done: bool) -> None:
    """The next write reaches the server, or does not; nobody is told."""
    snapshot.client.meddle = [lambda: snapshot.server.refusals.append(Refusal(0, done=done))]


def test_a_write_whose_answer_is_lost_counts_if_it_is_there() -> None:
    async def story(snapshot: Scene) -> None:
        lose_writes(snapshot, done=True)
        assert await snapshot.volcano.move("open", "me") is True
        assert snapshot.server.text == OPEN
        assert snapshot.server.restarts == [FIRST]

    run(story)


def test_a_write_that_never_arrived_is_told_and_restarts_nothing() -> None:
    async def story(snapshot: Scene) -> None:
        lose_writes(snapshot, done=False)
        with pytest.raises(SwitchError, match="API server says"):
            await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == CONF
        assert snapshot.server.restarts == []

    run(story)


def test_without_its_deployment_nothing_is_written() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.remove(DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        with pytest.raises(SwitchError, match="not found"):
            await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == CONF

    run(story)


def test_a_deployment_that_is_paused_would_not_restart_so_nothing_is_written() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.objects[DEPLOYMENT_PATH]["spec"]["paused"] = True
        with pytest.raises(SwitchError, match="paused"):
            await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == CONF

    run(story)


# Putting back


@pytest.mark.parametrize("earlier", [None, "2025-12-31T10:00:00Z"])
@pytest.mark.parametrize("gives_up", [False, True])
def test_a_scheduler_that_does_not_come_up_is_put_back_with_its_map(
    earlier: str | None, gives_up: bool
) -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.stuck = True
        snapshot.server.gives_up = gives_up
        with pytest.raises(SwitchError, match="put back as it was") as caught:
            await snapshot.volcano.move("open", "me")
        assert caught.value.undone
        assert ("timed out progressing" in str(caught.value)) is gives_up
        assert snapshot.server.text == CONF
        assert snapshot.server.restarts == [FIRST, earlier]
        assert snapshot.volcano.switch.status == "close"
        assert snapshot.time.seconds < (1 if gives_up else 25)

    run(story, restarted_at=earlier)


def test_how_far_it_is_can_be_seen_on_the_way() -> None:
    seen: list[Progress | None] = []

    async def story(snapshot: Scene) -> None:
        snapshot.server.stuck = True
        snapshot.time.slept = [lambda: seen.append(snapshot.volcano.switch.progress)] * 100
        with pytest.raises(SwitchError):
            await snapshot.volcano.move("open", "me")
        assert seen[0] == Progress("restarting", 0, 1)

    run(story)


def test_a_map_that_somebody_changed_meanwhile_is_not_put_back() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.stuck = True
        snapshot.time.slept = [partial(rewrite, snapshot.server, OPEN + "# mine\n")]
        with pytest.raises(SwitchError, match="somebody else has changed"):
            await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == OPEN + "# mine\n"
        assert snapshot.server.restarts == [FIRST, None]

    run(story)


def test_a_scheduler_that_somebody_restarted_meanwhile_is_left_to_them() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.stuck = True

        def restart() -> None:
            template = snapshot.server.objects[DEPLOYMENT_PATH]["spec"]["template"]
            template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "theirs"

        snapshot.time.slept = [restart]
        with pytest.raises(SwitchError, match="put back"):
            await snapshot.volcano.move("open", "me")
        assert snapshot.server.text == CONF
        assert snapshot.server.restarted_at == "theirs"

    run(story)


def test_a_server_that_is_away_for_a_moment_does_not_undo_anything() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.stuck = True

        def recover() -> None:
            snapshot.server.refusals += [Refusal(500)] * 3
            snapshot.server.objects[DEPLOYMENT_PATH]["status"]["replicas"] = 1

        snapshot.time.slept = [recover]
        assert await snapshot.volcano.move("open", "me") is True
        assert snapshot.server.restarts == [FIRST]

    run(story)


# Reading


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda server: server.remove(CONFIG_MAPS, MAP, NAMESPACE), "not installed"),
        (lambda server: server.put(CONFIG_MAPS, MAP, NAMESPACE), "is empty"),
        (lambda server: server.put(CONFIG_MAPS, MAP, NAMESPACE, data={KEY: ""}), "is empty"),
        (lambda server: server.put(CONFIG_MAPS, MAP, NAMESPACE, data={KEY: "tiers: ["}), "broken YAML"),
        (lambda server: server.put(CONFIG_MAPS, MAP, NAMESPACE, data={KEY: {"a": 1}}), "cannot be read"),
        (lambda server: server.refusals.append(Refusal(400)), "cannot be read"),
    ],
)
def test_what_is_wrong_with_the_map_is_said_and_nothing_is_written(
    spoil: Callable[[VolcanoServer], object], said: str
) -> None:
    async def story(snapshot: Scene) -> None:
        spoil(snapshot.server)
        await snapshot.volcano.read()
        assert said in str(snapshot.volcano.switch.broken)
        if "400" not in str(snapshot.volcano.switch.broken):
            with pytest.raises(SwitchError):
                await snapshot.volcano.move("open", "me")
        assert snapshot.server.writes(CONFIG_MAPS) == snapshot.server.writes(DEPLOYMENTS) == 0

    run(story)


def test_who_may_not_read_the_map_has_no_switch() -> None:
    async def story(snapshot: Scene) -> None:
        snapshot.server.refusals.append(Refusal(403))
        await snapshot.volcano.read()
        assert "may not read" in str(snapshot.volcano.switch.missing)

    run(story)


# As a world


def world_of(snapshot: Scene, clock: Clock | None = None) -> LiveCluster:
    clock = clock or Clock()
    return LiveCluster("prod", cache_of(clock=clock), clock, 1000, (snapshot.volcano,))


def test_a_world_remembers_what_was_switched_and_by_whom() -> None:
    async def story(snapshot: Scene) -> None:
        world = world_of(snapshot)
        await world.read_switches()
        assert [bool(one.missing) for one in world.switches] == [False, True, True]
        assert world.switched_conf(AFFINITY, "open") == OPEN
        assert (await world.set_switch(AFFINITY, "open", "me")).status == "open"
        assert (await world.set_switch(AFFINITY, "open", "me")).status == "open"
        (change,) = world.changes
        assert (change.switch, change.before, change.after, change.by) == (AFFINITY, "close", "open", "me")
        assert [event.kind for event in world.events] == ["switched"]

    run(story)


def test_a_change_that_was_put_back_is_remembered_with_its_reason() -> None:
    async def story(snapshot: Scene) -> None:
        world = world_of(snapshot)
        snapshot.server.stuck = True
        with pytest.raises(SwitchError):
            await world.set_switch(AFFINITY, "open", "me")
        (change,) = world.changes
        assert "put back" in str(change.problem)
        assert world.switches[0].status == "close"

    run(story)


def test_who_hangs_up_does_not_stop_what_was_begun() -> None:
    async def story(snapshot: Scene) -> None:
        world = world_of(snapshot)
        snapshot.server.delay = 0.02
        asked = asyncio.create_task(world.set_switch(AFFINITY, "open", "me"))
        await until(lambda: world.switches[0].progress is not None)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        while world.switches[0].progress is not None:  # noqa: ASYNC110 - ends with what it waits for
            await asyncio.sleep(0.01)
        assert snapshot.server.text == OPEN
        assert len(world.changes) == 1

    run(story)


def test_many_who_look_ask_the_server_once_a_second() -> None:
    async def story(snapshot: Scene) -> None:
        clock = Clock()
        world = world_of(snapshot, clock)
        for _ in range(5):
            await world.read_switches()
        assert len(snapshot.server.calls) == 1
        rewrite(snapshot.server, OPEN)
        clock.now += 1
        await world.read_switches()
        assert world.switches[0].status == "open"

    run(story)
