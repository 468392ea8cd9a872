"""openFuyao's query proxy, and what the Prometheus behind it knows: one address is asked, and nobody else."""

from __future__ import annotations

import asyncio
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import msgspec
from starlette.responses import Response

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.serve.console.api.operations import Call, Operation
from numaware.serve.console.openfuyao.endpoints import TAG, Envelope, envelope

PATH = "/rest/scheduling/api/v1/query"
_SECONDS = 10.0
_MOST_BYTES = 8 << 20
_LONGEST = 8192
_MOST_NAMES = 10_000
_MOST_DOWN = 20


class InstantQuery(msgspec.Struct, frozen=True):
    """PromQL, asked of one moment."""

    query: str
    time: str = ""
    timeout: str = ""


class RangeQuery(msgspec.Struct, frozen=True):
    """PromQL, asked of a span of time."""

    query: str
    start: str = ""
    end: str = ""
    step: str = ""
    timeout: str = ""


# openFuyao's nginx passes on every path that begins with PATH; of those, Prometheus has two.
_KNOWN: dict[str, type[msgspec.Struct]] = {PATH: InstantQuery, f"{PATH}_range": RangeQuery}
State = Literal["none", "answers", "unreachable", "late", "failed", "unreadable"]


class Measured(msgspec.Struct, frozen=True, rename="camel"):
    """Whether somebody measures, and whom: the state of the Prometheus (`message` tells what is wrong with it), what its
    clock shows, how many exporters of NUMA metrics it knows, which of them do not answer, and the nodes it has series of.
    """

    state: State
    message: str = ""
    time: int = 0
    exporters: int = 0
    down: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    # From here on remote memory is too much, in percent, as in the alert rules that are shipped.
    too_remote: int = 20


class NoAnswerError(Exception):
    """Nothing came back that could be an answer; `status` is for whoever asked."""

    def __init__(self, state: State, status: int, message: str) -> None:
        super().__init__(message)
        self.state = state
        self.status = status


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(msgspec.Struct):
    result: list[_Sample]


class _Answer(msgspec.Struct):
    data: _Vector


class _Refusal(msgspec.Struct):
    error: str = ""


def checked(url: str) -> str:
    """The address of a Prometheus, without what could send questions elsewhere."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_one = urlsplit(""), False
    if not is_one or parts.query or parts.fragment:
        raise InputError(
            printable(url, 200), "is no address of a Prometheus", hint="such as http://127.0.0.1:9090"
        )
    if parts.username or parts.password:
        raise InputError("--prometheus", "a name or a password does not belong into an address")
    return url.rstrip("/")


def operations(url: str | None) -> tuple[Operation, ...]:
    """The proxy, which says so without a Prometheus, and what the page asks before it draws."""

    async def measured(_: Call) -> Measured:
        return await _measured(url) if url is not None else Measured("none")

    async def query(call: Call) -> Response:
        if url is None:
            return envelope(404, "no Prometheus is configured; start the console with --prometheus")
        path = call.request.url.path
        given = call.request.query_params
        asked = {name: given[name] for name in _KNOWN[path].__struct_fields__ if name in given}
        if not asked.get("query"):
            return envelope(400, "parameters not found")
        if len(asked["query"]) > _LONGEST:
            return envelope(400, "bad request")
        try:
            status, data = await _ask(url + path.removeprefix("/rest/scheduling"), asked)
        except NoAnswerError as error:
            return envelope(error.status, str(error))
        headers = {"cache-control": "no-store"}
        return Response(data, status_code=status, media_type="application/json", headers=headers)

    path = "/api/v1/monitoring/prometheus"
    return (
        Operation("GET", path, "Whether a Prometheus measures, and which nodes", measured, Measured),
        *(
            Operation(
                "GET",
                path,
                "A question to Prometheus; answer and status are its own",
                query,
                dict[str, Any],
                asked,
                tag=TAG,
                missing=(502, 504),
                envelope=Envelope,
            )
            for path, asked in _KNOWN.items()
        ),
    )


async def _measured(url: str) -> Measured:
    try:
        clock, targets, nodes = await asyncio.gather(
            _samples(url, "vector(time())"),
            _samples(url, 'up{job=~".*numa.*"}'),
            _samples(url, "group by (node) (numa_node_cpus_count)"),
        )
    except NoAnswerError as error:
        return Measured(error.state, str(error))
    down = sorted(printable(one.metric.get("instance", ""), 80) for one in targets if one.value[1] == "0")
    names = sorted({one.metric.get("node", "") for one in nodes} - {""})
    return Measured(
        "answers",
        time=int(1000 * clock[0].value[0]) if clock else 0,
        exporters=len(targets),
        down=tuple(down[:_MOST_DOWN]),
        nodes=tuple(printable(name, 253) for name in names[:_MOST_NAMES]),
    )


async def _samples(url: str, query: str) -> list[_Sample]:
    status, data = await _ask(f"{url}/api/v1/query", {"query": query})
    try:
        if status != 200:
            said = msgspec.json.decode(data, type=_Refusal).error
            raise NoAnswerError("failed", 502, f"{status}: {printable(said, 300)}")
        return msgspec.json.decode(data, type=_Answer).data.result
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NoAnswerError("unreadable", 502, "that is no answer of a Prometheus") from None


async def _ask(url: str, asked: dict[str, str]) -> tuple[int, bytes]:
    """The status and the JSON of an answer, if there is one that may be passed on."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
            session.get(url, params=asked, allow_redirects=False) as answer,
        ):
            data = await answer.content.read(_MOST_BYTES + 1)
            while len(data) <= _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES)):
                data += more
    except TimeoutError:
        raise NoAnswerError("late", 504, "Prometheus did not answer in time") from None
    except aiohttp.ClientError:
        raise NoAnswerError("unreachable", 502, "Prometheus cannot be reached") from None
    if (
        answer.content_type == "application/json"
        and len(data) <= _MOST_BYTES
        and not 300 <= answer.status < 400
    ):
        return answer.status, data
    if answer.status >= 400:
        reason = printable(answer.reason or "", 80)
        raise NoAnswerError("failed", 502, f"Prometheus answered with {answer.status} {reason}".rstrip())
    raise NoAnswerError("unreadable", 502, "Prometheus gave no answer that can be passed on")
