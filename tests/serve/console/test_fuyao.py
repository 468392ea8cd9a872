"""openFuyao's endpoints, as its own console would call them."""

from __future__ import annotations

import pytest

from console_world import client, console

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


@pytest.mark.parametrize("name", ["numadistance", "podaffinity"])
def test_what_is_not_installed_says_so(name: str) -> None:
    api = client()
    assert api.get(f"/rest/scheduling/v1/{name}").json()["data"]["installed"] is False
    answer = api.put(f"/rest/scheduling/v1/{name}?status=open")
    assert answer.status_code == answer.json()["code"] == 409
    assert answer.json()["msg"].startswith("not installed")


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
