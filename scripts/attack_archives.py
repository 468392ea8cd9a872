#!/usr/bin/env python3
"""What strangers' archives and uploads cost a console: the table of docs/security.md, "Archives and uploads".

    .venv/bin/python scripts/attack_archives.py

Starts `numaware up` on a free port of loopback, once for each attack, and prints a row: what was sent, how it was answered,
the time until then, the most memory the console and its readers held, what the console holds afterwards, and how long
`/healthz` and `explain` took meanwhile (99th percentile). Linux only: memory is read from /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.packed import PACKERS, bz2_of, long_name_gz, tar

_LINE = b'I0117 09:43:00.988280   77344 topology_manager.go:214] "Topology Admit Handler" pod="shop/web-0"\n'
_EXPLAIN = "/api/v1/explain?node=gpu-0&cpu=4&memory=8Gi&gpu=1"
_UPLOAD = "/api/v1/diagnose?file=upload"


class Attack(NamedTuple):
    """What is done to a console: the size of what is sent, and how; the answer is what came of it."""

    name: str
    size: int
    act: Callable[[str], Awaitable[str]]


def _posts(name: str, body: bytes, count: int = 1, leave_after: float = 0) -> Attack:
    async def act(url: str) -> str:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(leave_after or 300)) as session:
            answers = await asyncio.gather(*(_post(session, url, body) for _ in range(count)))
        return ", ".join(sorted(set(answers)))

    return Attack(f"{count} of: {name}" if count > 1 else name, count * len(body), act)


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> str:
    try:
        async with session.post(url + _UPLOAD, data=body) as answer:
            told = await answer.json()
            found = [one["code"] for one in told.get("findings", ())]
            return f"{answer.status} {found[0] if found else told.get('detail', '')}".strip()
    except TimeoutError:
        return "left"


def _unfinished(count: int, size: int) -> Attack:
    async def act(url: str) -> str:
        host, port = url.removeprefix("http://").rsplit(":", 1)
        head = (
            f"POST {_UPLOAD} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {size + 1}\r\n\r\n".encode()
        )
        writers = []
        with contextlib.suppress(ConnectionError):
            for _ in range(count):
                _, writer = await asyncio.open_connection(host, int(port))
                writers.append(writer)
                writer.write(head)
        piece = bytes(1 << 20)
        for writer in writers:
            with contextlib.suppress(ConnectionError, TimeoutError):
                for _ in range(size // len(piece)):
                    writer.write(piece)
                    await asyncio.wait_for(writer.drain(), 5)
        await asyncio.sleep(3)
        for writer in writers:
            writer.transport.abort()
        return "left"

    return Attack(f"{count} uploads of {size >> 20} MB never ended", count * size, act)


def _attacks() -> list[Attack]:
    log = bz2_of(_LINE, 256 << 20)
    whole = PACKERS["gz"](tar({f"n{n}/kubelet.log": os.urandom(100_000) for n in range(20)}))
    nested = _LINE * 1000
    for _ in range(12):
        nested = PACKERS["gz"](tar({"x": nested}))
    return [
        _posts(".tar.gz, a name of 1 GiB in its header", long_name_gz(1 << 30)),
        _posts(".bz2 of 256 MB of log lines", log, 4),
        _posts("the same, the client leaves after 1 s", log, 4, leave_after=1),
        _unfinished(30, 60 << 20),
        _posts(".tar.gz cut off in the middle", whole[: len(whole) // 2]),
        _posts("archive in an archive, 12 deep", nested),
        _posts(".json of 20 million empty objects", b'{"items":[' + b"{}," * (20 << 20) + b"{}]}"),
        _posts(".gz in .gz of 2 GiB of zeros", PACKERS["gz"](PACKERS["gz"](bytes(1 << 30)) * 2)),
    ]


# What it costs


def _resident(pid: int) -> int:
    """Kilobytes of a process and of those it started."""
    total = 0
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        total = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            total += _resident(int(child))
    return total


class Watch:
    """Asks for health and for an explanation all the time, and looks at the memory."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid
        self.peak = 0
        self.times: dict[str, list[float]] = {"/healthz": [], _EXPLAIN: []}

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._ask(path)) for path in self.times]
        tasks.append(asyncio.create_task(self._look()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, path: str) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                begun = time.monotonic()
                async with session.get(self.url + path) as answer:
                    await answer.read()
                self.times[path].append(time.monotonic() - begun)
                await asyncio.sleep(0.02)

    async def _look(self) -> None:
        while True:
            self.peak = max(self.peak, _resident(self.pid))
            await asyncio.sleep(0.02)

    def p99(self, path: str) -> str:
        times = sorted(self.times[path])
        return f"{times[int(len(times) * 0.99)] * 1000:.0f} ms" if times else "none"


def _console() -> tuple[subprocess.Popen[bytes], str]:
    log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115 - lives as long as the console
    command = [sys.executable, "-m", "numaware", "up", "--port", "0", "--no-browser", "--no-record"]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - our own program
    while process.poll() is None:
        said = Path(log.name).read_text(encoding="utf-8", errors="replace")
        at = said.find("http://127.0.0.1:")
        if at >= 0 and "\n" in said[at:]:
            return process, said[at:].split()[0].rstrip("/.,")
        time.sleep(0.1)
    raise SystemExit(Path(log.name).read_text(encoding="utf-8"))


async def _row(attack: Attack) -> str:
    process, url = _console()
    try:
        watch = Watch(url, process.pid)
        async with watch.watching():
            await asyncio.sleep(2)
            before = _resident(process.pid)
            begun = time.monotonic()
            outcome = await attack.act(url)
            took = time.monotonic() - begun
            await asyncio.sleep(2)
        after = _resident(process.pid)
        sent = f"{attack.size / 1e6:.1f} MB" if attack.size >= 1e5 else f"{attack.size / 1e3:.1f} kB"
        cells = (
            attack.name,
            sent,
            outcome,
            f"{took:.1f} s",
            f"{watch.peak >> 10} MB",
            f"{after - before >> 10:+} MB",
            watch.p99("/healthz"),
            watch.p99(_EXPLAIN),
        )
        return f"| {' | '.join(cells)} |"
    finally:
        process.terminate()
        process.wait(20)


def _command(name: str, data: bytes) -> str:
    """The same with `numaware diagnose` on the command line: exit code, time, most memory."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        begun = time.monotonic()
        command = [sys.executable, "-m", "numaware", "diagnose", file.name]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.01)
        took = time.monotonic() - begun
    cells = (name, f"{len(data) / 1e6:.1f} MB", str(process.returncode), f"{took:.1f} s")
    return f"| {' | '.join(cells)} | {peak >> 10} MB |"


def main() -> None:
    sys.stdout.write(
        "| attack | sent | answer | time | most memory | after | `/healthz` p99 | `explain` p99 |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    for attack in _attacks():
        sys.stdout.write(asyncio.run(_row(attack)) + "\n")
        sys.stdout.flush()
    sys.stdout.write(
        "\n| `numaware diagnose` | size | exit code | time | most memory |\n|---|---|---|---|---|\n"
    )
    sys.stdout.write(_command(".tar.gz, a name of 1 GiB in its header", long_name_gz(1 << 30)) + "\n")
    sys.stdout.write(_command(".bz2 of 256 MB of log lines", bz2_of(_LINE, 256 << 20)) + "\n")


if __name__ == "__main__":
    main()
