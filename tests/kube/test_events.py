from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server, seeded, until
from numaware.kube.client import Client
from numaware.kube.events import EventWriter, Subject, _shortened
from numaware.kube.resources import EVENTS

POD = Subject("Pod", "trainer-0", "ns", "uid-1")


@dataclass
class Scene:
    server: FakeApiServer
    events: EventWriter
    time: float = 0.0

    def tell(self, note: str = "does not fit", about: Subject = POD) -> None:
        self.events.tell(about, "Warning", "FailedScheduling", "Scheduling", note)

    async def settled(self, written: int) -> list[dict[str, Any]]:
        """The events that there are once so many writes were made."""
        await until(lambda: self.events.written + self.events.failed == written)
        return [made for path, made in sorted(self.server.objects.items()) if "/events/" in path]


@asynccontextmanager
async def scene(**options: Any) -> AsyncGenerator[Scene, None]:
    async with fake_api_server() as server, Client(connection(server)) as client:
        made = Scene(
            server,
            EventWriter(
                client,
                controller="numaware.io/scheduler",
                instance="host-1",
                dice=seeded(),
                clock=lambda: made.time,
                now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=made.time),
                **options,
            ),
        )
        async with made.events:
            yield made


def run(story: Callable[[Scene], Awaitable[None]], **options: Any) -> None:
    async def play() -> None:
        async with scene(**options) as made:
            await story(made)

    asyncio.run(play())


def test_an_event_says_all_that_the_server_asks_for() -> None:
    async def story(scene: Scene) -> None:
        owner = Subject("StatefulSet", "trainer", "ns", "uid-0", "apps/v1")
        scene.events.tell(POD, "Normal", "Scheduled", "Binding", "bound to n1", related=owner)
        (made,) = await scene.settled(1)
        name = made["metadata"].pop("name")
        assert name.startswith("trainer-0.")
        assert made["metadata"].pop("namespace") == "ns"
        del made["metadata"]
        assert made == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "numaware.io/scheduler",
            "reportingInstance": "host-1",
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "note": "bound to n1",
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "name": "trainer-0", "namespace": "ns", "uid": "uid-1",
            },
            "related": {
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "trainer", "namespace": "ns", "uid": "uid-0",
            },
        }  # fmt: skip

    run(story)


def test_repeats_become_a_count_that_is_written_every_ten_seconds_at_most() -> None:
    async def story(scene: Scene) -> None:
        scene.tell()
        await scene.settled(1)
        for _ in range(50):
            scene.tell()
        scene.time = 9.9
        scene.tell()
        await asyncio.sleep(0.01)
        assert scene.events.written == 1
        scene.time = 10
        scene.tell()
        (made,) = await scene.settled(2)
        assert made["series"] == {"count": 53, "lastObservedTime": "2026-01-01T00:00:10.000000Z"}
        assert made["eventTime"] == "2026-01-01T00:00:00.000000Z"

    run(story)


def assigned(scene: Scene, name: str) -> None:
    scene.events.tell(Subject("Pod", name, "ns"), "Normal", "Scheduled", "Binding", "bound to n1")


async def regarded(scene: Scene, written: int) -> set[str]:
    return {made["regarding"]["name"] for made in await scene.settled(written)}


def test_normal_events_stand_back_while_something_urgent_is_under_way_and_warnings_do_not() -> None:
    async def story(scene: Scene) -> None:
        scene.events.hold()
        scene.events.hold()
        assigned(scene, "a")
        scene.tell()
        assert await regarded(scene, 1) == {"trainer-0"}
        scene.events.go_on()
        await asyncio.sleep(0.01)
        assert scene.events.written == 1
        scene.events.go_on()
        assert await regarded(scene, 2) == {"trainer-0", "a"}

    run(story, writers=1)


def test_no_event_stands_back_for_longer_than_five_seconds() -> None:
    async def story(scene: Scene) -> None:
        scene.events.hold()
        assigned(scene, "early")
        scene.time = 4.9
        assigned(scene, "late")
        await asyncio.sleep(0.01)
        assert scene.events.written == 0
        scene.time = 5.0
        scene.tell()
        assert await regarded(scene, 2) == {"trainer-0", "early"}

    run(story, writers=1)


def test_what_stands_back_is_written_before_the_end() -> None:
    async def play() -> FakeApiServer:
        async with scene() as made:
            made.events.hold()
            assigned(made, "a")
        return made.server

    assert any("/events/" in path for path in asyncio.run(play()).objects)


