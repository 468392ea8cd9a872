#!/usr/bin/env python3
"""What strangers' requests cost the servers: the table of docs/security.md, "Requests".

    .venv/bin/python scripts/attack_http.py

Starts a console, an extender (on an API server that only this script has) or an agent as a process of its own on loopback,
once for each attack, and asks `/healthz` on a new connection all the while. Prints a row for each: how the attack was answered,
the time until its last answer, the 99th percentile of `/healthz` and how often it failed, the most memory the server held, and
the lines in its log. Every loop is bounded. Linux only: memory is read from /proc.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import select
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.attacked_servers import TOKEN, Server, said, started

_JSON = {"content-type": "application/json"}
_POD = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}"
_BIND = json.dumps({"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n"}).encode()
# What is over sooner is done again, so that the percentile is one.
_SECONDS_AT_LEAST = 8


class Attack(NamedTuple):
    """What is done to which server; tells what was answered."""

    server: str
    name: str
    act: Callable[[Server], Awaitable[str]]


def _posts(
    path: str, bodies: Iterable[bytes], headers: dict[str, str] = _JSON
) -> Callable[[Server], Awaitable[str]]:
    """All at once."""

    async def act(server: Server) -> str:
        async with aiohttp.ClientSession(server.url) as session:

            async def post(body: bytes) -> int | str:
                try:
                    async with session.post(path, data=body, headers=headers) as answer:
                        await answer.read()
                        return answer.status
                except aiohttp.ClientOSError:
                    # Answered and closed before all of the body was sent.
                    return "closed"

            return _counted(await asyncio.gather(*map(post, bodies)))

    return act


def _gets(paths: list[str]) -> Callable[[Server], Awaitable[str]]:
    async def act(server: Server) -> str:
        async with aiohttp.ClientSession(server.url) as session:

            async def get(path: str) -> int:
                async with session.get(path) as answer:
                    await answer.read()
                    return answer.status

            return _counted(await asyncio.gather(*map(get, paths)))

    return act


def _slow(count: int, head: str, seconds: float = 15) -> Callable[[Server], Awaitable[str]]:
    """Connections that send this and then one byte a second."""

    async def act(server: Server) -> str:
        host, _, port = server.url.removeprefix("http://").partition(":")
        data = head.format(host=host, port=port, token=TOKEN).encode()
        writers = []
        for _ in range(count):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            writers.append(writer)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for writer in writers:
                if not writer.is_closing():
                    writer.write(b"x")
            await asyncio.sleep(1)
        open_still = sum(not writer.is_closing() for writer in writers)
        for writer in writers:
            writer.transport.abort()
        return f"{count - open_still} closed"

    return act


def _leaving(count: int) -> Callable[[Server], Awaitable[str]]:
    async def act(server: Server) -> str:
        host, _, port = server.url.removeprefix("http://").partition(":")
        head = _BODY.format(path="/api/v1/whatif", host=host, port=port, token=TOKEN).encode()
        for _ in range(count):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(head + b"{")
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.transport.abort()
        return "left"

    return act


def _counted(statuses: Iterable[int | str]) -> str:
    counts = sorted(Counter(map(str, statuses)).items())
    return ", ".join(f"{number} x {status}" for status, number in counts)


_HEAD = "GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\nX-Slow: "
_BODY = (
    "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
    "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
)


def _attacks() -> list[Attack]:
    lists = f"x0: &x0 {_POD}\n" + "".join(
        f"x{n}: &x{n} {{kind: List, items: [{', '.join([f'*x{n - 1}'] * 100)}]}}\n" for n in range(1, 5)
    )
    flood = f"x0: &x0 {_POD}\nkind: List\nitems: [{'*x0,' * 60_000}]\n"
    containers = ", ".join(
        f"{{name: c{n}, resources: {{limits: {{cpu: 500m, memory: 1Mi}}}}}}" for n in range(250)
    )
    large = f"{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{containers: [{containers}]}}}}"
    noise = [
        b"",
        b"{",
        b"[" * 5000,
        b'{"manifest": "\xff"}',
        b'{"pod": "x/y"}',
        b'{"shape": {"cpu": "1e999"}}',
    ]

    def asked(manifest: str) -> bytes:
        return json.dumps({"manifest": manifest, "node": "gpu-1"}).encode()

    def bind(**headers: str) -> Callable[[Server], Awaitable[str]]:
        token = {"authorization": f"Bearer {TOKEN}"}
        return _posts("/extender/bind", [_BIND] * 50, {**_JSON, **token, **headers})

    whatif, explain = "/api/v1/whatif", "/api/v1/explain"
    shapes = [f"/api/v1/wall?cpu={cpu}&memory={memory}Gi" for cpu in range(1, 21) for memory in range(1, 11)]
    return [
        Attack("console", "1.9 kB of YAML aliases, lists in lists", _posts(whatif, [asked(lists)])),
        Attack("console", "20 of: 60,000 aliases in one list", _posts(whatif, [asked(flood)] * 20)),
        Attack("console", "20 of: what-if with 250 containers", _posts(whatif, [asked(large)] * 20)),
        Attack("console", "20 of: explanation of 250 containers", _posts(explain, [asked(large)] * 20)),
        Attack("console", "200 shapes that nobody asked about before", _gets(shapes)),
        Attack("console", "1,200 bodies that are none", _posts(whatif, noise * 200)),
        Attack("console", "515 bodies, byte by byte", _slow(515, _BODY.replace("{path}", whatif))),
        Attack("console", "600 heads, byte by byte", _slow(600, _HEAD)),
        Attack("console", "300 clients that leave in mid-body", _leaving(300)),
        Attack("extender", "50 binds from another site", bind(origin="http://evil.example")),
        Attack("extender", "50 binds by a rebound name", bind(host="localhost.evil.example")),
        Attack("extender", "50 binds as a form", bind(**{"content-type": "text/plain"})),
        Attack("extender", "50 binds without the token", bind(authorization="")),
        Attack(
            "extender", "515 bodies, byte by byte", _slow(515, _BODY.replace("{path}", "/extender/filter"))
        ),
        Attack(
            "extender",
            "40 of 100 MB, without the token",
            _posts("/extender/filter", [b" " * 100_000_000] * 40),
        ),
        Attack("agent", "600 heads, byte by byte", _slow(600, _HEAD)),
        Attack("agent", "515 bodies, byte by byte", _slow(515, _BODY.replace("{path}", "/metrics"))),
    ]


# What it costs


def _probe(address: str) -> None:
    """Ask for health on a new connection fifty times a second until standard input ends; a process of its own, so that what the
    attack costs whoever makes it is not counted.
    """
    times: list[float] = []
    failures = 0
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        begun = time.perf_counter()
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            connection.request("GET", "/healthz")
            failures += connection.getresponse().status != 200
        except (OSError, http.client.HTTPException):
            failures += 1
        finally:
            connection.close()
        times.append(time.perf_counter() - begun)
    p99 = sorted(times)[int(len(times) * 0.99)] * 1000
    sys.stdout.write(f"{p99:.0f} ms | {failures} of {len(times)}")


def _peak(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    kilobytes = int(re.findall(r"VmHWM:\s+(\d+)", status)[0])
    return f"{kilobytes >> 10} MB"


async def _row(attack: Attack) -> str:
    with tempfile.TemporaryDirectory() as name:
        async with started(attack.server, Path(name)) as server:
            before = len(said(server.log).splitlines())
            probe = await asyncio.create_subprocess_exec(
                *(sys.executable, __file__, "--probe", server.url.removeprefix("http://")),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            await asyncio.sleep(2)
            begun = time.monotonic()
            outcome = await attack.act(server)
            took = time.monotonic() - begun
            while time.monotonic() - begun < _SECONDS_AT_LEAST:
                await attack.act(server)
            await asyncio.sleep(1)
            health, _ = await probe.communicate(b"")
            lines = len(said(server.log).splitlines()) - before
            cells = (attack.server, attack.name, outcome, f"{took:.1f} s", health.decode())
            return f"| {' | '.join((*cells, _peak(server.process.pid), str(lines)))} |"


def main() -> None:
    sys.stdout.write(
        "| server | attack | answer | time | `/healthz` p99 | failed | peak memory | log lines |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    for attack in _attacks():
        if len(sys.argv) < 2 or sys.argv[1] in f"{attack.server} {attack.name}":
            sys.stdout.write(asyncio.run(_row(attack)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe"]:
        _probe(sys.argv[2])
    else:
        main()
