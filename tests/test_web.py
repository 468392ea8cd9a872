from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from numaware import web
from numaware.errors import InputError
from numaware.serve.guard import LOOPBACK, Guard
from numaware.serve.metrics import Metrics
from numaware.web import Tls, host_and_port, read_token, serving, status_routes


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


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    subprocess.run([*made.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def test_a_certificate_makes_it_https(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)

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


# Clients that do not get on

ANSWER = b"." * (8 << 20)


async def long(_: Request) -> Response:
    return Response(ANSWER)


@asynccontextmanager
async def connected(asked: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """One connection to a server that is asked this, with as little room for its answer as the system gives."""
    async with serving(Starlette(routes=[Route("/long", long)]), "127.0.0.1:0") as url:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, host_and_port(url.removeprefix("http://")))
        reader, writer = await asyncio.open_connection(sock=made)
        writer.write(asked)
        yield reader, writer
        writer.transport.abort()


@pytest.mark.parametrize("beginning", [b"", b"GET /heal"])
def test_a_head_that_comes_byte_by_byte_is_not_waited_for(
    beginning: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_SECONDS_FOR_HEAD", 0.3)

    async def run() -> None:
        async with connected(beginning) as (reader, writer), asyncio.timeout(60):
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0.05)
            with suppress(ConnectionError):
                assert await reader.read() == b""

    asyncio.run(run())


def test_nor_is_the_next_head_of_a_connection_that_was_quick_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with (
            connected(b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n") as (reader, writer),
            asyncio.timeout(60),
        ):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 404")
            monkeypatch.setattr(web, "_SECONDS_FOR_HEAD", 0.3)
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0.05)

    asyncio.run(run())


@pytest.mark.parametrize("more", ["", "connection: close\r\n"])
def test_an_answer_that_nobody_reads_is_not_kept(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_SECONDS_TO_READ", 0.3)

    async def run() -> None:
        asked = f"GET /long HTTP/1.1\r\nhost: x\r\n{more}\r\n".encode()
        async with connected(asked) as (_, writer), asyncio.timeout(60):
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(0.05)
            assert writer.is_closing()

    asyncio.run(run())


@pytest.mark.parametrize(
    "slow", [b"", b"GET /he", b"POST /take HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx"]
)
def test_however_many_are_slow_the_next_one_is_answered(slow: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_MOST_CONNECTIONS", 20)

    async def take(request: Request) -> Response:
        return Response(await request.body())

    async def run() -> None:
        routes = [*status_routes(CollectorRegistry(), str), Route("/take", take, methods=["POST"])]
        guarded = [Middleware(Guard, names=LOOPBACK | {"x"}, gate=None, public=(), limit=lambda _: 99)]
        async with serving(Starlette(routes=routes, middleware=guarded), "127.0.0.1:0") as url:
            host, port = host_and_port(url.removeprefix("http://"))
            opened = []
            for _ in range(60):
                opened.append(await asyncio.open_connection(host, port))
                opened[-1][1].write(slow)
            async with aiohttp.ClientSession(url) as session, session.get("/healthz") as answer:
                assert answer.status == 200
            with suppress(ConnectionError):
                assert await opened[0][0].read() == b""
            for _, writer in opened:
                writer.transport.abort()

    asyncio.run(run())


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = asyncio.Event()

    async def take(request: Request) -> Response:
        try:
            return Response(await request.body())
        finally:
            left.set()

    async def run() -> None:
        guarded = [Middleware(Guard, names=LOOPBACK, gate=None, public=(), limit=lambda _: 99)]
        app = Starlette(routes=[Route("/take", take, methods=["POST"])], middleware=guarded)
        async with serving(app, "127.0.0.1:0") as url:
            _, writer = await asyncio.open_connection(*host_and_port(url.removeprefix("http://")))
            writer.write(b"POST /take HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx")
            await asyncio.sleep(0.1)
            writer.transport.abort()
            async with asyncio.timeout(30):
                await left.wait()

    asyncio.run(run())
    assert caplog.text == ""


def test_what_is_served_with_a_certificate_is_never_asked_for_without(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)

    async def run() -> None:
        for tls in (Tls(certificate, key), None):
            async with (
                serving(app(CollectorRegistry()), "127.0.0.1:0", tls) as url,
                aiohttp.ClientSession() as session,
                session.get(f"{url}/healthz", ssl=False) as answer,
            ):
                assert ("strict-transport-security" in answer.headers) == (tls is not None)

    asyncio.run(run())


@pytest.mark.parametrize(
    "text", ["", "x", "fifteen letters", "0123456789abcde", "x" * 5000, "0123456789 abcdef", "é" * 20]
)
def test_a_token_that_could_be_guessed_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="holds no token"):
        read_token(file)


def test_a_slow_reader_who_reads_gets_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_SECONDS_TO_READ", 1.0)

    async def run() -> None:
        async with connected(b"GET /long HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n") as (reader, _):
            got = 0
            while data := await reader.read(1 << 17):
                got += len(data)
                await asyncio.sleep(0.02)
            assert got > len(ANSWER)

    asyncio.run(run())
