"""Orders to kubelets from the console: all of them with their progress, and none without its confirmation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server
from numaware.kube.client import Client
from numaware.kube.kubelet_policies import decode
from numaware.kube.resources import KUBELET_POLICIES, Resource
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import LabWorld
from numaware.serve.console.openfuyao.distance_order import NAME
from numaware.serve.console.orders import ClusterOrders, NoOrders, orders_of
from numaware.serve.console.world import SwitchError
from numaware.simulate.traces import SECOND
from support.console_world import NOW, client

URL = "/api/v1/policies/orders"
WISH = {"pool": "p100", "policy": "restricted", "scope": "pod", "confirm": "p100"}


def lab() -> Console:
    world = LabWorld(NOW)
    return Console(world, lambda: world.now)


def test_a_pool_is_ordered_another_policy_and_it_is_told_how_far_that_is() -> None:
    console = lab()
    api = client(console)
    assert api.get("/api/v1/policies").json()["orders"] == {"orders": [], "locked": ""}
    answer = api.post(URL, json=WISH)
    assert answer.status_code == 200, answer.text
    (order,) = answer.json()["orders"]
    assert order["name"] == "pool-p100"
    assert order["wanted"] == ["topologyManagerPolicy=restricted", "topologyManagerScope=pod"]
    assert order["selector"] == ["pool=p100"]
    assert (order["switching"], order["waiting"], order["done"]) == (1, 5, 0)
    for _ in range(10):
        console.world.advance(console.world.now + SECOND)
    (order,) = api.get("/api/v1/policies").json()["orders"]["orders"]
    assert (order["switching"], order["waiting"], order["done"], order["failed"]) == (0, 0, 6, 0)
    pools = {one["name"]: one for one in api.get("/api/v1/policies").json()["pools"]}
    assert (pools["p100"]["policy"], pools["p100"]["scope"]) == ("restricted", "pod")
    (order,) = api.put(f"{URL}/pool-p100", json={"command": "RollBack"}).json()["orders"]
    assert (order["command"], order["waiting"], order["switching"]) == ("RollBack", 5, 1)
    for _ in range(10):
        console.world.advance(console.world.now + SECOND)
    (order,) = api.get("/api/v1/policies").json()["orders"]["orders"]
    assert (order["done"], order["waiting"]) == (6, 0)
    pools = {one["name"]: one for one in api.get("/api/v1/policies").json()["pools"]}
    assert pools["p100"]["policy"] == "best-effort"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", URL, {**WISH, "confirm": "gpu"}, 422, "is not the name of the pool"),
        ("POST", URL, {**WISH, "pool": "none", "confirm": "none"}, 422, "there is no pool 'none'"),
        ("POST", URL, {**WISH, "policy": "odd"}, 400, "policy"),
        ("PUT", f"{URL}/none", {"command": "Pause"}, 404, "there is no order 'none'"),
        ("PUT", f"{URL}/none", {"command": "Explode"}, 400, "command"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_ordered(
    method: str, path: str, body: dict[str, str], status: int, said: str
) -> None:
    console = lab()
    answer = client(console).request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert console.world.orders.policies == []


def test_what_would_change_is_shown_before_anything_is_ordered() -> None:
    console = lab()
    wish = {name: WISH[name] for name in ("pool", "policy", "scope")}
    answer = client(console).post("/api/v1/policies/kubelet", json=wish).json()
    assert [(one["sign"], one["text"]) for one in answer["diff"]] == [
        ("-", "topologyManagerPolicy: best-effort"),
        ("-", "topologyManagerScope: container"),
        ("+", "topologyManagerPolicy: restricted"),
        ("+", "topologyManagerScope: pod"),
    ]
    assert {one["node"] for one in answer["nodes"]} == {f"p100-{number}" for number in range(6)}
    assert console.world.orders.policies == []


def run(
    story: Callable[[FakeApiServer, ClusterOrders], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    verbs: tuple[str, ...] = ("list", "create", "update", "patch"),
) -> None:
    async def may_i(_: Client, verb: str, resource: Resource) -> bool:
        return verb in verbs and resource == KUBELET_POLICIES

    monkeypatch.setattr("numaware.serve.console.orders.may_i", may_i)

    async def play() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            book = ClusterOrders(await stack.enter_async_context(Client(connection(server))))
            await story(server, book)

    asyncio.run(play())


def entry(phase: str, wanted: str) -> dict[str, Any]:
    return {"phase": phase, "wanted": wanted, "message": f"it is {phase}"}


def test_the_orders_of_a_cluster_are_counted_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: FakeApiServer, book: ClusterOrders) -> None:
        spec = {"kubelet": {"topologyManagerPolicyOptions": {"x": "true"}, "cpuManagerPolicy": "static"}}
        made = server.put(KUBELET_POLICIES, NAME, spec=spec)
        wanted = decode(msgspec.json.encode(made)).wanted
        phases = ["Done", "Switching", "Pending", "Failed", "NotAllowed"]
        nodes = {f"n{at}": entry(phase, wanted) for at, phase in enumerate(phases)}
        nodes["old"] = entry("Done", "an earlier order")
        server.put(KUBELET_POLICIES, NAME, spec=spec, status={"nodes": nodes})
        await book.read()
        (order,) = orders_of(book).orders
        assert order.wanted == ("cpuManagerPolicy=static", "topologyManagerPolicyOptions.x=true")
        assert (order.done, order.switching, order.waiting, order.failed) == (1, 1, 2, 2)
        assert [one.node for one in order.nodes if not one.current] == ["old"]
        assert not orders_of(book).locked
        await book.change(NAME, "Pause")
        await book.read()
        assert orders_of(book).orders[0].command == "Pause"
        with pytest.raises(KeyError):
            await book.change("none", "Pause")
        await book.give("pool-x", {"kubelet": {"topologyManagerPolicy": "none"}})
        await book.give("pool-x", {"kubelet": {"topologyManagerPolicy": "restricted"}})
        await book.read()
        assert [(one.name, one.spec.attempt) for one in book.policies] == [(NAME, 0), ("pool-x", 1)]

    run(story, monkeypatch)


def test_an_order_that_cannot_be_read_is_told_of_and_breaks_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: FakeApiServer, book: ClusterOrders) -> None:
        server.put(KUBELET_POLICIES, NAME, spec={"kubelet": "static"})
        await book.read()
        assert NAME in str(book.locked)
        assert orders_of(book).orders == ()

    run(story, monkeypatch)


@pytest.mark.parametrize(
    ("verbs", "verb", "seen"),
    [
        (("create", "update", "patch"), "list", 0),
        (("list", "patch"), "create", 1),
        (("list", "create", "update"), "patch", 1),
    ],
)
def test_without_a_right_orders_are_locked_and_name_the_verb(
    monkeypatch: pytest.MonkeyPatch, verbs: tuple[str, ...], verb: str, seen: int
) -> None:
    async def story(server: FakeApiServer, book: ClusterOrders) -> None:
        server.put(KUBELET_POLICIES, NAME, spec={"kubelet": {"cpuManagerPolicy": "static"}})
        await book.read()
        assert f"may not {verb} kubeletpolicies.numaware.io" in str(book.locked)
        assert len(book.policies) == seen

    run(story, monkeypatch, verbs)


def test_where_nothing_can_be_ordered_it_says_so() -> None:
    with pytest.raises(SwitchError, match="nothing is ordered here"):
        asyncio.run(NoOrders().give("x", {}))
    with pytest.raises(SwitchError, match="nothing is ordered here"):
        asyncio.run(NoOrders().change("x", "Pause"))
