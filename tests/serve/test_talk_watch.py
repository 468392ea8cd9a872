"""What agents tell of talk reaches a console of the live cluster, and what keeps it from doing so is said with the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from msgspec.structs import replace

from affinity.test_published import TOLD
from kube.fake_api_server import FakeApiServer, connection, fake_api_server, until
from numaware.affinity import published
from numaware.affinity.report import NodeReport
from numaware.kube.client import Client
from numaware.kube.resources import DEFINITIONS, NODE_TRAFFICS
from numaware.serve.talk_watch import TalkWatch

Story = Callable[[FakeApiServer, TalkWatch], Awaitable[None]]


def play(story: Story, prepare: Callable[[FakeApiServer], None]) -> None:
    async def go() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            prepare(server)
            client = await stack.enter_async_context(Client(connection(server)))
            watch = TalkWatch(client)
            running = asyncio.create_task(watch.run())
            stack.callback(running.cancel)
            await story(server, watch)

    asyncio.run(go())


def put(server: FakeApiServer, report: NodeReport, **changes: object) -> None:
    body = published.encode(report)[published.FIELD]
    server.put(NODE_TRAFFICS, report.node, report=body | changes)


def test_reports_come_change_and_go_with_their_nodes() -> None:
    async def story(server: FakeApiServer, watch: TalkWatch) -> None:
        await until(lambda: watch.reports == {"n1": TOLD})
        louder = replace(TOLD, total=20)
        put(server, louder)
        await until(lambda: watch.reports == {"n1": louder})
        # Whatever an agent writes, the others are still seen.
        put(server, replace(TOLD, node="n2"), pods="many")
        put(server, replace(TOLD, node="n3"))
        await until(lambda: watch.reports.keys() == {"n1", "n3"})
        server.remove(NODE_TRAFFICS, "n1")
        await until(lambda: watch.reports.keys() == {"n3"})
        assert not watch.missing

    play(story, lambda server: put(server, TOLD))


def test_who_may_not_list_them_is_told_what_to_apply() -> None:
    async def story(_: FakeApiServer, watch: TalkWatch) -> None:
        await until(lambda: bool(watch.missing))
        assert "may not list and watch nodetraffics.numaware.io" in str(watch.missing)
        assert "deploy/rbac/console.yaml" in str(watch.missing)

    play(story, lambda server: server.forbidden.add(NODE_TRAFFICS.path()))


def test_a_cluster_without_the_kind_is_told_how_to_define_it_and_heard_as_soon_as_it_is() -> None:
    async def story(server: FakeApiServer, watch: TalkWatch) -> None:
        await until(lambda: bool(watch.missing))
        assert "deploy/crd/nodetraffics.yaml" in str(watch.missing)
        server.missing.clear()
        put(server, TOLD)
        established = {"conditions": [{"type": "Established", "status": "True"}]}
        versions = [{"name": NODE_TRAFFICS.version, "served": True}]
        name = f"{NODE_TRAFFICS.plural}.{NODE_TRAFFICS.group}"
        server.put(DEFINITIONS, name, spec={"versions": versions}, status=established)
        await until(lambda: watch.reports == {"n1": TOLD})
        assert not watch.missing

    play(story, lambda server: server.missing.add(NODE_TRAFFICS.path()))
