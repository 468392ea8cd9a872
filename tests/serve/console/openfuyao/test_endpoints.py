"""openFuyao's endpoints, as its own console would call them."""

from __future__ import annotations

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from numaware.sentence import Sentence, quoted
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab import world as lab
from numaware.serve.console.lab.world import LabWorld
from numaware.serve.console.live_cluster import LiveCluster
from numaware.serve.console.world import AFFINITY, RUNTIME, Status, Switch, SwitchError
from support.cache_world import Clock, cache_of
from support.console_server import running
from support.console_world import NOW, client, console

PATH = "/rest/scheduling/v1/numaaware"


def test_the_status_comes_in_the_envelope() -> None:
    answer = client().get(PATH)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["code"], body["msg"]) == (200, "success")
    assert body["data"]["status"] == "open"
    assert body["data"]["plugin"] == "numa-aware"


def test_it_is_closed_and_opened_by_query_and_by_body() -> None:
    found = console(nodes=4)
    api = client(found)
    assert api.put(f"{PATH}?status=close").json() == {
        "code": 200,
        "msg": "success",
        "data": {"plugin": "numa-aware", "status": "close", "installed": True},
    }
    assert api.get(PATH).json()["data"]["status"] == "close"
    assert api.put(PATH, json={"status": "open"}).json()["data"]["status"] == "open"


def test_the_same_again_changes_nothing() -> None:
    found = console(nodes=4)
    before = list(found.world.changes)
    assert client(found).put(PATH, json={"status": "open"}).status_code == 200
    assert list(found.world.changes) == before


@pytest.mark.parametrize(
    ("content", "query", "message"),
    [
        (b"", "", "parameters not found"),
        (b"{}", "", "parameters not found"),
        (b'{"status": "on"}', "", "bad request"),
        (b"", "?status=OPEN", "bad request"),
        (b"{", "", "bad request"),
        (b'{"status": 1}', "", "bad request"),
    ],
)
def test_a_status_that_is_none_is_the_callers_mistake(content: bytes, query: str, message: str) -> None:
    answer = client().put(PATH + query, content=content)
    assert (answer.status_code, answer.json()) == (400, {"code": 400, "msg": message})


def test_runtime_affinity_moves_pods_of_the_lab_while_it_is_open() -> None:
    found = console()
    api = client(found)
    assert api.get("/rest/scheduling/v1/podaffinity").json()["data"]["status"] == "close"
    assert api.put("/rest/scheduling/v1/podaffinity?status=open").json()["code"] == 200
    before = api.get("/api/v1/traffic").json()
    found.world.advance(found.world.now + 60_000)
    after = api.get("/api/v1/traffic").json()
    assert not before["moves"]
    assert after["moves"]


def test_runtime_affinity_goes_by_two_names() -> None:
    api = client(console(nodes=1))
    assert api.put("/rest/scheduling/v1/numapodaffinity", json={"status": "open"}).json()["code"] == 200
    told = [api.get(f"/rest/scheduling/v1/{name}").json() for name in ("podaffinity", "numapodaffinity")]
    assert told[0] == told[1]
    assert told[0]["data"] == {"plugin": "pod-affinity", "status": "open", "installed": True}


class WithoutPlugIn(LabWorld):
    """A cluster in which nobody moves pods."""

    @property
    def switches(self) -> tuple[Switch, ...]:
        return (*super().switches[:2], Switch(RUNTIME, "close", missing=Sentence("no plug-in runs here")))


def test_what_is_not_installed_says_so() -> None:
    world = WithoutPlugIn(NOW)
    api, name = client(Console(world, lambda: world.now)), "podaffinity"
    assert api.get(f"/rest/scheduling/v1/{name}").json()["data"]["installed"] is False
    answer = api.put(f"/rest/scheduling/v1/{name}?status=open")
    assert answer.status_code == answer.json()["code"] == 409
    assert answer.json()["msg"].startswith("not installed")


def test_numa_distance_is_switched_on_the_kubelets_of_the_lab() -> None:
    path = "/rest/scheduling/v1/numadistance"

    def make() -> Console:
        return console(nodes=4)

    with running(make) as server, ThreadPoolExecutor(1) as asking:

        def ask(method: str, status: str = "") -> Any:
            request = urllib.request.Request(f"{server.url}{path}{status}", method=method)  # noqa: S310 - ours
            return json.load(urllib.request.urlopen(request, timeout=60))  # noqa: S310 - as above

        assert ask("GET")["data"] == {"plugin": "numa-distance", "status": "close", "installed": True}
        for status in ("open", "close"):
            moving = asking.submit(ask, "PUT", f"?status={status}")
            while not moving.done():
                server.advance(500)
            assert moving.result()["data"]["status"] == status
        assert ask("GET")["data"]["status"] == "close"


