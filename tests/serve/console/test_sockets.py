"""Clients that take their time, and requests that no browser would send: over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from numaware import web
from numaware.serve import guard
from numaware.serve.console.app import Access
from numaware.serve.console.openfuyao.prometheus import PATH
from support.console_server import RunningConsole, running
from support.console_world import console
from support.fake_prometheus import fake_prometheus

SLOW = 200
# Long enough for all of them to come and others to be answered meanwhile, on a machine that has more to do.
PATIENCE = 6
HEAD = b"GET /api/v1/cluster HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: "
BODY = (
    b"POST /api/v1/whatif HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    b"content-length: 100000\r\n\r\n"
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningConsole]:
    """A console with little patience."""
    monkeypatch.setattr(web, "_SECONDS_FOR_HEAD", PATIENCE)
    monkeypatch.setattr(guard, "_SECONDS_FOR_BODY", PATIENCE)
    with running(lambda: console(nodes=2)) as found:
        yield found


async def drip(host: str, port: int, beginning: bytes, there: asyncio.Semaphore) -> bytes:
    """One byte after the other until the console has had enough; what it said then."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(beginning)
    there.release()
    said = asyncio.create_task(reader.read())
    while not (said.done() or writer.is_closing()):
        writer.write(b"x")
        await asyncio.sleep(0.5)
    writer.transport.abort()
    try:
        return await said
    except ConnectionError:
        return b""


async def stall(host: str, port: int) -> bytes:
    """Nothing more after the beginning; what the console said then. (Who is still sending may not hear it.)"""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(BODY)
    said = await reader.read()
    writer.close()
    return said


def test_two_hundred_slow_clients_are_cut_off_and_stop_nobody(server: RunningConsole) -> None:
    url = urlsplit(server.url)
    host, port = str(url.hostname), int(url.port or 0)

    def ask() -> int:
        connection = http.client.HTTPConnection(host, port, timeout=30)
        connection.request("GET", "/api/v1/cluster")
        status = connection.getresponse().status
        connection.close()
        return status

    async def crowd() -> tuple[bytes, list[bytes]]:
        async with asyncio.timeout(60):
            silent = asyncio.create_task(stall(host, port))
            there = asyncio.Semaphore(0)
            slow = [
                asyncio.create_task(drip(host, port, HEAD if number % 2 else BODY, there))
                for number in range(SLOW)
            ]
            for _ in slow:
                await there.acquire()
            assert not any(task.done() for task in slow)
            assert [await asyncio.to_thread(ask) for _ in range(5)] == [200] * 5
            return await silent, await asyncio.gather(*slow)

    answered, said = asyncio.run(crowd())
    assert answered.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert {answer.partition(b"\r\n")[0] for answer in said[::2]} <= {b"HTTP/1.1 408 Request Timeout", b""}
    assert set(said[1::2]) == {b""}
    assert ask() == 200


def test_a_stream_with_a_body_that_never_comes_ends_and_breaks_nothing(server: RunningConsole) -> None:
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port), timeout=30) as connection:
        head = b"GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n"
        connection.sendall(head + b"content-length: 10\r\n\r\n")
        answer = b""
        while data := connection.recv(65536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


# Requests by hand


def status_of(url: str, request: bytes) -> int:
    """What the console makes of these bytes; 0 if it only hangs up."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
        except http.client.BadStatusLine:
            return 0
        return answer.status


@pytest.mark.parametrize(
    "target",
    [
        f"http://169.254.169.254{PATH}?query=up",
        "http://169.254.169.254/latest/meta-data",
        "//169.254.169.254/latest/meta-data",
        f"//169.254.169.254{PATH}?query=up",
        f"{PATH}/../../../../admin/tsdb/delete_series?query=up",
        f"{PATH}/..%2f..%2fadmin?query=up",
        f"{PATH}%2f..%2fadmin?query=up",
        f"{PATH}/http://169.254.169.254/?query=up",
        f"{PATH}@169.254.169.254/?query=up",
        "/rest/scheduling/api/v1/admin/tsdb/delete_series?match[]=up",
        "169.254.169.254:80",
        "*",
    ],
)
def test_no_address_leads_anywhere_but_here(target: str) -> None:
    with fake_prometheus() as prometheus:
        access = Access("127.0.0.1:0", prometheus=prometheus.url)
        with running(lambda: console(nodes=2), access) as server:
            status = status_of(server.url, f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            assert status in (0, 400, 404, 405, 421)
            assert prometheus.asked == []
            question = f"GET {PATH}?query=up&url=http://169.254.169.254/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            assert status_of(server.url, question.encode()) == 200
            assert prometheus.asked == ["/api/v1/query?query=up"]


@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1:80/evil", "127.0.0.1, evil.example"])
def test_nor_does_a_host_that_is_not_ours(host: str) -> None:
    with fake_prometheus() as prometheus:
        access = Access("127.0.0.1:0", prometheus=prometheus.url)
        with running(lambda: console(nodes=2), access) as server:
            request = f"GET {PATH}?query=up HTTP/1.1\r\nhost: {host}\r\n\r\n"
            assert status_of(server.url, request.encode()) == 421
            assert prometheus.asked == []
