from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from numaware import web
from numaware.errors import InputError
from numaware.serve.metrics import Metrics
from numaware.web import Tls, host_and_port, serving, status_routes


def app(registry: CollectorRegistry, unready: Callable[[], str] = str) -> Starlette:
    return Starlette(routes=status_routes(registry, unready))


def test_health_readiness_and_metrics_are_served_on_a_port_of_the_systems_choice() -> None:
    metrics = Metrics()
    metrics.attempts.labels("scheduled").inc()
    reason = "nodes have not been listed yet"

    async def run() -> None:
        async with (
            serving(app(metrics.registry, lambda: reason), "127.0.0.1:0") as address,
            aiohttp.ClientSession(address) as session,
        ):
            async with session.get("/healthz") as answer:
                assert (answer.status, await answer.json()) == (200, {"status": "ok"})
            async with session.get("/readyz") as answer:
                assert answer.status == 503
                assert (await answer.json())["reason"] == reason
            async with session.get(
                "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
            ) as answer:
                text = await answer.text()
                assert answer.headers["content-type"].startswith("application/openmetrics-text")
                assert 'numaware_scheduling_attempts_total{result="scheduled"} 1.0' in text
                assert text.endswith("# EOF\n")

    asyncio.run(run())


def test_a_certificate_makes_it_https(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    subprocess.run([*made.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)

    async def run() -> None:
        async with (
            serving(app(CollectorRegistry()), "127.0.0.1:0", Tls(certificate, key)) as address,
            aiohttp.ClientSession() as session,
            session.get(f"{address}/readyz", ssl=False) as answer,
        ):
            assert address.startswith("https://")
            assert answer.status == 200

    asyncio.run(run())


def test_a_missing_certificate_is_one_line(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(
            app(CollectorRegistry()), "127.0.0.1:0", Tls(tmp_path / "no.crt", tmp_path / "no.key")
        ):
            pass

    with pytest.raises(InputError, match=r"no\.crt: cannot be used"):
        asyncio.run(run())


def test_a_port_that_is_taken_is_one_line() -> None:
    async def run() -> None:
        async with serving(app(CollectorRegistry()), "127.0.0.1:0") as address:
            taken = address.removeprefix("http://")
            with pytest.raises(InputError, match="cannot be listened on"):
                async with serving(app(CollectorRegistry()), taken):
                    pass

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:9443", ("::1", 9443)), ("[::]:9201", ("::", 9201))],
)
def test_addresses_are_host_and_port(address: str, expected: tuple[str, int]) -> None:
    assert host_and_port(address) == expected


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", "localhost:http", "1.2.3.4:70000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="is no address to listen on"):
        host_and_port(address)


def test_connections_are_known_for_tcp_so_that_small_answers_are_sent_at_once() -> None:
    """asyncio turns off the system's waiting for more to send (Nagle) only where a socket says so."""
    listener = web._listen("127.0.0.1", 0, "127.0.0.1:0")
    with closing(listener):
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with closing(accepted):
                assert accepted.proto == socket.IPPROTO_TCP
