from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server, hurried, seeded
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import Connection
from numaware.kube.errors import ApiError
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS

Waits = list[float]


@asynccontextmanager
async def opened(
    waits: Waits | None = None,
) -> AsyncGenerator[tuple[FakeApiServer, Client], None]:
    """A server and a client of it that, where it would sleep, only writes down how long."""

    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    async with (
        fake_api_server() as server,
        Client(connection(server), dice=seeded(), sleep=sleep) as client,
    ):
        yield server, client


def run(story: Callable[[FakeApiServer, Client], Awaitable[None]], *, waits: Waits | None = None) -> None:
    async def play() -> None:
        async with opened(waits) as (server, client):
            await story(server, client)

    asyncio.run(play())


def test_an_object_is_read_as_the_bytes_the_server_sent() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(NODES, "n1", spec={"unschedulable": True})
        assert msgspec.json.decode(await client.get(NODES, "n1"))["spec"] == {"unschedulable": True}
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "n2")
        assert (caught.value.status, caught.value.reason) == (404, "NotFound")
        assert caught.value.not_found

    run(story)


def test_every_try_is_heard_of_with_its_answer() -> None:
    heard: list[tuple[str, int]] = []

    def hear(method: str, status: int, _: float) -> None:
        heard.append((method, status))

    async def play() -> None:
        async with fake_api_server() as server:
            server.put(NODES, "n1")
            async with Client(connection(server), **hurried(), heard=hear) as client:
                server.refusals += [Refusal(503)]
                await client.get(NODES, "n1")
                async with aclosing(client.watch(NODES, version="0")) as events:
                    await anext(events)

    asyncio.run(play())
    assert heard == [("GET", 503), ("GET", 200), ("GET", 200)]


def test_a_list_comes_in_pages_that_share_one_version() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        for number in range(7):
            server.put(PODS, f"p{number}", "a" if number % 2 else "b")
        pages = [page async for page in client.list(PODS, limit=3)]
        assert [len(page.items) for page in pages] == [3, 3, 1]
        assert {page.version for page in pages} == {str(server.revision)}
        assert [len(page.items) async for page in client.list(PODS, "a", limit=50)] == [3]
        assert [len(page.items) async for page in client.list(NODES)] == [0]

    run(story)


def test_a_list_that_took_too_long_says_so() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        for number in range(3):
            server.put(NODES, f"n{number}")
        server.expire_continue = True
        with pytest.raises(ApiError) as caught:
            [page async for page in client.list(NODES, limit=1)]
        assert caught.value.gone

    run(story)


def test_selectors_reach_the_server_escaped() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        async for _ in client.list(PODS, field_selector="spec.nodeName=,x!=a b"):
            pass
        assert server.calls[-1][2] == {
            "limit": "500",
            "fieldSelector": "spec.nodeName=,x!=a b",
        }

    run(story)


def test_a_bind_gives_the_pod_its_node_and_its_annotations_in_one_call() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        uid = server.put(PODS, "p", "ns")["metadata"]["uid"]
        before = len(server.calls)
        await client.bind("ns", "p", uid, "n1", {"numaware.io/placement-predicted": "[]"})
        assert len(server.calls) == before + 1
        pod = server.objects[PODS.path("ns", "p")]
        assert pod["spec"]["nodeName"] == "n1"
        assert pod["metadata"]["annotations"] == {"numaware.io/placement-predicted": "[]"}

    run(story)


def test_a_bind_that_comes_second_or_means_another_pod_is_a_conflict_and_not_repeated() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        uid = server.put(PODS, "p", "ns")["metadata"]["uid"]
        with pytest.raises(ApiError) as other:
            await client.bind("ns", "p", "another", "n1")
        await client.bind("ns", "p", uid, "n1")
        with pytest.raises(ApiError) as second:
            await client.bind("ns", "p", uid, "n2")
        assert other.value.conflict
        assert second.value.conflict
        assert not second.value.uncertain
        assert len(server.calls) == 3

    run(story)