def test_numa_distance_is_accepted_where_the_clock_of_the_lab_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lab, "_STILL_SECONDS", 0.0)
    found = console(nodes=4)
    api, path = client(found), "/rest/scheduling/v1/numadistance"
    answer = api.put(f"{path}?status=open")
    assert (answer.status_code, answer.json()["code"], answer.json()["msg"]) == (202, 202, "accepted")
    assert api.put(f"{path}?status=open").status_code == 409
    # It goes on when time does.
    found.world.advance(found.world.now + 60_000)
    assert api.get(path).json()["data"]["status"] == "open"
    assert found.world.changes[-1].switch == "numadistance"


def test_closing_it_brings_refusals_and_opening_it_ends_them() -> None:
    """The lab shows what the switch is for."""
    found = console()
    api = client(found)

    def refusals(minutes: int) -> int:
        start = found.world.now
        found.world.advance(start + minutes * 60_000)
        return sum(event.kind == "refused" and event.time > start for event in found.world.events)

    assert refusals(20) == 0
    api.put(f"{PATH}?status=close")
    assert refusals(30) > 20
    api.put(f"{PATH}?status=open")
    refusals(1)
    assert refusals(20) == 0


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/rest/scheduling/v1/nothing", 404, "resource not found"),
        ("GET", "/rest/", 404, "resource not found"),
        ("PUT", "/rest/elsewhere", 404, "resource not found"),
        ("DELETE", PATH, 405, "method not allowed"),
        ("POST", "/rest/scheduling/api/v1/query", 405, "method not allowed"),
    ],
)
def test_what_is_not_there_or_cannot_be_done_is_told_in_the_envelope(
    method: str, path: str, status: int, message: str
) -> None:
    answer = client().request(method, path)
    assert (answer.status_code, answer.json()) == (status, {"code": status, "msg": message})
    assert answer.headers["content-type"] == "application/json"
    if path == PATH:
        assert answer.headers["allow"] == "GET, HEAD, PUT"


class Stubborn:
    """A part of a live cluster that is not moved."""

    def __init__(self, switch: Switch, error: SwitchError) -> None:
        self.switch = switch
        self.error = error

    async def read(self) -> None:
        """It is as it is."""

    def switched(self, status: Status) -> str:
        return status

    async def move(self, status: Status, by: str) -> bool:
        assert (status, by) == ("open", "testclient")
        raise self.error


def live(part: Stubborn) -> TestClient:
    clock = Clock()
    world = LiveCluster("prod", cache_of(clock=clock), clock, NOW, (part,))
    return client(Console(world, lambda: world.now))


def test_a_part_that_cannot_be_read_is_a_busy_server_with_a_reason() -> None:
    api = live(Stubborn(Switch(AFFINITY, "close", broken=quoted("it is empty")), SwitchError("it is empty")))
    for answer in (api.get(PATH), api.put(f"{PATH}?status=open")):
        data = {"plugin": "numa-aware", "status": "close", "installed": True, "reason": "it is empty"}
        assert answer.status_code == 500
        assert answer.json() == {"code": 500, "msg": "remote server busy", "data": data}
    assert api.put(f"{PATH}?status=nonsense").status_code == 400
    problem = api.put("/api/v1/policies/numaaware", json={"status": "open", "dryRun": True})
    assert (problem.status_code, problem.json()["detail"]) == (409, "it is empty")


def test_a_change_that_was_put_back_is_told_with_what_stands_now() -> None:
    api = live(Stubborn(Switch(AFFINITY, "close"), SwitchError("it was put back", undone=True)))
    answer = api.put(f"{PATH}?status=open")
    assert (answer.status_code, answer.json()["data"]["reason"]) == (500, "it was put back")
    assert answer.json()["data"]["status"] == "close"
    changes = api.get("/api/v1/policies").json()["changes"]
    assert [(change["after"], change["problem"]) for change in changes] == [("open", "it was put back")]


def test_a_change_that_goes_on_already_is_a_conflict() -> None:
    part = Stubborn(Switch(AFFINITY, "close"), SwitchError("it is being moved already", busy=True))
    answer = live(part).put(f"{PATH}?status=open")
    assert (answer.status_code, answer.json()["code"]) == (409, 409)
    problem = live(part).put("/api/v1/policies/numaaware", json={"status": "open"})
    assert problem.status_code == 409
