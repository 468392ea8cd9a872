"""openFuyao's query proxy: one question to one Prometheus, and to nobody else."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.serve.console.fuyao import envelope

PATH = "/rest/scheduling/api/v1/query"
_SECONDS = 10
_MOST_BYTES = 8 << 20
_LONGEST = 8192
_KNOWN = ("query", "time", "timeout")


def checked(url: str) -> str:
    """The address of a Prometheus, without what could send questions elsewhere."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(
            printable(url, 200), "is no address of a Prometheus", hint="such as http://127.0.0.1:9090"
        )
    if parts.username or parts.password:
        raise InputError("--prometheus", "a name or a password does not belong into an address")
    return url.rstrip("/")


def routes(url: str | None) -> list[BaseRoute]:
    """The proxy; without a Prometheus it says so."""

    async def query(request: Request) -> Response:
        if url is None:
            return envelope(404, "no Prometheus is configured; start the console with --prometheus")
        asked = {name: request.query_params[name] for name in _KNOWN if name in request.query_params}
        if not asked.get("query"):
            return envelope(400, "parameters not found")
        if len(asked["query"]) > _LONGEST:
            return envelope(400, "bad request")
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
                session.get(f"{url}/api/v1/query", params=asked, allow_redirects=False) as answer,
            ):
                data = await answer.content.read(_MOST_BYTES + 1)
                while len(data) <= _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES)):
                    data += more
        except TimeoutError:
            return envelope(504, "Prometheus did not answer in time")
        except aiohttp.ClientError:
            return envelope(502, "Prometheus cannot be reached")
        elsewhere = 300 <= answer.status < 400
        if elsewhere or len(data) > _MOST_BYTES or answer.content_type != "application/json":
            return envelope(502, "Prometheus gave no answer that can be passed on")
        return Response(
            data,
            status_code=answer.status,
            media_type="application/json",
            headers={"cache-control": "no-store"},
        )

    return [Route(PATH, query, methods=["GET"])]
