from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from kube.fake_api_server import (
    FakeApiServer,
    Refusal,
    connection,
    event,
    fake_api_server,
    seeded,
    until,
)
from kube.reflected import Thing, Told, decode
from numaware.kube.client import Client
from numaware.kube.reflector import Reflector
from numaware.kube.resources import NODES, PODS, Resource


@asynccontextmanager
async def reflecting(
    server: FakeApiServer, resource: Resource = NODES, **options: Any
) -> AsyncGenerator[tuple[Reflector[Thing], Told], None]:
    told = Told()
    async with Client(connection(server), dice=seeded()) as client:
        reflector = Reflector(
            client,
            resource,
            decode,
            on_change=told.change,
            on_problem=told.problem,
            on_trouble=told.trouble,
            dice=seeded(),
            sleep=options.pop("sleep", told.sleep),
            **options,
        )
        task = asyncio.create_task(reflector.run())
        try:
            yield reflector, told
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def run(story: Callable[[FakeApiServer], Awaitable[None]]) -> None:
    async def play() -> None:
        async with fake_api_server() as server:
            await story(server)

    asyncio.run(play())


def sizes(reflector: Reflector[Thing]) -> dict[str, int]:
    return {key: thing.size for key, thing in reflector.items.items()}


def test_what_is_there_is_listed_in_pages_and_what_changes_follows_in_order() -> None:
    async def story(server: FakeApiServer) -> None:
        for number in range(5):
            server.put(PODS, f"p{number}", "ns", size=number + 1)
        async with reflecting(server, PODS, page=2) as (reflector, told):
            await reflector.synced.wait()
            assert sizes(reflector) == {f"ns/p{number}": number + 1 for number in range(5)}
            await server.watched()
            server.put(PODS, "p0", "ns", size=9)
            server.remove(PODS, "p1", "ns")
            server.put(PODS, "new", "other", size=7)
            await until(lambda: len(told.changes) == 8)
            assert told.changes[5:] == [
                ("modified", "ns/p0"),
                ("deleted", "ns/p1"),
                ("added", "other/new"),
            ]
            assert reflector.lists == 1

    run(story)


def test_after_a_cut_the_watch_goes_on_where_it_was() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a")
        async with reflecting(server) as (reflector, told):
            await server.watched()
            server.cut()
            server.put(NODES, "b")
            server.remove(NODES, "a")
            await until(lambda: list(reflector.items) == ["b"])
            assert reflector.lists == 1
            assert told.changes == [("added", "a"), ("added", "b"), ("deleted", "a")]

    run(story)


def test_a_bookmark_moves_the_watch_along_so_that_forgotten_history_does_no_harm() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a")
        async with reflecting(server) as (reflector, _):
            await server.watched()
            server.put(PODS, "busy", "ns")
            server.bookmark()
            server.compact()
            await until(lambda: reflector._version == str(server.revision))
            server.cut()
            server.put(NODES, "b")
            await until(lambda: "b" in reflector.items)
            assert reflector.lists == 1

    run(story)


@pytest.mark.parametrize("by_event", [False, True])
def test_a_version_too_old_is_answered_by_a_new_list_and_only_the_difference_is_told(by_event: bool) -> None:
    async def story(server: FakeApiServer) -> None:
        for name in ("stays", "changes", "goes", "is-replaced"):
            server.put(NODES, name)
        async with reflecting(server) as (reflector, told):
            await server.watched()
            watchers, server.watchers = server.watchers, []
            server.put(NODES, "changes", size=2)
            server.remove(NODES, "goes")
            server.remove(NODES, "is-replaced")
            server.put(NODES, "is-replaced")
            server.put(NODES, "comes")
            server.compact()
            told.changes.clear()
            server.watchers = watchers
            if by_event:
                server.say(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))
            else:
                server.cut()
            await until(lambda: reflector.lists == 2 and "goes" not in reflector.items)
            assert sorted(told.changes) == [
                ("added", "comes"),
                ("added", "is-replaced"),
                ("deleted", "goes"),
                ("deleted", "is-replaced"),
                ("modified", "changes"),
            ]
            assert told.problems == [] or not by_event

    run(story)


def test_repeats_and_old_news_change_nothing() -> None:
    async def story(server: FakeApiServer) -> None:
        first = dict(server.put(NODES, "a", size=1))
        async with reflecting(server) as (reflector, told):
            await server.watched()
            second = server.put(NODES, "a", size=2)
            server.put(NODES, "gone")
            gone = server.objects[NODES.path(name="gone")]
            server.remove(NODES, "gone")
            for stale in (event("MODIFIED", first), event("MODIFIED", second), event("ADDED", gone)):
                server.say(stale)
            server.say(event("DELETED", first))
            server.put(NODES, "last")
            await until(lambda: "last" in reflector.items)
            assert sizes(reflector) == {"a": 2, "last": 1}
            assert told.changes[1:] == [
                ("modified", "a"),
                ("added", "gone"),
                ("deleted", "gone"),
                ("added", "last"),
            ]

    run(story)


