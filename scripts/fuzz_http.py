#!/usr/bin/env python3
"""Thousands of requests that make no sense, to servers that run: none may be answered with 500, none may end one.

    .venv/bin/python scripts/fuzz_http.py [REQUESTS [SEED]]

Starts a console that records, an extender (on an API server that only this script has) and an agent, each as a process of its
own on loopback, and sends REQUESTS (20,000) to each, over all the paths that it has: odd words as query, path and header, whole
bodies with parts exchanged, moments that are over (`?at=`), comparisons, evidence packed and damaged, and bytes that are no
HTTP. Prints per server and path which status came how often. Exit code 1 if one was answered with 500 or not at all, or if a
server wrote a traceback or ended; those requests are printed. The same seed sends the same requests, times aside.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.attacked_servers import TOKEN, Server, said, started
from support.hostile_requests import EXTENDER_ASKED, EXTENDER_VERBS, KEYS, ODD, POD, places_in
from support.packed import PACKERS, tar

_AT_ONCE = 8
_SECONDS = 120
# Each of these starts a process: some hundreds of them are enough.
_COSTLY = {"/api/v1/diagnose": 0.3, "/api/v1/simulate": 0.1}
# What stands behind openFuyao's addresses is not there, and whoever finds no room is told to come again.
_EXCUSED = (502, 503, 504)
_PLAIN = {
    "cpu": ("1", "2", "24", "500m", "0", "4.5"),
    "memory": ("1Gi", "64Gi", "0", "1", "300M"),
    "gpu": ("0", "1", "8", "9"),
    "gpuResource": ("nvidia.com/gpu", "amd.com/gpu"),
    "node": ("gpu-0", "gpu-1", ""),
    "name": ("gpu-0", "gpu-1"),
    "id": ("numaaware", "numadistance", "podaffinity", "kubelet", "1", "2"),
    "policy": ("none", "best-effort", "restricted", "single-numa-node"),
    "scope": ("pod", "container"),
    "phase": ("Running", "Pending"),
    "limit": ("1", "5000", "0"),
    "minutes": ("1", "60", "10080"),
    "lang": ("en", "zh"),
    "status": ("open", "close"),
    "query": ("up", "numa_node_memory_free_bytes", "sum("),
}
_HEADERS = (
    *("accept", "accept-language", "accept-encoding", "if-none-match", "range", "content-type", "origin"),
    *("host", "authorization", "x-forwarded-for", "content-encoding", "cookie", "expect", "upgrade", "te"),
    *("content-length", "transfer-encoding", "connection"),
)
_HEADER_VALUES = (
    *("", "*", "gzip", "zh;q=2", "zh-CN, en;q=0.x", "bytes=0-", 'W/"x"', "\xe9", "text/event-stream;q=x"),
    *(
        "Bearer ",
        "Bearer \xff",
        "Basic Og==",
        "application/json; charset=\xff",
        "null",
        "http://[::1",
        "a" * 3000,
    ),
    *("0", "-1", "5", "chunked", "websocket", "100-continue", "text/event-stream", "keep-alive"),
)
_LOG = (
    b'I0117 09:43:00.988280   77344 topology_manager.go:214] "Topology Admit Handler" pod="shop/web-0"\n'
    b'E0117 09:43:01.100000   77344 kubelet.go:1] "Failed to initialize memory manager" err="the total amount"\n'
)
_EVIDENCE = {
    "kubelet.log": _LOG,
    "pod.json": json.dumps(POD).encode(),
    "config.yaml": b"kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\n",
    "cpu_manager_state": b'{"policyName":"static","defaultCpuSet":"0-3","entries":{},"checksum":1}',
    "numactl.txt": b"available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 1 MB\nnode 1 cpus: 2\nnode 1 size: 1 MB\n",
}


class Address(NamedTuple):
    """One address of a server, the names of its query, and what a sensible body is; None where it takes none."""

    method: str
    path: str
    query: tuple[str, ...] = ()
    body: Any = None


class Request(NamedTuple):
    """What is sent; one whose length is not what its head says is followed by the end of the connection."""

    data: bytes
    whole: bool


class Outcome(NamedTuple):
    """One request and what became of it."""

    path: str
    status: str
    request: bytes
    answer: bytes


class Dice:
    """Every choice that is made, from one seed."""

    def __init__(self, seed: str, pods: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._plain = _PLAIN | ({"pod": pods} if pods else {})

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def one(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)

    def few(self, choices: Sequence[Any], most: int) -> list[Any]:
        return self._random.sample(choices, self._random.randint(0, min(most, len(choices))))

    def plain(self, name: str) -> str:
        """What a sensible caller would put there."""
        return str(self.one(self._plain.get(name, ("default", "default/a"))))

    def word(self) -> str:
        if self.chance(0.9):
            return str(self.one(ODD))
        return "".join(chr(self._random.randrange(0x300)) for _ in range(self._random.randrange(12)))

    def value(self, depth: int = 2) -> Any:
        kind = self._random.randrange(8 if depth else 6)
        if kind < 3:
            return self.word()
        if kind < 6:
            numbers = (None, True, 0, -1, 2**63, 10**400, 1.5, float("inf"), float("nan"))
            return self.one(numbers)
        inner = [self.value(depth - 1) for _ in range(self._random.randrange(3))]
        return inner if kind == 6 else {self.one((*KEYS, self.word())): value for value in inner}

    def damaged(self, whole: Any) -> Any:
        """Something whole, with up to three of its parts exchanged, renamed or doubled."""
        damaged = json.loads(json.dumps(whole))
        for _ in range(self._random.randrange(4)):
            places = places_in(damaged)
            if not places:
                break
            holder, key = self.one(places)
            if self.chance(0.6):
                holder[key] = self.value()
            elif isinstance(holder, dict):
                holder[self.one(KEYS) if self.chance(0.7) else self.word()] = holder.pop(key)
            else:
                holder.append(holder[key])
        return damaged

    def cut(self, data: bytes, share: float) -> bytes:
        """Bytes, now and then cut off or with some of them changed."""
        if not data or not self.chance(share):
            return data
        if self.chance(0.5):
            return data[: self._random.randrange(len(data))]
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            changed[self._random.randrange(len(changed))] = self._random.randrange(256)
        return bytes(changed)

    def moment(self) -> str:
        """A time of the last two hours and the next minutes; the history is of one hour."""
        now = datetime.now(UTC).replace(microsecond=0)
        return (now - timedelta(seconds=self._random.randrange(-300, 7200))).isoformat()


def _request(dice: Dice, address: Address, host: str) -> Request:
    """A call of the address, most of it right, as bytes."""
    path = address.path
    if dice.chance(0.5):
        path = path.replace("{namespace}/{name}", dice.plain("pod"))
    for name in ("namespace", "name", "id"):
        word = dice.plain(name) if dice.chance(0.6) else dice.word()
        path = path.replace(f"{{{name}}}", quote(word, safe="%", errors="replace") or "x")
    query = [(name, _query_word(dice, name)) for name in dice.few(address.query, 4)]
    if dice.chance(0.03):
        query.append(dice.one(query) if query else (dice.word(), dice.word()))
    encoded = urlencode(query, errors="replace")
    target = f"{path}?{encoded}" if query else path
    body = b"" if address.body is None else _body(dice, address.body)
    raw = isinstance(address.body, bytes)
    framing = {"connection", "expect", "upgrade", "content-length", "transfer-encoding"}
    headers = {"host": host, "connection": "close", "authorization": f"Bearer {TOKEN}"}
    if address.body is not None:
        headers |= {"content-type": "application/octet-stream" if raw else "application/json"}
        headers |= {"content-length": str(len(body))}
    odd: dict[str, str] = {}
    if dice.chance(0.2):
        odd = {name: dice.one(_HEADER_VALUES) for name in dice.few(_HEADERS, 2)}
        headers |= odd
    method = dice.one(("PATCH", "DELETE", "HEAD", "OPTIONS", "X")) if dice.chance(0.02) else address.method
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in headers.items()
    )
    whole = head.encode("latin-1", "replace") + b"\r\n" + body
    data = dice.cut(whole, 0.03)
    return Request(data, data == whole and not framing & odd.keys())


def _query_word(dice: Dice, name: str) -> str:
    if not dice.chance(0.6):
        return dice.word()
    if name in ("at", "around"):
        return dice.moment()
    return dice.plain(name)


def _body(dice: Dice, whole: Any) -> bytes:
    if isinstance(whole, bytes):
        return _evidence(dice)
    if "manifest" in whole:
        manifest = dice.damaged(POD)
        whole = whole | {"manifest": dice.one((json.dumps, yaml.safe_dump))(manifest)}
    # A question that cannot be read hides the pod in it.
    return dice.cut(json.dumps(dice.damaged(whole) if dice.chance(0.5) else whole).encode(), 0.1)


def _evidence(dice: Dice) -> bytes:
    """Files that a node could have, some in archives in archives, cut off and changed at any layer."""
    chosen = {name: dice.cut(_EVIDENCE[name], 0.3) for name in dice.few(tuple(_EVIDENCE), 3)}
    data = tar(chosen) if dice.chance(0.6) else dice.one(tuple(_EVIDENCE.values()))
    for _ in range(dice.one((0, 1, 1, 2))):
        data = dice.cut(PACKERS[dice.one(tuple(PACKERS))](data), 0.3)
        data = (
            tar({dice.word().replace("\0", "_").encode("utf-8", "replace").decode(): data})
            if dice.chance(0.2)
            else data
        )
    return data


async def _sent(address: Address, request: Request, url: str) -> Outcome:
    """Over a connection of its own. A stream of events is left when it has begun; what is not answered is said to be so."""
    host, _, port = url.removeprefix("http://").partition(":")
    answer = b""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(request.data)
                if not request.whole:
                    writer.write_eof()
                while (piece := await reader.read(1 << 16)) and b"text/event-stream" not in (
                    answer := answer + piece
                ):
                    pass
            finally:
                writer.transport.abort()
    except (TimeoutError, ConnectionError) as error:
        answer = answer or type(error).__name__.encode()
    status = answer[9:12].decode("ascii", "replace") if answer.startswith(b"HTTP/1.1 ") else "none"
    return Outcome(f"{address.method} {address.path}", status, request.data, answer[-600:])


# Which addresses there are


async def _addresses(kind: str, server: Server) -> tuple[list[Address], list[str]]:
    """Those of the extender and the agent are few; the console tells its own, and the pods that it has."""
    if kind == "extender":
        return [*(Address("POST", f"/{verb}", (), EXTENDER_ASKED) for verb in EXTENDER_VERBS), *_STATUS], []
    if kind == "agent":
        return list(_STATUS), []
    async with aiohttp.ClientSession(server.url) as session:
        document = await (await session.get("/openapi.json")).json()
        listed = await (await session.get("/api/v1/pods")).json()
    addresses = [
        Address(
            method.upper(),
            path,
            tuple(one["name"] for one in operation["parameters"] if one.get("in") == "query"),
            _sensible(path, operation),
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    pages = ("/", "/nodes/gpu-0", "/openapi.json", "/no/such", "/assets/x.js")
    return (
        addresses + [Address("GET", path) for path in pages],
        [f"{pod['namespace']}/{pod['name']}" for pod in listed["items"]],
    )


_STATUS = tuple(Address("GET", path, ("x",)) for path in ("/healthz", "/readyz", "/metrics", "/", "/no/such"))


def _sensible(path: str, operation: Mapping[str, Any]) -> Any:
    """What the address would take: evidence as bytes, a question, or a wish."""
    if "requestBody" not in operation:
        return None
    if "application/octet-stream" in operation["requestBody"]["content"]:
        return b""
    if path.endswith("/simulate"):
        return {"policies": ["numaware", "kube-scheduler"], "seed": 1, "pods": 50}
    if "policies" in path or "/rest/" in path:
        return {"status": "open", "dryRun": True, "pool": "gpu", "policy": "restricted", "scope": "pod"}
    shape = {"cpu": "2", "memory": "1Gi", "gpu": 1, "gpuResource": "nvidia.com/gpu"}
    return {"manifest": "", "shape": shape, "node": "gpu-0", "policy": None, "scope": "pod", "pod": ""}


def _drawn(dice: Dice, addresses: Sequence[Address]) -> Address:
    while True:
        address = dice.one(addresses)
        if address.method == "GET" or dice.chance(_COSTLY.get(address.path, 1.0)):
            return address


async def _fuzzed(kind: str, count: int, seed: str) -> bool:
    """Whether the server of this kind held."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        async with started(kind, Path(name)) as server:
            addresses, pods = await _addresses(kind, server)
            dice = Dice(f"{kind} {seed}", pods)
            host = server.url.removeprefix("http://")
            left = iter(range(count))

            async def caller() -> None:
                for _ in left:
                    address = _drawn(dice, addresses)
                    outcomes.append(await _sent(address, _request(dice, address, host), server.url))

            await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))
            alive = server.process.poll() is None
            log = said(server.log)
    bad = [one for one in outcomes if one.status[0] == "5" and int(one.status) not in _EXCUSED]
    bad += [one for one in outcomes if one.status == "none" and b"Timeout" in one.answer]
    _print(kind, outcomes, bad)
    if "Traceback" in log:
        sys.stdout.write(log[log.index("Traceback") - 300 :][:6000] + "\n")
    if not alive:
        sys.stdout.write(f"{kind} ended: {log[-2000:]}\n")
    return alive and not bad and "Traceback" not in log


def _print(kind: str, outcomes: Iterable[Outcome], bad: Sequence[Outcome]) -> None:
    by_path: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        by_path[one.path][one.status] += 1
    for path, statuses in sorted(by_path.items()):
        counts = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items()))
        sys.stdout.write(f"| {kind} | {path} | {statuses.total()} | {counts} |\n")
    sys.stdout.write(
        f"{kind}: {sum(map(Counter.total, by_path.values()))} requests, {len(bad)} answered with 500\n"
    )
    for one in bad[:20]:
        sys.stdout.write(f"{one.path}: {one.status}\n  {one.request[:1500]!r}\n  {one.answer!r}\n")
    sys.stdout.flush()


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    held = [asyncio.run(_fuzzed(kind, count, seed)) for kind in ("console", "extender", "agent")]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
