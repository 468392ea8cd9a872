"""The console put together: guards, operations, openFuyao's endpoints and the page, on one world."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from numaware.serve.console import fuyao, site
from numaware.serve.console.api import Console
from numaware.serve.console.guards import LOOPBACK, Guard, Rate
from numaware.serve.console.operations import Call, Operation, openapi, packed, route
from numaware.serve.console.problems import ProblemError, answer
from numaware.web import host_and_port, serving

LOOK_EVERY = 0.25


def application(console: Console, *, names: frozenset[str] = LOOPBACK, token: str | None = None) -> Starlette:
    """The ASGI application; `names` are the hosts it answers to, empty for all of them."""
    operations = console.operations()
    document = packed(openapi(operations))

    async def described(_: Call) -> object:
        return document

    async def problem(_: Request, error: Exception) -> Response:
        if isinstance(error, ProblemError):
            return answer(error)
        if isinstance(error, HTTPException):
            return answer(
                ProblemError(error.status_code, str(error.detail), headers=dict(error.headers or {}))
            )
        return answer(ProblemError(500, "something went wrong here; the log says what"))

    return Starlette(
        routes=[
            *(route(operation) for operation in operations),
            route(Operation("GET", "/openapi.json", "This document", described, dict)),
            *fuyao.routes(console),
            *site.routes(),
        ],
        middleware=[Middleware(Guard, names=names, token=token, rate=Rate(500, 2000))],
        exception_handlers={ProblemError: problem, HTTPException: problem, 500: problem},
    )


@contextlib.asynccontextmanager
async def serving_console(console: Console, address: str, token: str | None = None) -> AsyncIterator[str]:
    """Serve the console while the block runs, its world alive; gives the address."""
    host, _ = host_and_port(address)
    app = application(console, names=LOOPBACK if host in LOOPBACK else frozenset(), token=token)
    async with serving(app, address) as url:
        task = asyncio.create_task(_live(console))
        try:
            yield url
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            console.stream.close()
            await console.simulator.close()


async def _live(console: Console) -> None:
    while True:
        console.look()
        await asyncio.sleep(LOOK_EVERY)
