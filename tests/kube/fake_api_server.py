"""A small API server in the test's own process: just enough of the protocol, and every way it can go wrong.

It keeps objects by address, counts one revision up with each write, and serves lists in pages, watches with bookmarks,
conflicts, bindings and expiry as a real server does. A test makes trouble by hand: `refuse` the next calls, `cut` the open
watches, `compact` the history, `say` any bytes into the watches.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

from numaware.kube.config import Connection
from numaware.kube.resources import Resource

Object = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """What the next call gets instead of an answer; status 0 breaks the connection, `done` after doing what it asks."""

    status: int
    reason: str = "Refused"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    done: bool = False


@dataclass
class Watcher:
    """One open watch: what is still to be sent, and the connection it goes over."""

    collection: str
    queue: asyncio.Queue[bytes | None]
    request: web.Request

    def cut(self) -> None:
        """Break the connection, as a restart or a network does."""
        if self.request.transport is not None:
            self.request.transport.abort()


class FakeApiServer:
    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.revision = 10
        self.history: list[tuple[int, str, str, Object]] = []
        self.oldest = 0
        self.refusals: deque[Refusal] = deque()
        self.watch_refusals: deque[Refusal] = deque()
        self.watchers: list[Watcher] = []
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.content_types: list[str] = []
        self.tokens: set[str] | None = None
        self.missing: set[str] = set()
        self.forbidden: set[str] = set()
        self.expire_continue = False
        self.delay = 0.0
        self.base = ""
        self.runner: web.AppRunner | None = None

    # What a test does to the cluster.

    def put(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        """Write an object, new or changed."""
        path = resource.path(namespace, name)
        return self._write(path, {"metadata": {"name": name, "namespace": namespace}, **fields})

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        self._delete(resource.path(namespace, name))

    def compact(self) -> None:
        """Forget all history: who asks for what came after an older revision gets 410."""
        self.oldest = self.revision
        self.history.clear()

    def bookmark(self) -> None:
        self.say(event("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}}))

    def cut(self) -> None:
        for watcher in self.watchers:
            watcher.cut()
        self.watchers.clear()

    def end_watches(self) -> None:
        for watcher in self.watchers:
            watcher.queue.put_nowait(None)
        self.watchers.clear()

    def say(self, data: bytes) -> None:
        """Any bytes, to all who watch."""
        for watcher in self.watchers:
            watcher.queue.put_nowait(data)

    async def stop(self) -> None:
        """Go away, as a server does that is told to: watches end, then nobody listens."""
        self.end_watches()
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    async def watched(self, count: int = 1) -> None:
        """Wait until so many watches are open."""
        await until(lambda: len(self.watchers) >= count)

    # How it keeps objects.

    def _write(self, path: str, body: Object) -> Object:
        self.revision += 1
        old = self.objects.get(path)
        made = copy.deepcopy(body)
        uid = old["metadata"]["uid"] if old else f"uid-{self.revision}"
        made.setdefault("metadata", {}).update(uid=uid, resourceVersion=str(self.revision))
        self.objects[path] = made
        self._tell("MODIFIED" if old else "ADDED", path, made)
        return made

    def _delete(self, path: str) -> Object:
        self.revision += 1
        gone = copy.deepcopy(self.objects.pop(path))
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", path, gone)
        return gone

    def _tell(self, kind: str, path: str, made: Object) -> None:
        self.history.append((self.revision, kind, path, copy.deepcopy(made)))
        for watcher in self.watchers:
            if _belongs(path, watcher.collection):
                watcher.queue.put_nowait(event(kind, made))

    # What it answers.

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.calls.append((request.method, request.path, dict(request.query)))
        self.content_types.append(request.headers.get("Content-Type", ""))
        body = await request.read()
        self.bodies.append(body)
        if self.delay:
            await asyncio.sleep(self.delay)
        if (
            self.tokens is not None
            and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens
        ):
            return refused(401, "Unauthorized", "Unauthorized")
        watch = request.method == "GET" and request.query.get("watch") == "1"
        refusals = self.watch_refusals if watch else self.refusals
        if refusals:
            refusal = refusals.popleft()
            if refusal.done:
                self._do(request, body)
            if refusal.status == 0 and request.transport is not None:
                request.transport.abort()
            return refused(refusal.status or 500, refusal.reason, "as told", refusal.headers, refusal.body)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.8"})
        if any(request.path == kind or _belongs(request.path, kind) for kind in self.missing):
            return refused(404, "NotFound", "the server could not find the requested resource")
        if request.path in self.forbidden:
            return refused(403, "Forbidden", f"{request.path} is forbidden")
        return await self._watch(request) if watch else self._do(request, body)

    def _do(self, request: web.Request, body: bytes) -> web.Response:
        match request.method:
            case "GET" if request.path in self.objects:
                return web.json_response(self.objects[request.path])
            case "GET" if _is_collection(request.path):
                return self._list(request)
            case "POST" if request.path.endswith("/binding"):
                return self._bind(request.path.removesuffix("/binding"), json.loads(body))
            case "POST":
                return self._create(request.path, json.loads(body))
            case "PUT" if request.path in self.objects:
                return self._update(request.path, json.loads(body))
            case "PATCH":
                return self._patch(request, json.loads(body))
            case "DELETE" if request.path in self.objects:
                uid = json.loads(body).get("preconditions", {}).get("uid")
                if uid not in (None, self.objects[request.path]["metadata"]["uid"]):
                    return refused(409, "Conflict", "the UID in the precondition does not match")
                return web.json_response(self._delete(request.path))
        return refused(404, "NotFound", f"{request.path} not found")

    def _list(self, request: web.Request) -> web.Response:
        names = sorted(path for path in self.objects if _belongs(path, request.path))
        if "labelSelector" in request.query:
            label, _, value = request.query["labelSelector"].partition("=")
            labels = {name: self.objects[name]["metadata"].get("labels") or {} for name in names}
            names = [name for name in names if labels[name].get(label) == value]
        limit = int(request.query.get("limit", "0")) or len(names)
        revision, start = self.revision, 0
        if "continue" in request.query:
            if self.expire_continue:
                self.expire_continue = False
                return refused(410, "Expired", "the provided continue parameter is too old")
            revision, start = map(int, request.query["continue"].split("."))
        metadata: Object = {"resourceVersion": str(revision)}
        if start + limit < len(names):
            metadata["continue"] = f"{revision}.{start + limit}"
        return web.json_response(
            {"metadata": metadata, "items": [self.objects[name] for name in names[start : start + limit]]}
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return refused(410, "Expired", f"too old resource version: {since}")
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        watcher = Watcher(request.path, asyncio.Queue(), request)
        for revision, kind, path, made in self.history:
            if revision > since and _belongs(path, request.path):
                watcher.queue.put_nowait(event(kind, made))
        self.watchers.append(watcher)
        await response.prepare(request)
        with suppress(ConnectionError):
            while (data := await watcher.queue.get()) is not None:
                await response.write(data)
            await response.write_eof()
        return response

    def _create(self, collection: str, body: Object) -> web.Response:
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.objects:
            return refused(409, "AlreadyExists", f"{path} already exists")
        return web.json_response(self._write(path, body), status=201)

    def _update(self, path: str, body: Object) -> web.Response:
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted not in (None, self.objects[path]["metadata"]["resourceVersion"]):
            return refused(409, "Conflict", "the object has been modified")
        return web.json_response(self._write(path, body))

    def _patch(self, request: web.Request, body: Any) -> web.Response:
        path = request.path.removesuffix("/status")
        if request.content_type == "application/apply-patch+yaml":
            if "dryRun" in request.query:
                return web.json_response(body)
            return web.json_response(self._write(path, body))
        if path not in self.objects:
            return refused(404, "NotFound", f"{path} not found")
        now = self.objects[path]
        if isinstance(body, dict):
            if body.get("metadata", {}).get("uid", now["metadata"]["uid"]) != now["metadata"]["uid"]:
                return refused(409, "Conflict", "the UID in the precondition does not match")
            now = merged(now, body)
        else:
            now = edited(now, body)
        if now["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
            return refused(409, "Conflict", "the object has been modified")
        return web.json_response(self._write(path, now))

    def _bind(self, path: str, body: Object) -> web.Response:
        pod = self.objects.get(path)
        if pod is None:
            return refused(404, "NotFound", f"{path} not found")
        if body["metadata"]["uid"] != pod["metadata"]["uid"]:
            return refused(409, "Conflict", "the UID in the precondition does not match")
        if pod.get("spec", {}).get("nodeName"):
            return refused(409, "Conflict", "the pod is already assigned to a node")
        annotations = {"metadata": {"annotations": body["metadata"].get("annotations", {})}}
        self._write(path, merged(pod, annotations | {"spec": {"nodeName": body["target"]["name"]}}))
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)


def event(kind: str, about: Object) -> bytes:
    return json.dumps({"type": kind, "object": about}).encode() + b"\n"


def merged(now: Object, change: Object) -> Object:
    """A merge patch, applied."""
    made = dict(now)
    for key, value in change.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and isinstance(made.get(key), dict):
            made[key] = merged(made[key], value)
        else:
            made[key] = value
    return made


def edited(now: Object, steps: list[Object]) -> Object:
    """A JSON patch, as far as it adds and replaces."""
    made = copy.deepcopy(now)
    for step in steps:
        if step["op"] not in {"add", "replace"}:
            continue
        *way, last = [name.replace("~1", "/").replace("~0", "~") for name in step["path"].split("/")[1:]]
        place: Any = made
        for name in way:
            place = place[int(name) if isinstance(place, list) else name]
        if isinstance(place, list):
            at = len(place) if last == "-" else int(last)
            place[at : at + (step["op"] == "replace")] = [step["value"]]
            continue
        assert step["op"] == "add" or last in place
        place[last] = step["value"]
    return made


def refused(
    status: int,
    reason: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> web.Response:
    told = json.dumps({"kind": "Status", "code": status, "reason": reason, "message": message}).encode()
    return web.Response(
        status=status, body=told if body is None else body, content_type="application/json", headers=headers
    )


def _belongs(path: str, collection: str) -> bool:
    """Whether an object, by its address, is in a collection: of one namespace, or of all."""
    if path.startswith(f"{collection}/"):
        return "/" not in path[len(collection) + 1 :]
    root, _, plural = collection.rpartition("/")
    rest = path.removeprefix(f"{root}/namespaces/")
    return rest != path and rest.count("/") == 2 and rest.split("/")[1] == plural


def _is_collection(path: str) -> bool:
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    return len(parts) == 1 or (parts[0] == "namespaces" and len(parts) == 3)


@asynccontextmanager
async def fake_api_server(
    port: int = 0, server: FakeApiServer | None = None
) -> AsyncGenerator[FakeApiServer, None]:
    """A server on loopback, at a port of its own unless told; `server` for one that does more than keep objects."""
    server = server or FakeApiServer()
    application = web.Application(client_max_size=64 << 20)
    application.router.add_route("*", "/{path:.*}", server.answer)
    server.runner = runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await server.stop()


def connection(server: FakeApiServer) -> Connection:
    return Connection(server.base)


async def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Let everything else run until it is so; a test that waits for what never comes ends, and says where."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what a test waits for knows nothing of events
            await asyncio.sleep(0.001)


def hurried() -> dict[str, Any]:
    """For a client that tries again until its time is up: a second passes with each look at the clock, none in sleep."""
    times = count()

    async def sleep(_: float) -> None:
        pass

    return {"clock": lambda: float(next(times)), "sleep": sleep}


def seeded(seed: int = 1) -> random.Random:
    """Dice that fall the same way each time."""
    return random.Random(seed)  # noqa: S311 - no secret depends on it