def test_what_ends_while_the_rest_is_written_holds_nothing_up() -> None:
    async def play() -> FakeApiServer:
        async with scene(writers=1) as made:
            made.events.hold()
            for number in range(5):
                assigned(made, f"p{number}")
            asyncio.get_running_loop().call_soon(made.events.go_on)
        return made.server

    assert sum("/events/" in path for path in asyncio.run(play()).objects) == 5


def test_what_stands_back_counts_for_the_limit() -> None:
    async def story(scene: Scene) -> None:
        scene.events.hold()
        for name in ("a", "b", "c"):
            assigned(scene, name)
        assert scene.events.dropped == 1

    run(story, limit=2)


def test_repeats_among_what_stands_back_are_one_event_and_hold_nothing_up() -> None:
    async def play() -> Scene:
        async with scene(writers=1) as made:
            made.events.hold()
            for name in ("a", "b", "a", "b"):
                assigned(made, name)
            made.events.go_on()
            assert await regarded(made, 2) == {"a", "b"}
        return made

    made = asyncio.run(asyncio.wait_for(play(), 60))
    assert (made.events.written, made.events.dropped) == (2, 0)


def test_repeats_before_the_first_was_written_are_part_of_it() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            scene.tell()
        (made,) = await scene.settled(1)
        assert made["series"]["count"] == 3

    run(story)


def test_another_note_or_another_object_is_another_event() -> None:
    async def story(scene: Scene) -> None:
        scene.tell("a")
        scene.tell("b")
        scene.tell("a", Subject("Pod", "trainer-0", "ns", "uid-2"))
        assert len(await scene.settled(3)) == 3

    run(story)


def test_a_repeat_after_the_server_forgot_or_long_after_is_written_anew() -> None:
    async def story(scene: Scene) -> None:
        scene.tell()
        await scene.settled(1)
        scene.server.objects.clear()
        scene.time = 60
        scene.tell()
        (made,) = await scene.settled(2)
        assert made["series"]["count"] == 2
        scene.time = 3600
        scene.tell()
        assert sorted("series" in made for made in await scene.settled(3)) == [False, True]

    run(story)


def test_what_does_not_fit_into_the_queue_is_dropped_and_counted_without_a_wait() -> None:
    async def story(scene: Scene) -> None:
        for number in range(100):
            scene.tell(f"note {number}")
        assert scene.events.dropped == 90
        assert len(await scene.settled(10)) == 10

    run(story, limit=10)


def test_what_the_server_refuses_is_counted_and_tried_again_at_the_next_repeat() -> None:
    async def story(scene: Scene) -> None:
        scene.server.refusals += [Refusal(403, "Forbidden")]
        scene.tell()
        assert await scene.settled(1) == []
        assert (scene.events.failed, scene.events.written) == (1, 0)
        scene.tell()
        assert len(await scene.settled(2)) == 1

    run(story)


def test_why_events_cannot_be_written_is_told_once_until_one_can() -> None:
    told: list[str] = []

    async def story(scene: Scene) -> None:
        for number in range(2):
            scene.server.refusals += [Refusal(403, "Forbidden")] * 2
            scene.tell(f"one {number}")
            await scene.settled(3 * number + 1)
            scene.tell(f"two {number}")
            await scene.settled(3 * number + 2)
            assert len(told) == number + 1
            scene.tell(f"three {number}")
            await scene.settled(3 * number + 3)
        assert all(text.startswith("403 Forbidden") for text in told)

    run(story, on_problem=told.append)


def test_leaving_writes_what_is_still_queued() -> None:
    async def play() -> None:
        async with scene() as made:
            for number in range(20):
                made.tell(f"note {number}")
        assert made.events.written == 20

    asyncio.run(play())


def test_an_event_about_what_has_no_namespace_is_kept_in_default_under_a_name_that_is_allowed() -> None:
    async def story(scene: Scene) -> None:
        scene.tell(about=Subject("Node", "n" * 235 + "-" + "x" * 17))
        (made,) = await scene.settled(1)
        assert made["metadata"]["namespace"] == "default"
        assert made["metadata"]["name"].startswith("n" * 235 + ".")
        assert EVENTS.path("default", made["metadata"]["name"]) in scene.server.objects

    run(story)


def test_what_is_remembered_of_events_is_limited() -> None:
    async def story(scene: Scene) -> None:
        for number in range(5000):
            scene.tell(f"note {number}")
        assert len(scene.events._series) == 4096

    run(story, limit=10_000, writers=1)


@given(st.text(max_size=1500) | st.text("ä€𝄞", min_size=300, max_size=600))
def test_a_note_is_shortened_to_what_the_server_takes_and_never_in_mid_character(note: str) -> None:
    short = _shortened(note)
    assert len(short.encode()) <= 1024
    assert short == note.encode(errors="replace").decode() or short.endswith("…")
