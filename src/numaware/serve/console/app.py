"""The console put together: guards, operations, openFuyao's endpoints and the page, on one world."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from numaware.errors import InputError
from numaware.sentence import Sentence
from numaware.serve.console import site
from numaware.serve.console.api import paths
from numaware.serve.console.api.operations import Call, Operation, openapi, packed, route
from numaware.serve.console.api.routes import Console
from numaware.serve.console.openfuyao import endpoints, prometheus
from numaware.serve.guard import LOOPBACK, Authentication, Guard, Rate, names_of
from numaware.serve.problems import ProblemError, answer
from numaware.web import Tls, host_and_port, serving

_log = structlog.get_logger(__name__)

LOOK_EVERY = 0.25
_SECONDS_A_THREAD = 0.0005
MOST_BYTES = 1 << 20
# Logs and bundles for diagnosis.
MOST_UPLOAD = 64 << 20


class Access(NamedTuple):
    """Where the console is served, the gate that callers have to pass, the Prometheus it may ask, and its certificate."""

    address: str
    gate: Authentication | None = None
    prometheus: str | None = None
    tls: Tls | None = None


def application(
    console: Console,
    *,
    names: frozenset[str] = LOOPBACK,
    gate: Authentication | None = None,
    metrics: str | None = None,
) -> Starlette:
    """The ASGI application; `names` are the hosts it answers to, empty for all; `metrics` is a Prometheus."""
    operations = operations_of(console, metrics)
    document = packed(openapi(operations))
    # Whoever is to give a token needs a page to give it on, and what looks after the process has none.
    health = [route(operation) for operation in operations if operation.path == "/healthz"]
    page = site.routes()

    async def described(_: Call) -> object:
        return document

    async def problem(request: Request, error: Exception) -> Response:
        if isinstance(error, ProblemError):
            return answer(error)
        if not isinstance(error, HTTPException):
            return answer(ProblemError(500, Sentence("something went wrong here; the log says what")))
        headers = {
            **(error.headers or {}),
            **({"Allow": ", ".join(_methods(request))} if error.status_code == 405 else {}),
        }
        if request.url.path.startswith(endpoints.PREFIX):
            said = endpoints.NOT_FOUND if error.status_code == 404 else error.detail.lower()
            return endpoints.envelope(error.status_code, said, headers=headers)
        return answer(ProblemError(error.status_code, error.detail, headers=headers))

    return Starlette(
        routes=[
            *(route(operation) for operation in operations),
            route(Operation("GET", "/openapi.json", "This document", described, dict)),
            *page,
        ],
        middleware=[
            Middleware(
                Guard,
                names=names,
                gate=gate,
                public=[*health, *page],
                limit=lambda path: MOST_UPLOAD if path.startswith("/api/v1/diagnose") else MOST_BYTES,
                rate=Rate(500, 2000),
            )
        ],
        exception_handlers={ProblemError: problem, HTTPException: problem, 500: problem},
    )


def operations_of(console: Console, metrics: str | None = None) -> tuple[Operation, ...]:
    """All that can be asked, openFuyao's endpoints included."""
    return (*paths.operations(console), *prometheus.operations(metrics), *endpoints.operations(console))


def _methods(request: Request) -> list[str]:
    """What can be done at the path of a request."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in route.methods})


def checked(access: Access) -> tuple[frozenset[str], str | None]:
    """The names it answers to, and the Prometheus; `InputError` for what must not or cannot be served."""
    names = names_of(host_and_port(access.address)[0])
    if not names and access.gate is None:
        raise InputError(
            access.address,
            "can be reached by others",
            hint="give --token-file (or, on a cluster, --auth kubernetes), or stay on 127.0.0.1",
        )
    return names, prometheus.checked(access.prometheus) if access.prometheus else None


@contextlib.asynccontextmanager
async def serving_console(console: Console, access: Access) -> AsyncIterator[str]:
    """Serve the console while the block runs, its world alive; gives the address."""
    names, url = checked(access)
    # Threads that read and explain give way to the loop this often; Python's own 5 ms are felt by every call.
    sys.setswitchinterval(_SECONDS_A_THREAD)
    if not names and access.tls is None:
        _log.warning("tokens and answers go over the network unencrypted: give --tls-cert and --tls-key")
    app = application(console, names=names, gate=access.gate, metrics=url)
    async with contextlib.AsyncExitStack() as ending:
        if console.history is not None:
            ending.push_async_callback(console.history.close)
        address = await ending.enter_async_context(serving(app, access.address, access.tls))
        task = asyncio.create_task(_live(console))
        try:
            yield address
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
