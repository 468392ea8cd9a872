"""Who may come in: hosts, origins, tokens, sizes, rates, and what every answer carries."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from starlette.types import Message

from numaware.serve import guard
from numaware.serve.guard import Rate, _Bounded
from numaware.serve.problems import ProblemError
from support.console_world import client, console

SECRET = str(uuid.UUID(int=11))
WRITE = {"status": "close"}


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/api/v1/cluster", "/nowhere", "/rest/scheduling/v1/numaaware"]
)
def test_every_answer_carries_the_rules_for_browsers(path: str) -> None:
    headers = client().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "169.254.169.254",
        "",
        "evil.example:8080",
        "[::1].evil.example",
        "localhost:80/evil",
        "localhost@evil.example",
        "localhost:80@evil.example",
        "localhost evil.example",
    ],
)
def test_a_console_on_loopback_answers_to_no_other_name(host: str) -> None:
    """Else any site could have its own name point here, and read everything."""
    assert client().get("/api/v1/cluster", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:9", "[::1]:8080"])
def test_its_own_names_are_fine(host: str) -> None:
    assert client().get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/policies/numaaware", "/rest/scheduling/v1/numaaware"])
def test_another_site_changes_nothing(headers: dict[str, str], path: str) -> None:
    found = console(nodes=2)
    before = found.world.switches[0].status
    answer = client(found).put(path, json=WRITE, headers=headers)
    assert answer.status_code == 403
    assert found.world.switches[0].status == before == "open"


def test_the_page_itself_and_programs_may() -> None:
    """The page comes by https where a proxy before the console ends TLS."""
    found = console(nodes=2)
    for headers in (
        {},
        {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"},
        {"origin": "https://127.0.0.1:8080", "sec-fetch-site": "same-origin"},
    ):
        assert client(found).put("/api/v1/policies/numaaware", json=WRITE, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_form_is_no_json(kind: str) -> None:
    """What a page may send elsewhere without asking first."""
    answer = client().post("/api/v1/whatif", content=b"{}", headers={"content-type": kind})
    assert answer.status_code == 415


@pytest.mark.parametrize("path", ["/api/v1/policies/numaaware", "/rest/scheduling/v1/numaaware"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_link_and_no_form_moves_a_switch(method: str, path: str) -> None:
    found = console(nodes=2)
    client(found).request(method, path, params={"status": "close", "_method": "PUT"})
    client(found).request(method, path, headers={"x-http-method-override": "PUT"}, params={"status": "close"})
    assert found.world.switches[0].status == "open"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {SECRET}"},
        {"authorization": "Bearer "},
    ],
)
@pytest.mark.parametrize(
    "path", ["/api/v1/cluster", "/api/v1/nodes", "/api/v1/events", "/rest/scheduling/v1/numaaware"]
)
def test_without_the_token_nothing_is_told(path: str, headers: dict[str, str]) -> None:
    answer = client(token=SECRET).get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_with_the_token_everything_is() -> None:
    guarded = client(token=SECRET)
    assert guarded.get("/api/v1/cluster", headers={"authorization": f"Bearer {SECRET}"}).status_code == 200
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/overview").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/api/v1/nodes"), ("POST", "/api/v1/cluster"), ("PUT", "/healthz"), ("PATCH", "/overview")],
)
def test_other_verbs_are_refused(method: str, path: str) -> None:
    assert client().request(method, path).status_code in (404, 405)


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    answer = client().post(
        "/api/v1/whatif",
        content=b"{}",
        headers={"content-type": "application/json", "content-length": "99999999"},
    )
    assert answer.status_code == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "", "9" * 5000])
def test_a_length_that_is_none_is_refused(length: str) -> None:
    answer = client().post("/api/v1/whatif", content=b"{}", headers={"content-length": length})
    assert answer.status_code == 400


def test_a_body_that_does_not_say_so_is_cut_off() -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * (1 << 16)

    answer = client().post("/api/v1/whatif", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_SECONDS_FOR_BODY", 0.01)

    async def never() -> Message:
        await asyncio.sleep(10)
        return {}

    with pytest.raises(ProblemError) as caught:
        asyncio.run(_call(_Bounded(never, 10)))
    assert caught.value.status == 408


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_SECONDS_FOR_BODY", 0.2)

    async def drip() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read() -> None:
        bounded = _Bounded(drip, 1 << 20)
        while True:
            await bounded()

    with pytest.raises(ProblemError) as caught:
        asyncio.run(read())
    assert caught.value.status == 408


def test_a_body_that_keeps_coming_gets_the_time_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = 40

    async def steady() -> Message:
        nonlocal chunks
        chunks -= 1
        return {"type": "http.request", "body": b"x" * (64 << 10), "more_body": chunks > 0}

    async def read() -> int:
        bounded = _Bounded(steady, 64 << 20)
        while not bounded.complete:
            await bounded()
            # As if it had taken so long.
            bounded.began -= 3
        return bounded.got

    assert asyncio.run(read()) == 40 * (64 << 10)


async def _call(receive: _Bounded) -> object:
    return await receive()


def test_a_rate_lets_bursts_through_and_then_holds() -> None:
    now = [0.0]
    rate = Rate(10, 3, lambda: now[0])
    assert [rate.wait("a") for _ in range(3)] == [0, 0, 0]
    assert rate.wait("a") == pytest.approx(0.1)
    assert rate.wait("b") == 0
    now[0] = 0.1
    assert rate.wait("a") == 0
    assert rate.wait("a") > 0


def test_the_rate_remembers_no_more_clients_than_it_can() -> None:
    rate = Rate(1, 1, lambda: 0.0)
    for number in range(10_000):
        rate.wait(str(number))
    assert len(rate._left) <= 4096


def test_who_looks_after_the_process_is_answered_whoever_else_calls_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Rate, "wait", lambda *_: 1.0)
    assert client().get("/api/v1/simulate").status_code == 429
    assert client().get("/healthz").status_code == 200
