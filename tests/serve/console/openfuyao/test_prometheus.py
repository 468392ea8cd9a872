"""The query proxy: one question, one Prometheus, nobody else; and what is known of that Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from numaware.errors import InputError
from numaware.serve.console.app import application
from numaware.serve.console.openfuyao import prometheus
from numaware.serve.console.openfuyao.prometheus import PATH, checked
from support.console_world import shared_console
from support.fake_prometheus import Manner, fake_prometheus

ROOT = Path(__file__).parents[4]
RANGE = f"{PATH}_range"
NOBODY = "http://127.0.0.1:9"


def ask(metrics: str | None, target: str = PATH, /, **query: str) -> tuple[int, Any]:
    app = application(shared_console(), metrics=metrics)
    answer = TestClient(app, base_url="http://127.0.0.1:8080").get(target, params=query)
    return answer.status_code, answer.json()


def measured(url: str | None) -> dict[str, Any]:
    status, body = ask(url, "/api/v1/monitoring/prometheus")
    assert status == 200
    assert isinstance(body, dict)
    return body


# The proxy


def test_an_answer_is_passed_on_unchanged() -> None:
    with fake_prometheus("empty") as server:
        answer = ask(server.url, query="numa_node_cpus_count")
    assert answer == (200, {"status": "success", "data": {"resultType": "vector", "result": []}})
    assert server.asked == ["/api/v1/query?query=numa_node_cpus_count"]


def test_a_range_is_passed_on_as_a_range() -> None:
    with fake_prometheus() as server:
        status, body = ask(
            server.url, RANGE, query='numa{node="gpu-1"}', start="60", end="120", step="30", time="1"
        )
    assert status == 200
    assert body["data"]["resultType"] == "matrix"
    assert [moment for moment, _ in body["data"]["result"][0]["values"]] == [60, 90, 120]
    assert server.asked == ["/api/v1/query_range?query=numa%7Bnode%3D%22gpu-1%22%7D&start=60&end=120&step=30"]


@pytest.mark.parametrize("path", ["/rest/scheduling/api/v1/series", f"{PATH}_exemplars", f"{PATH}/../admin"])
def test_only_questions_reach_prometheus(path: str) -> None:
    with fake_prometheus() as server:
        app = application(shared_console(), metrics=server.url)
        assert TestClient(app, base_url="http://127.0.0.1:8080").get(path).status_code == 404
    assert server.asked == []


def test_nothing_but_the_question_is_passed_on() -> None:
    with fake_prometheus() as server:
        ask(server.url, query="up", url="http://169.254.169.254", path="../admin", time="1", match="x")
    assert server.asked == ["/api/v1/query?query=up&time=1"]


def test_what_prometheus_says_of_a_bad_question_is_passed_on() -> None:
    with fake_prometheus("overloaded") as server:
        status, body = ask(server.url, RANGE, query="up", start="0", end="1", step="1")
    assert (status, body["error"]) == (500, "too many samples")


@pytest.mark.parametrize("manner", ["html", "large", "starting"])
def test_what_is_no_answer_of_a_prometheus_is_not_passed_on(manner: Manner) -> None:
    with fake_prometheus(manner) as server:
        assert ask(server.url, query="up")[0] == 502


def test_it_follows_nobody_elsewhere() -> None:
    with fake_prometheus("away") as server:
        assert ask(server.url, query="up")[0] == 502
    assert len(server.asked) == 1


def test_without_a_question_or_a_prometheus_it_says_so() -> None:
    with fake_prometheus() as server:
        assert ask(server.url) == (400, {"code": 400, "msg": "parameters not found"})
        assert ask(server.url, query="x" * 9000)[0] == 400
    assert server.asked == []
    assert ask(None, query="up")[0] == 404
    assert ask(NOBODY, query="up") == (502, {"code": 502, "msg": "Prometheus cannot be reached"})


def test_a_prometheus_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_SECONDS", 0.2)
    with fake_prometheus("silent") as server:
        assert ask(server.url, query="up") == (
            504,
            {"code": 504, "msg": "Prometheus did not answer in time"},
        )
        assert measured(server.url)["state"] == "late"


@pytest.mark.parametrize(
    "given",
    [
        *("", "127.0.0.1:9090", "ftp://x", "http://", "http://a?b=c", "http://u:p@a", "http://a#b"),
        *("http://[::1", "http://a:b", "http://a:99999", "http://a:0"),
    ],
)
def test_other_addresses_are_refused(given: str) -> None:
    with pytest.raises(InputError):
        checked(given)


# What is known of it


def test_a_prometheus_is_known_by_its_clock_its_exporters_and_its_nodes() -> None:
    with fake_prometheus(nodes=("b", "a"), down=("c:9201",)) as server:
        found = measured(server.url)
    assert found["time"] > 1_700_000_000_000
    del found["time"]
    rules = (ROOT / "deploy/agent/alerts.yaml").read_text()
    assert rules.count(f"> {found.pop('tooRemote') / 100}\n") == 2
    assert found == {
        "state": "answers",
        "message": "",
        "exporters": 3,
        "down": ["c:9201"],
        "nodes": ["a", "b"],
    }


def test_a_prometheus_that_scrapes_nobody_knows_nothing() -> None:
    with fake_prometheus("empty") as server:
        found = measured(server.url)
    assert (found["state"], found["exporters"], found["nodes"]) == ("answers", 0, [])


@pytest.mark.parametrize(
    ("manner", "state", "message"),
    [
        ("starting", "failed", "Prometheus answered with 503 Service Unavailable"),
        ("overloaded", "failed", "500: too many samples"),
        ("html", "unreadable", "Prometheus gave no answer that can be passed on"),
        ("no-prometheus", "unreadable", "that is no answer of a Prometheus"),
        ("large", "unreadable", "Prometheus gave no answer that can be passed on"),
        ("away", "unreadable", "Prometheus gave no answer that can be passed on"),
    ],
)
def test_a_broken_prometheus_is_told_by_how_it_is_broken(manner: Manner, state: str, message: str) -> None:
    with fake_prometheus(manner) as server:
        found = measured(server.url)
    assert (found["state"], found["message"]) == (state, message)


def test_no_prometheus_and_one_that_is_gone_are_different_things() -> None:
    assert measured(None)["state"] == "none"
    assert measured(NOBODY)["state"] == "unreachable"