def test_an_object_that_cannot_be_read_is_told_once_a_version_and_stays_what_it_was() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "good", size=4)
        server.put(NODES, "bad", size="many")
        async with reflecting(server) as (reflector, told):
            await server.watched()
            assert sizes(reflector) == {"good": 4}
            server.put(NODES, "good", size="lots")
            await until(lambda: len(told.problems) == 2)
            assert told.problems == [("bad", "size is 'many'"), ("good", "size is 'lots'")]
            assert sizes(reflector) == {"good": 4}
            assert set(reflector.problems) == {"bad", "good"}
            server.compact()
            server.put(NODES, "more")
            server.compact()
            server.say(event("ERROR", {"code": 410}))
            await until(lambda: "more" in reflector.items)
            assert len(told.problems) == 2
            await server.watched(2)
            server.put(NODES, "good", size=5)
            server.remove(NODES, "bad")
            await until(lambda: not reflector.problems)
            assert sizes(reflector) == {"good": 5, "more": 1}

    run(story)


def test_an_unreadable_object_that_took_the_name_of_another_does_not_keep_the_other_alive() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a", size=4)
        async with reflecting(server) as (reflector, told):
            await server.watched()
            watchers, server.watchers = server.watchers, []
            server.remove(NODES, "a")
            server.put(NODES, "a", size="many")
            server.compact()
            server.watchers = watchers
            server.cut()
            await until(lambda: "a" in reflector.problems)
            assert told.changes == [("added", "a"), ("deleted", "a")]

    run(story)


def test_what_is_none_of_ours_is_absent_also_if_it_was_ours_before() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a", size=0)
        server.put(NODES, "b", size=1)
        async with reflecting(server) as (reflector, told):
            await server.watched()
            server.put(NODES, "b", size=0)
            server.put(NODES, "a", size=3)
            await until(lambda: sizes(reflector) == {"a": 3})
            assert told.changes == [("added", "b"), ("deleted", "b"), ("added", "a")]

    run(story)


def test_a_change_that_does_not_matter_is_not_told() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a", size=3, heartbeat=1)
        async with reflecting(server) as (reflector, told):
            await server.watched()
            server.put(NODES, "a", size=3, heartbeat=2)
            server.put(NODES, "b")
            await until(lambda: "b" in reflector.items)
            assert told.changes == [("added", "a"), ("added", "b")]

    run(story)


def test_a_kind_that_is_not_installed_has_no_objects_and_is_looked_for_again() -> None:
    async def story(server: FakeApiServer) -> None:
        server.missing.add(NODES.path())
        again = asyncio.Event()
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await again.wait()

        async with reflecting(server, sleep=sleep) as (reflector, told):
            await reflector.synced.wait()
            assert (dict(reflector.items), told.problems, waits) == ({}, [], [60.0])
            server.missing.clear()
            server.put(NODES, "a")
            again.set()
            await until(lambda: "a" in reflector.items)

    run(story)


def test_a_kind_that_is_removed_loses_its_objects_but_not_at_the_first_doubt() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a")
        async with reflecting(server) as (reflector, told):
            await server.watched()
            server.missing.add(NODES.path())
            server.cut()
            await until(lambda: not reflector.items)
            missing = [path for method, path, _ in server.calls if path == NODES.path()]
            assert len(missing) >= 2 + 3
            assert told.changes == [("added", "a"), ("deleted", "a")]

    run(story)


def test_failures_are_followed_by_longer_and_longer_waits_and_told_once() -> None:
    async def story(server: FakeApiServer) -> None:
        server.refusals += [Refusal(403, "Forbidden")] * 12
        async with reflecting(server) as (reflector, told):
            await reflector.synced.wait()
            assert (told.problems, told.troubles) == ([], ["403 Forbidden: as told"])
            assert len(told.waits) == 12
            assert all(wait <= min(30, 0.25 * 2**n) for n, wait in enumerate(told.waits))
            assert max(told.waits) > 8
            assert reflector.problems == {}

    run(story)


def test_where_listing_is_allowed_and_watching_is_not_the_waits_grow_too() -> None:
    async def story(server: FakeApiServer) -> None:
        server.watch_refusals += [Refusal(403, "Forbidden")] * 12
        async with reflecting(server) as (_, told):
            await server.watched()
            assert len(told.waits) == 12
            assert max(told.waits) > 8

    run(story)


def test_a_server_that_comes_back_without_its_history_at_the_same_address_is_found_again() -> None:
    async def play() -> None:
        async with fake_api_server() as before:
            before.put(NODES, "a")
            before.put(NODES, "b")
            port = int(before.base.rpartition(":")[2])
            async with AsyncExitStack() as stack:
                reflector, told = await stack.enter_async_context(reflecting(before, sleep=asyncio.sleep))
                await before.watched()
                await stack.enter_async_context(replaced(before, port))
                await until(lambda: sizes(reflector) == {"b": 1, "c": 1})
                assert told.changes == [("added", "a"), ("added", "b"), ("added", "c"), ("deleted", "a")]

    asyncio.run(play())


