"""Asking about moments that are over, as the page and programs do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from numaware.serve.console.history.file import HOUR
from support.console_world import NOW, client, shared_console
from support.recorded_world import Recorded, lab, moment, recording

MINUTE = 60_000
PAST = NOW - 10 * MINUTE


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """The lab for an hour, looked at every half minute, without five minutes in between."""
    path: Path = tmp_path_factory.mktemp("history") / "lab.db"
    world = lab(nodes=12)
    with recording(path, world) as found:
        for time in range(NOW - HOUR, NOW - 30 * MINUTE + 1, 30_000):
            found.look(time)
    with recording(path, world) as found:
        for time in range(NOW - 25 * MINUTE, NOW + 1, 30_000):
            found.look(time)
        yield found


@pytest.fixture(scope="module")
def asking(recorded: Recorded) -> TestClient:
    return client(recorded.console)


def get(asking: TestClient, path: str, at: int, **query: Any) -> Any:
    answer = asking.get(path, params={**query, "at": moment(at)})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "path",
    ["cluster", "wall", "nodes", "nodes/gpu-0", "pods", "events", "headroom", "monitoring", "policies"],
)
def test_an_answer_about_the_past_is_asked_for_anew_and_not_sent_twice(path: str, asking: TestClient) -> None:
    url = f"/api/v1/{path}"
    first = asking.get(url, params={"at": moment(PAST)})
    assert first.status_code == 200, first.text
    # A browser that may keep it would show it after the token was given back.
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    assert not tag.startswith("W/")
    again = asking.get(url, params={"at": moment(PAST)}, headers={"if-none-match": tag})
    assert again.status_code == 304
    assert asking.get(url).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("at", ["yesterday", "2026-11-14", "2026-11-14T03:12:00", "", "1800000000000"])
def test_what_is_no_moment_is_told(at: str, asking: TestClient) -> None:
    answer = asking.get("/api/v1/cluster", params={"at": at})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("at", [NOW - 2 * HOUR, NOW - 27 * MINUTE, NOW + HOUR, -62_135_596_800_000])
def test_a_time_that_is_not_kept_is_told_with_those_that_are(at: int, asking: TestClient) -> None:
    answer = asking.get("/api/v1/nodes", params={"at": moment(at)})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()["detail"]
    assert "kept from 2027-01-15T07:00:00Z to 2027-01-15T07:30:00Z, from 2027-01-15T07:35:00Z" in told


def test_a_console_that_keeps_nothing_says_what_would() -> None:
    answer = client(shared_console()).get("/api/v1/cluster", params={"at": moment(PAST)})
    assert answer.status_code == 404
    assert "--record FILE" in answer.json()["hint"]
    kept = client(shared_console()).get("/api/v1/history").json()
    assert (kept["file"], kept["spans"], kept["previous"], kept["next"]) == ("", [], None, None)


def test_whatever_changes_something_takes_no_moment(asking: TestClient) -> None:
    described = asking.get("/openapi.json").json()["paths"]
    footprint = {
        (path, method)
        for path, methods in described.items()
        for method, one in methods.items()
        if any(parameter.get("name") == "at" for parameter in one["parameters"])
    }
    assert ("/api/v1/nodes/{name}", "get") in footprint
    assert ("/api/v1/whatif", "post") in footprint
    assert not {pair for pair in footprint if pair[1] == "put" or pair[0].startswith("/api/v1/simulate")}
    answer = asking.put("/api/v1/policies/numaaware", params={"at": moment(PAST)}, json={"status": "open"})
    assert answer.status_code == 400


def test_why_and_what_if_are_answered_by_the_machines_of_then(asking: TestClient) -> None:
    before = get(asking, "/api/v1/nodes/gpu-0", PAST)
    pod = next(one for one in before["pods"] if one["slot"] is not None)
    told = get(asking, "/api/v1/explain", PAST, node="gpu-0", pod=pod["pod"])
    assert told["explanation"]["admitted"]
    shape = {"shape": {"cpu": "4", "memory": "4Gi", "gpu": 0}}
    answers = asking.post("/api/v1/whatif", params={"at": moment(PAST)}, json=shape).json()
    strips = {answer["node"]: answer["strips"] for answer in answers["nodes"]}
    assert strips == {tile[0]: tile[8] for tile in get(asking, "/api/v1/wall", PAST)["tiles"]}
    now = {tile[0]: tile[8] for tile in asking.get("/api/v1/wall").json()["tiles"]}
    assert strips != now


def test_the_stream_of_changes_is_a_list_in_the_past(asking: TestClient) -> None:
    answer = asking.get(
        "/api/v1/events", params={"at": moment(PAST)}, headers={"accept": "text/event-stream"}
    )
    assert answer.headers["content-type"] == "application/json"
    assert all(event["time"] <= PAST for event in answer.json()["items"])


def around(asking: TestClient, at: int, node: str) -> Any:
    answer = asking.get("/api/v1/history", params={"around": moment(at), "node": node})
    # What comes next is not known for ever.
    assert answer.headers["cache-control"] == "no-cache"
    return answer.json()


def test_one_steps_from_change_to_change(asking: TestClient) -> None:
    steps: list[int] = []
    for node in ("", "gpu-0"):
        at = PAST
        steps.clear()
        for _ in range(4):
            kept = around(asking, at, node)
            assert kept["previous"] < at
            at = kept["previous"]
            steps.append(at)
        for later in reversed(steps[:-1]):
            at = around(asking, at, node)["next"]
            assert at == later
    changed = [get(asking, "/api/v1/nodes/gpu-0", time)["pods"] for time in steps]
    assert any(one != other for one, other in pairwise(changed))


def test_charts_go_back_as_far_as_is_kept_and_have_a_hole_where_nothing_is(asking: TestClient) -> None:
    series = asking.get("/api/v1/monitoring", params={"node": "gpu-0", "minutes": 120}).json()
    assert series["keptFromMs"] == NOW - HOUR
    numa = series["numa"][0]
    known = {time for time, value in zip(series["times"], numa["cpu"], strict=True) if value is not None}
    hole = [time for time in series["times"] if NOW - 30 * MINUTE < time < NOW - 25 * MINUTE]
    assert hole
    assert known == {time for time in series["times"] if time >= NOW - HOUR} - set(hole)
    assert not any(
        point for point, time in zip(series["cluster"], series["times"], strict=True) if time in hole
    )
    assert sum(point["refusals"] for point in series["cluster"] if point) > 0


def test_refusals_are_told_over_all_the_time_that_is_kept(asking: TestClient) -> None:
    found = asking.get("/api/v1/history/refusals").json()
    assert found["fromMs"] == NOW - HOUR
    assert len(found["counts"]) == HOUR // found["stepMs"] <= 120
    series = asking.get("/api/v1/monitoring", params={"minutes": 120}).json()
    refused = sum(point["refusals"] for point in series["cluster"] if point)
    assert sum(count or 0 for count in found["counts"]) == refused > 0
    nobody_looked = range(30 * MINUTE // found["stepMs"], 35 * MINUTE // found["stepMs"] - 1)
    assert {found["counts"][place] for place in nobody_looked} == {None}


def test_a_console_that_keeps_nothing_tells_no_refusals() -> None:
    found = client(shared_console()).get("/api/v1/history/refusals").json()
    assert found["counts"] == []


def test_charts_of_the_past_end_there_and_say_what_the_node_says(asking: TestClient) -> None:
    series = get(asking, "/api/v1/monitoring", PAST, node="gpu-0", minutes=15)
    assert (series["toMs"], series["fromMs"]) == (PAST, PAST - 15 * MINUTE)
    strips = get(asking, "/api/v1/nodes/gpu-0", series["times"][-1])["summary"]["numa"]
    assert [numa["cpu"][-1] for numa in series["numa"]] == [strip[3] + strip[4] for strip in strips]


def test_switches_stand_where_they_stood(asking: TestClient) -> None:
    """The lab's operator opens cluster NUMA affinity after forty minutes."""
    for at, status in ((NOW - 40 * MINUTE, "close"), (PAST, "open")):
        policies = get(asking, "/api/v1/policies", at)
        assert policies["switches"][0]["status"] == status
        assert len(policies["changes"]) == (status == "open")