def test_a_busy_server_is_asked_again_when_it_said_so_even_for_a_bind() -> None:
    waits: Waits = []

    async def story(server: FakeApiServer, client: Client) -> None:
        uid = server.put(PODS, "p", "ns")["metadata"]["uid"]
        server.refusals += [
            Refusal(429, "TooManyRequests", {"Retry-After": "2"}),
            Refusal(503, "ServiceUnavailable", {"Retry-After": "3"}),
        ]
        await client.bind("ns", "p", uid, "n1")
        assert server.objects[PODS.path("ns", "p")]["spec"]["nodeName"] == "n1"
        assert [2 <= wait <= 2.1 for wait in waits[:1]] == [True]
        assert [3 <= wait <= 3.2 for wait in waits[1:]] == [True]

    run(story, waits=waits)


def test_a_wait_that_would_pass_the_time_for_the_call_is_not_begun() -> None:
    waits: Waits = []

    async def story(server: FakeApiServer, client: Client) -> None:
        server.refusals += [Refusal(429, "TooManyRequests", {"Retry-After": "60"})]
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "n")
        assert (caught.value.status, caught.value.retry_after) == (429, 60)
        assert not waits

    run(story, waits=waits)


@pytest.mark.parametrize("status", [0, 500, 504])
def test_a_failure_is_tried_again_only_where_doing_it_twice_does_no_harm(status: int) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(NODES, "n")
        uid = server.put(PODS, "p", "ns")["metadata"]["uid"]
        server.refusals += [Refusal(status)]
        assert msgspec.json.decode(await client.get(NODES, "n"))["metadata"]["name"] == "n"
        server.refusals += [Refusal(status, done=True)]
        calls = len(server.calls)
        with pytest.raises(ApiError) as caught:
            await client.bind("ns", "p", uid, "n")
        assert caught.value.uncertain
        assert len(server.calls) == calls + 1
        assert server.objects[PODS.path("ns", "p")]["spec"]["nodeName"] == "n"

    run(story)


def test_a_server_that_does_not_answer_in_time_leaves_a_bind_uncertain() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.delay = 60.0
        with pytest.raises(ApiError) as caught:
            await client.bind("ns", "p", "u", "n", within=1.0)
        assert (caught.value.status, caught.value.reason) == (0, "Timeout")
        assert caught.value.uncertain

    run(story)


def test_nobody_at_home_is_certain_not_to_have_done_anything() -> None:
    async def play() -> None:
        async with fake_api_server() as server:
            base = server.base
        async with Client(Connection(base), **hurried()) as client:
            with pytest.raises(ApiError) as caught:
                await client.bind("ns", "p", "u", "n")
            assert (caught.value.reason, caught.value.uncertain) == ("Unreachable", False)
            with pytest.raises(InputError) as told:
                await client.server_version()
            problem = f"cannot talk to the API server: cannot connect to {base[7:]}: Connection refused"
            assert (told.value.source, told.value.problem) == (base, problem)
            assert "--context" in str(told.value.hint)

    asyncio.run(play())


def test_the_version_of_the_server_is_told_and_what_is_none_refused() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        assert await client.server_version() == "v1.35.8"
        server.refusals += [Refusal(200, body=b"<html>")]
        with pytest.raises(InputError, match="not a Kubernetes API server"):
            await client.server_version()

    run(story)


def test_a_server_is_greeted_again_if_it_is_slow_and_not_if_nobody_listens() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def play() -> None:
        now = iter(range(10_000))
        async with fake_api_server() as server:
            server.delay = 60.0
            async with Client(connection(server), timeout=1.0) as client:
                with pytest.raises(InputError, match="did not answer in time"):
                    await client.server_version()
            assert [path for _, path, _ in server.calls if path == "/version"] == ["/version"] * 2
            base = server.base
        # A clock that goes on a tenth of a second with each look.
        async with Client(Connection(base), clock=lambda: next(now) / 10, sleep=sleep) as client:
            with pytest.raises(InputError, match="Connection refused"):
                await client.server_version()
        assert 1 < len(waits) < 15

    asyncio.run(play())