@asynccontextmanager
async def replaced(before: FakeApiServer, port: int) -> AsyncGenerator[None, None]:
    """The server stopped, and another with what it had, some changes, and no history in its place."""
    await before.stop()
    async with fake_api_server(port) as after:
        after.objects, after.revision = before.objects, before.revision
        after.remove(NODES, "a")
        after.put(NODES, "c")
        after.compact()
        yield


def test_damage_in_the_stream_is_told_and_the_watch_goes_on_where_it_was() -> None:
    async def story(server: FakeApiServer) -> None:
        async with reflecting(server) as (reflector, told):
            for number, damage in enumerate((b"<html>\n", b'{"type": "ADDED"}\n', b'{"type": "ADD')):
                await server.watched()
                server.say(damage)
                server.end_watches()
                server.put(NODES, f"n{number}")
                await until(partial(reflector.items.__contains__, f"n{number}"))
            assert reflector.lists == 1
            assert [text.split(":")[0] for text in told.troubles] == ["no answer BadStream"] * 3
            assert (told.problems, reflector.problems) == ([], {})

    run(story)


def test_an_event_that_trickles_in_is_taken_when_it_is_whole() -> None:
    async def story(server: FakeApiServer) -> None:
        async with reflecting(server) as (reflector, _):
            await server.watched()
            made = {"metadata": {"name": "slow", "uid": "u", "resourceVersion": "99"}}
            for byte in event("ADDED", made)[:-1]:
                server.say(bytes([byte]))
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            assert not reflector.items
            server.say(b"\n")
            await until(lambda: "slow" in reflector.items)

    run(story)


def test_objects_without_metadata_are_told_and_passed_over() -> None:
    async def story(server: FakeApiServer) -> None:
        async with reflecting(server) as (reflector, told):
            await server.watched()
            server.say(b'{"type":"ADDED","object":[]}\n{"type":"ADDED","object":{"metadata":7}}\n')
            server.put(NODES, "a")
            await until(lambda: "a" in reflector.items)
            assert {key for key, _ in told.problems} == {"/api/v1/nodes without metadata"}

    run(story)


def test_a_watch_that_fails_again_and_again_is_begun_anew_with_a_list() -> None:
    async def story(server: FakeApiServer) -> None:
        server.watch_refusals += [Refusal(500)] * 4
        async with reflecting(server) as (reflector, told):
            await server.watched()
            assert reflector.lists == 2
            assert len(told.waits) == 4

    run(story)


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop() -> None:
    async def story(server: FakeApiServer) -> None:
        async with reflecting(server, clock=lambda: 0.0) as (_, told):
            for _ in range(5):
                await server.watched()
                server.end_watches()
            await until(lambda: len(told.waits) == 5)
            assert told.troubles[0] == "no answer ShortWatch: the server ended the watch at once"

    run(story)


def test_a_watch_that_lasted_and_ended_is_begun_again_at_once() -> None:
    async def story(server: FakeApiServer) -> None:
        time = 0.0
        async with reflecting(server, clock=lambda: time) as (reflector, told):
            await server.watched()
            time = 300.0
            server.end_watches()
            await server.watched()
            assert told.waits == []
            assert reflector.last_contact == 300.0
            time = 360.0
            server.bookmark()
            await until(lambda: reflector.last_contact == 360.0)

    run(story)


def test_stopping_closes_the_watch() -> None:
    async def story(server: FakeApiServer) -> None:
        async with reflecting(server):
            await server.watched()
            (watcher,) = server.watchers
            assert watcher.request.transport is not None
        await until(lambda: watcher.request.transport is None)

    run(story)


def test_a_listener_that_fails_is_not_hidden() -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "a")

        def fail(_: object) -> None:
            raise ArithmeticError("a mistake of ours")

        async with Client(connection(server)) as client:
            with pytest.raises(ArithmeticError):
                await Reflector(client, NODES, decode, on_change=fail).run()

    run(story)


def test_versions_that_are_no_numbers_are_believed_in_the_order_they_come() -> None:
    async def story(server: FakeApiServer) -> None:
        async with reflecting(server) as (reflector, _):
            await server.watched()
            for version, size in (("zz", 1), ("aa", 2), ("aa", 3)):
                made = {"metadata": {"name": "n", "uid": "u", "resourceVersion": version}, "size": size}
                server.say(event("MODIFIED", made))
            server.say(event("ADDED", {"metadata": {"name": "last", "uid": "l", "resourceVersion": "bb"}}))
            await until(lambda: "last" in reflector.items)
            assert sizes(reflector) == {"n": 2, "last": 1}

    run(story)
