"""The query proxy: one question, one Prometheus, nobody else."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest
from starlette.testclient import TestClient

from console_world import shared_console
from numaware.errors import InputError
from numaware.serve.console.app import application
from numaware.serve.console.prometheus import PATH, checked


class Fake(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Fake.asked.append(self.path)
        kind = "application/json"
        status, body = 200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'
        if "html" in self.path:
            kind, body = "text/html", b"<html>"
        if "large" in self.path:
            body = b'"' + b"x" * (9 << 20) + b'"'
        if "away" in self.path:
            status = 302
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("location", "http://169.254.169.254/latest/meta-data")
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def ask(prometheus: str | None, **query: str) -> tuple[int, object]:
    app = application(shared_console(), metrics=prometheus)
    answer = TestClient(app, base_url="http://127.0.0.1:8080").get(PATH, params=query)
    return answer.status_code, answer.json()


def test_an_answer_is_passed_on_unchanged(url: str) -> None:
    status, body = ask(url, query="numa_node_cpus_count")
    assert (status, body) == (200, {"status": "success", "data": {"resultType": "vector", "result": []}})
    assert Fake.asked[-1] == "/api/v1/query?query=numa_node_cpus_count"


def test_nothing_but_the_question_is_passed_on(url: str) -> None:
    ask(url, query="up", url="http://169.254.169.254", path="../admin", time="1", match="x")
    assert Fake.asked[-1] == "/api/v1/query?query=up&time=1"


@pytest.mark.parametrize("query", ["html", "large"])
def test_what_is_no_answer_of_a_prometheus_is_not_passed_on(url: str, query: str) -> None:
    assert ask(url, query=query)[0] == 502


def test_it_follows_nobody_elsewhere(url: str) -> None:
    before = len(Fake.asked)
    assert ask(url, query="away")[0] == 502
    assert len(Fake.asked) == before + 1


def test_without_a_question_or_a_prometheus_it_says_so(url: str) -> None:
    assert ask(url) == (400, {"code": 400, "msg": "parameters not found"})
    assert ask(url, query="x" * 9000)[0] == 400
    assert ask(None, query="up")[0] == 404
    assert ask("http://127.0.0.1:9", query="up") == (
        502,
        {"code": 502, "msg": "Prometheus cannot be reached"},
    )


@pytest.mark.parametrize(
    "given", ["", "127.0.0.1:9090", "ftp://x", "http://", "http://a?b=c", "http://u:p@a", "http://a#b"]
)
def test_other_addresses_are_refused(given: str) -> None:
    with pytest.raises(InputError):
        checked(given)
