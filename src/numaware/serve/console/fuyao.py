"""openFuyao's own endpoints, as its console calls them: `{"code", "msg", "data"}` around every answer.

What their service leaves open is decided here: the status may come in the query or in the body, and a status that is none
is the caller's mistake (400), not a busy server.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numaware.serve.console import policies
from numaware.serve.console.api import Console
from numaware.serve.console.world import Switch

_PLUGINS = {"numaaware": "numa-aware", "numadistance": "numa-distance", "podaffinity": "pod-affinity"}
_BASE = "/rest/scheduling/v1"


class _Wish(msgspec.Struct):
    status: str = ""


def routes(console: Console) -> list[BaseRoute]:
    """The switches; each path is one of them."""

    def endpoint(name: str) -> Any:
        async def handle(request: Request) -> Response:
            switch = policies.find(console.world, name)
            if switch is None:
                return envelope(404, "resource not found")
            if request.method == "PUT":
                return await _put(console, switch, request)
            return envelope(200, "success", _data(switch))

        return handle

    return [Route(f"{_BASE}/{name}", endpoint(name), methods=["GET", "PUT"]) for name in _PLUGINS]


async def _put(console: Console, switch: Switch, request: Request) -> Response:
    status = request.query_params.get("status", "")
    body = await request.body()
    if not status and body:
        try:
            status = msgspec.json.decode(body, type=_Wish).status
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return envelope(400, "bad request")
    if not status:
        return envelope(400, "parameters not found")
    if status not in ("open", "close"):
        return envelope(400, "bad request")
    if switch.missing:
        return envelope(409, f"not installed: {switch.missing}", _data(switch))
    by = request.client.host if request.client else ""
    wish = policies.SwitchWish("open" if status == "open" else "close")
    answer = policies.move(console.world, switch, wish, by)
    return envelope(200, "success", _data(answer.switch))


def _data(switch: Switch) -> dict[str, Any]:
    return {
        "plugin": _PLUGINS[switch.id],
        "status": switch.status,
        "installed": not switch.missing,
        **({"reason": switch.missing} if switch.missing else {}),
    }


def envelope(code: int, message: str, data: object = None) -> Response:
    """OpenFuyao's answer; the code stands in the body and on the wire."""
    body: dict[str, object] = {"code": code, "msg": message}
    if data is not None:
        body["data"] = data
    return Response(
        msgspec.json.encode(body),
        status_code=code,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )
