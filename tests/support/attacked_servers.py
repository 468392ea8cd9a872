"""The servers that `scripts/attack_http.py` and `scripts/fuzz_http.py` send to: each a process of its own on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from kube.fake_api_server import fake_api_server
from support.live_cluster import kubeconfig

TOKEN = "0123456789abcdef" * 2
_SECONDS_TO_START = 120


class Server(NamedTuple):
    """A server that was started: where it answers, its process, and where its log goes."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@contextlib.asynccontextmanager
async def started(kind: str, folder: Path) -> AsyncIterator[Server]:
    async with contextlib.AsyncExitStack() as stack:
        token = folder / "token"
        token.write_text(TOKEN, encoding="ascii")
        if kind == "extender":
            api = await stack.enter_async_context(fake_api_server())
            config = kubeconfig(api, folder)
            flags = ["--listen", "127.0.0.1:0", "--token-file", str(token), "--kubeconfig", config]
        elif kind == "agent":
            flags = ["--listen", "127.0.0.1:0", "--no-publish", "--pods", "0"]
        else:
            flags = ["--port", "0", "--no-browser", "--record", str(folder / "lab.db")]
        log = folder / "log"
        command = [sys.executable, "-m", "numaware", "up" if kind == "console" else kind, *flags]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: ASYNC220 - our own program
        try:
            yield Server(await _address(process, log), process, log)
        finally:
            process.terminate()
            process.wait(30)


async def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + _SECONDS_TO_START
    while process.poll() is None and time.monotonic() < end:
        found = re.search(r"(?:numaware: |address=)(http://127\.0\.0\.1:\d+)", said(log))
        if found:
            return found[1]
        await asyncio.sleep(0.1)
    raise SystemExit(said(log))


def said(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")
