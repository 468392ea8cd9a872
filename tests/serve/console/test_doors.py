"""Every door of the console: all routes there are, so that a new one cannot be left open by forgetting it."""

from __future__ import annotations

import re
import uuid

import pytest
from starlette.routing import Route

from numaware.kube.reviews import Caller
from numaware.serve import guard
from numaware.serve.authentication import PATHS, ClusterAuthentication, TokenAuthentication
from numaware.serve.console import app, site
from numaware.serve.console.api import stream
from numaware.serve.console.app import application
from numaware.serve.guard import Ask
from numaware.serve.problems import ProblemError
from support.console_world import client, console, shared_console

SECRET = str(uuid.UUID(int=12))
BEARER = {"authorization": f"Bearer {SECRET}"}
EVENTS = "/api/v1/events"


def doors() -> list[tuple[str, str]]:
    """Method and path of all routes; what stands for a name gets one."""
    return sorted(
        (method, re.sub(r"\{.*?\}", "gpu-1", route.path))
        for route in application(shared_console()).routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    )


# What is nowhere is open only to who looks at it with a browser.
NOWHERE = ("GET", "/gpu-1")
OPEN = {("GET", "/healthz")} | {
    ("GET", re.sub(r"\{.*?\}", "gpu-1", route.path))
    for route in site.routes()
    if isinstance(route, Route) and not isinstance(route, site.UnknownPage)
}
GUARDED = [door for door in doors() if door not in OPEN]


def test_the_table_of_routes_is_not_empty_and_all_of_it_can_be_walked() -> None:
    assert len(application(shared_console()).routes) <= len(doors())
    assert {("PUT", "/api/v1/policies/gpu-1"), ("PUT", "/rest/scheduling/v1/numaaware")} <= set(GUARDED)
    assert {("GET", "/openapi.json"), ("GET", EVENTS), ("GET", "/rest/scheduling/api/v1/query")} <= set(
        GUARDED
    )


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}], ids=["no token", "wrong token"])
def test_without_a_token_every_door_is_shut(method: str, path: str, headers: dict[str, str]) -> None:
    answer = client(gate=TokenAuthentication(SECRET)).request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(("method", "path"), [door for door in GUARDED if door != NOWHERE])
def test_who_asks_for_a_page_finds_every_door_shut_as_well(method: str, path: str) -> None:
    answer = client(gate=TokenAuthentication(SECRET)).request(method, path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


@pytest.mark.parametrize("path", ["/nowhere", "/api", "/api/v2/nodes", "/healthz/", "/healthz/x", "/assets/"])
def test_so_is_every_wall(path: str) -> None:
    assert client(gate=TokenAuthentication(SECRET)).get(path).status_code == 401


@pytest.mark.parametrize(("method", "path"), sorted(OPEN))
def test_what_is_open_tells_nothing_of_the_cluster(method: str, path: str) -> None:
    answer = client(gate=TokenAuthentication(SECRET)).request(method, path)
    assert answer.status_code == 200
    kinds = ("text/html", "text/javascript", "text/css", "image/svg+xml")
    assert answer.headers["content-type"].startswith(kinds) or answer.content == b'{"status":"ok"}'


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_open(method: str) -> None:
    assert client(gate=TokenAuthentication(SECRET)).request(method, "/overview").status_code == 401


class FakeViewer:
    """Everybody is Eve, who may do these verbs everywhere."""

    def __init__(self, *verbs: str) -> None:
        self.verbs = verbs

    async def bearer(self, token: str, audience: str = "") -> Caller | None:
        assert (token, audience) == (SECRET, "")
        return Caller("eve")

    async def may(self, caller: Caller, verb: str, path: str) -> bool:
        assert caller == Caller("eve")
        assert path.startswith(f"{PATHS}/")
        return verb in self.verbs


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_with_the_wrong_verb_every_door_is_shut(method: str, path: str) -> None:
    others = {"get", "post", "put"} - {method.lower()}
    answer = client(gate=ClusterAuthentication(FakeViewer(*others))).request(method, path, headers=BEARER)
    assert answer.status_code == 403
    assert answer.json()["detail"] == f"eve may not {method.lower()} {PATHS}{path}"


@pytest.mark.parametrize(("method", "path"), [door for door in GUARDED if door != ("GET", EVENTS)])
def test_with_the_right_one_it_opens(method: str, path: str) -> None:
    found = console(nodes=2) if method != "GET" else shared_console()
    answer = client(found, gate=ClusterAuthentication(FakeViewer(method.lower()))).request(
        method, path, headers=BEARER
    )
    assert answer.status_code not in (401, 403, 500, 503)


@pytest.mark.parametrize(("method", "path"), [door for door in GUARDED if door[0] != "GET"])
def test_no_door_takes_more_than_it_can_carry(method: str, path: str) -> None:
    length = app.MOST_UPLOAD if "diagnose" in path else app.MOST_BYTES
    answer = client().request(method, path, content=b"{}", headers={"content-length": str(length + 1)})
    assert answer.status_code == 413


# Readers who stay


class FakeDoorkeeper:
    """Lets the same caller in so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def admit(self, ask: Ask) -> str:
        assert (ask.verb, ask.path) == ("get", EVENTS)
        self.left -= 1
        if self.left < 0:
            raise ProblemError(403, "no longer")
        return "eve"


def test_a_stream_ends_when_its_reader_may_not_read_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(guard, "_SECONDS_OF_TRUST", 0)
    writer = FakeDoorkeeper(5)
    answer = client(console(nodes=2), gate=writer).get(EVENTS, headers={"accept": "text/event-stream"})
    assert answer.status_code == 200
    # Once at the door, and once before each event.
    assert [line.split()[1] for line in answer.text.splitlines()[::3]] == ["hello", "beat", "beat", "beat"]
    assert writer.left == -1


def test_a_reader_is_not_looked_at_for_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BEAT_SECONDS", 0.001)
    monkeypatch.setattr(guard, "_SECONDS_OF_TRUST", 1)
    keeper = FakeDoorkeeper(2)
    answer = client(console(nodes=2), gate=keeper).get(EVENTS, headers={"accept": "text/event-stream"})
    assert answer.text.count("event: ") > 3
