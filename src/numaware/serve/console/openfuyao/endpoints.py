"""openFuyao's own endpoints, as its console calls them: `{"code", "msg", "data"}` around every answer.

What their service leaves open is decided here: the status may come in the query or in the body, and a status that is none
is the caller's mistake (400), not a busy server. Where their service only says that it is busy (500), `data.reason` says why.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numaware.serve.console import policies
from numaware.serve.console.api.routes import Console
from numaware.serve.console.middleware import caller_of
from numaware.serve.console.world import Switch, SwitchError

_PLUGINS = {"numaaware": "numa-aware", "numadistance": "numa-distance", "podaffinity": "pod-affinity"}
_BASE = "/rest/scheduling/v1"
# What their service says of everything that goes wrong behind it; the reason stands in our data.
_BUSY = "remote server busy"


class _Wish(msgspec.Struct):
    status: str = ""


def routes(console: Console) -> list[BaseRoute]:
    """The switches; each path is one of them."""

    def endpoint(name: str) -> Any:
        async def handle(request: Request) -> Response:
            switch = await policies.find(console.world, name)
            if switch is None:
                return envelope(404, "resource not found")
            if request.method == "PUT":
                return await _put(console, switch, request)
            return _told(switch)

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
    wish = policies.SwitchWish("open" if status == "open" else "close")
    try:
        answer = await policies.move(console.world, switch, wish, caller_of(request))
    except SwitchError as error:
        await console.world.read_switches()
        now = next(one for one in console.world.switches if one.id == switch.id)
        if error.busy:
            return envelope(409, str(error), _data(now))
        return envelope(500, _BUSY, _data(now, str(error)))
    return _told(answer.switch)


def _told(switch: Switch) -> Response:
    if switch.broken:
        return envelope(500, _BUSY, _data(switch))
    return envelope(200, "success", _data(switch))


def _data(switch: Switch, reason: str = "") -> dict[str, Any]:
    reason = reason or switch.missing or switch.broken
    return {
        "plugin": _PLUGINS[switch.id],
        "status": switch.status,
        "installed": not switch.missing,
        **({"reason": reason} if reason else {}),
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
