"""openFuyao's own endpoints, as its console calls them: `{"code", "msg", "data"}` around every answer.

What their service leaves open is decided here: the status may come in the query or in the body, and a status that is none
is the caller's mistake (400), not a busy server. Where their service only says that it is busy (500), `data.reason` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from numaware.serve.console import policies
from numaware.serve.console.api.operations import Call, Handler, Method, Operation
from numaware.serve.console.api.routes import Console
from numaware.serve.console.world import Status, Switch, SwitchError
from numaware.serve.guard import caller_of

_PLUGINS = {"numaaware": "numa-aware", "numadistance": "numa-distance", "podaffinity": "pod-affinity"}
# Nobody has written down what their service calls the last of the three; this is like the other two.
_ALSO = {"numapodaffinity": "podaffinity"}
PREFIX = "/rest/"
TAG = "openFuyao"
_BASE = f"{PREFIX}scheduling/v1"
# What their service says of everything that goes wrong behind it; the reason stands in our data.
_BUSY = "remote server busy"
NOT_FOUND = "resource not found"


class _Wish(msgspec.Struct):
    status: str = ""


class SwitchStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of openFuyao's switches; `reason` says why it cannot be used, or could not be moved."""

    plugin: str
    status: Status
    installed: bool
    reason: str = ""


class Envelope(msgspec.Struct, frozen=True):
    """Every answer to openFuyao's console."""

    code: int
    msg: str
    data: SwitchStatus | msgspec.UnsetType = msgspec.UNSET


class StatusQuery(msgspec.Struct, frozen=True):
    """How the switch should stand, unless the body says it: `open` or `close`."""

    status: str = ""


def operations(console: Console) -> Iterator[Operation]:
    """The switches; each path is one of them."""

    def handler(name: str) -> Handler:
        async def handle(call: Call) -> Response:
            switch = await policies.find(console.world, _ALSO.get(name, name))
            if switch is None:
                return envelope(404, NOT_FOUND)
            return (
                await _put(console, switch, call.request) if call.request.method == "PUT" else _told(switch)
            )

        return handle

    def operation(name: str, method: Method, summary: str) -> Operation:
        path, handle = f"{_BASE}/{name}", handler(name)
        return Operation(
            method, path, summary, handle, Envelope, tag=TAG, missing=(409, 500), envelope=Envelope
        )

    for name in (*_PLUGINS, *_ALSO):
        yield operation(name, "GET", "How the switch stands")
        move = operation(name, "PUT", "Move the switch")
        yield move._replace(query=StatusQuery, body=_Wish, missing=(202, *move.missing))


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
        now = await policies.find(console.world, switch.id) or switch
        if error.busy:
            return envelope(409, str(error), _data(now))
        return envelope(500, _BUSY, _data(now, str(error)))
    if answer.switch.progress is not None:
        return envelope(202, "accepted", _data(answer.switch))
    return _told(answer.switch)


def _told(switch: Switch) -> Response:
    if switch.broken:
        return envelope(500, _BUSY, _data(switch))
    return envelope(200, "success", _data(switch))


def _data(switch: Switch, reason: str = "") -> SwitchStatus:
    reason = reason or str(switch.missing or switch.broken)
    return SwitchStatus(_PLUGINS[switch.id], switch.status, not switch.missing, reason)


def envelope(
    code: int,
    message: str,
    data: SwitchStatus | msgspec.UnsetType = msgspec.UNSET,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """OpenFuyao's answer; the code stands in the body and on the wire."""
    return Response(
        msgspec.json.encode(Envelope(code, message, data)),
        status_code=code,
        media_type="application/json",
        headers={"cache-control": "no-store", **(headers or {})},
    )