def test_writes_go_where_they_belong_in_the_form_they_name() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        await client.create(NODES, {"metadata": {"name": "n"}})
        with pytest.raises(ApiError) as caught:
            await client.create(NODES, {"metadata": {"name": "n"}})
        assert caught.value.conflict
        await client.update(NODES, "n", {"metadata": {"name": "n"}, "spec": {"a": 1}})
        with pytest.raises(ApiError) as caught:
            await client.update(NODES, "n", {"metadata": {"name": "n", "resourceVersion": "1"}})
        assert caught.value.conflict
        await client.patch(NODES, "n", {"spec": {"b": 2}})
        assert server.objects[NODES.path(name="n")]["spec"] == {"a": 1, "b": 2}
        await client.patch(NODES, "n", [{"op": "test", "path": "/spec/a", "value": 1}], kind="json")
        topology = {
            **NODE_RESOURCE_TOPOLOGIES.head,
            "metadata": {"name": "n"},
            "zones": [],
        }
        await client.apply(NODE_RESOURCE_TOPOLOGIES, "n", topology, manager="numaware")
        assert server.calls[-1] == (
            "PATCH",
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n",
            {"fieldManager": "numaware", "force": "true"},
        )
        uid = server.put(PODS, "p", "ns")["metadata"]["uid"]
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await client.patch_pod_status("ns", "p", uid, {"conditions": [condition]})
        assert server.calls[-1][1] == "/api/v1/namespaces/ns/pods/p/status"
        assert server.objects[PODS.path("ns", "p")]["status"] == {"conditions": [condition]}
        assert server.content_types[-4:] == [
            "application/merge-patch+json",
            "application/json-patch+json",
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
        ]
        with pytest.raises(ApiError) as caught:
            await client.delete(PODS, "p", "ns", uid="another")
        assert caught.value.conflict
        await client.delete(PODS, "p", "ns", uid=uid, grace_seconds=0)
        assert PODS.path("ns", "p") not in server.objects

    run(story)


def test_what_a_proxy_says_instead_of_the_server_is_told_in_one_short_line() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.refusals += [Refusal(403, body=b"<html>\n\x1b[31mno way" + b"!" * 10_000)]
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "n")
        assert str(caught.value).startswith("403 Unknown: <html>")
        assert len(str(caught.value)) < 1100
        assert str(caught.value).isprintable()

    run(story)


def test_a_client_that_was_not_opened_says_so() -> None:
    async def play() -> None:
        with pytest.raises(RuntimeError, match="async with"):
            await Client(Connection("http://127.0.0.1:1")).get(NODES, "n")

    asyncio.run(play())


def test_a_watch_gives_events_as_they_come_and_ends_when_the_server_ends_it() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(NODES, "a")
        server.put(PODS, "p", "ns")
        events = client.watch(NODES, version="1", seconds=77, field_selector="a=b")
        assert (await anext(events)).type == "ADDED"
        assert server.calls[-1][2] == {
            "watch": "1",
            "resourceVersion": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "77",
            "fieldSelector": "a=b",
        }
        server.remove(NODES, "a")
        assert (await anext(events)).type == "DELETED"
        server.bookmark()
        server.end_watches()
        assert [event.type async for event in events] == ["BOOKMARK"]

    run(story)


def test_a_watch_that_dies_in_silence_is_given_up() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        with pytest.raises(ApiError, match="Timeout"):
            await anext(client.watch(NODES, version="1", quiet=0.05))

    run(story)


def test_a_watch_that_breaks_says_so() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(NODES, "a")
        events = client.watch(NODES, version="1")
        await anext(events)
        server.cut()
        with pytest.raises(ApiError, match="no answer Broken"):
            await anext(events)

    run(story)


def test_an_answer_that_never_ends_is_given_up_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("numaware.kube.transport._MOST_ANSWER", 1000)

    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(NODES, "large", text="x" * 2000)
        with pytest.raises(ApiError, match="TooLarge"):
            await client.get(NODES, "large")

    run(story)


def test_a_list_that_is_none_says_so() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.refusals += [Refusal(200, body=b'{"items": 5}')]
        with pytest.raises(ApiError, match="a list that cannot be read"):
            await anext(client.list(NODES))

    run(story)
