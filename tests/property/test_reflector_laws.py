"""However often a watch is cut, repeats itself, stalls or loses its history: the copy ends as what the server has.

And whoever only adds up the changes that were told has the same.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.fake_api_server import FakeApiServer, Refusal, connection, event, fake_api_server, seeded, until
from kube.reflected import Told, decode
from numaware.kube.client import Client
from numaware.kube.reflector import Reflector
from numaware.kube.resources import PODS

NAMES = st.sampled_from(["a", "b", "c", "d"])
SIZES = st.sampled_from([0, 1, 2, 3, "unreadable"])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, SIZES),
    st.tuples(st.just("put"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("replace"), NAMES),
    st.tuples(st.sampled_from(["cut", "end", "compact", "bookmark", "half", "garbage", "expire"])),
    st.tuples(st.just("repeat"), st.integers(0, 20)),
    st.tuples(st.just("error"), st.sampled_from([410, 500, 504])),
    st.tuples(st.just("refuse"), st.sampled_from([0, 403, 429, 500, 503]), st.booleans()),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(STEPS, st.integers(0, 2)), min_size=10, max_size=30), st.integers(1, 3))
def test_the_copy_and_what_was_told_of_it_end_as_what_the_server_has(
    steps: list[tuple[tuple[Any, ...], int]], page: int
) -> None:
    asyncio.run(play(steps, page))


async def play(steps: list[tuple[tuple[Any, ...], int]], page: int) -> None:
    told = Told()
    async with (
        fake_api_server() as server,
        Client(connection(server), dice=seeded(), sleep=told.sleep) as client,
    ):
        reflector = Reflector(
            client, PODS, decode, on_change=told.change, on_problem=told.problem, page=page, dice=seeded(),
            sleep=told.sleep,
        )  # fmt: skip
        task = asyncio.create_task(reflector.run())
        await server.watched()
        for step, pause in steps:
            make(server, *step)
            # Some of it happens at once, some after all that came before has been seen.
            for _ in range(pause):
                await asyncio.sleep(0.002)
        await rest(server, reflector, task)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    there = {f"ns/{made['metadata']['name']}": made for made in server.objects.values()}
    readable = {
        key: (made["metadata"]["uid"], made["size"])
        for key, made in there.items()
        if made["size"] != "unreadable" and made["size"]
    }
    copy = {key: (thing.uid, thing.size) for key, thing in reflector.items.items()}
    # Of what cannot be read there may be an older reading of the same object, and nothing else.
    kept = copy.keys() - readable.keys()
    assert {key: copy[key] for key in copy if key not in kept} == readable
    assert all(
        there[key]["size"] == "unreadable" and there[key]["metadata"]["uid"] == copy[key][0] for key in kept
    )
    assert set(reflector.problems) == {key for key, made in there.items() if made["size"] == "unreadable"}
    assert told.sum() == copy


def make(server: FakeApiServer, what: str, *more: Any) -> None:
    """One thing that happens to the cluster, the server or the wire."""
    path = PODS.path("ns", more[0]) if more and isinstance(more[0], str) else ""
    if what == "put":
        server.put(PODS, more[0], "ns", size=more[1])
    elif what in {"remove", "replace"} and path in server.objects:
        server.remove(PODS, more[0], "ns")
        if what == "replace":
            server.put(PODS, more[0], "ns", size=1)
    elif what == "cut":
        server.cut()
    elif what == "end":
        server.end_watches()
    elif what == "compact":
        server.compact()
    elif what == "bookmark":
        server.bookmark()
    elif what == "expire":
        server.expire_continue = True
    elif what == "half":
        server.say(event("ADDED", {"metadata": {"name": "half"}})[:20])
        server.end_watches()
    elif what == "garbage":
        server.say(b"<html>\n")
    elif what == "repeat" and server.history:
        _, kind, _, about = server.history[more[0] % len(server.history)]
        server.say(event(kind, about))
    elif what == "error":
        server.say(event("ERROR", {"kind": "Status", "code": more[0], "message": "as told"}))
    elif what == "refuse":
        (server.refusals if more[1] else server.watch_refusals).append(Refusal(more[0]))


async def rest(server: FakeApiServer, reflector: Reflector[Any], task: asyncio.Task[None]) -> None:
    """Wait until all trouble has passed: a last object is written, and seen."""
    server.refusals.clear()
    server.watch_refusals.clear()
    server.put(PODS, "last", "ns", size=1)
    await until(lambda: "ns/last" in reflector.items or task.done())
    assert not task.done(), task.exception()
