"""The built page: a handful of files, read once, sent compressed. Every path that is no file is the page itself."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numaware.sentence import Sentence
from numaware.serve.console.api.problems import ProblemError

STATIC = Path(__file__).with_name("static")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGES = (
    "/",
    "/overview",
    "/nodes",
    "/nodes/{name}",
    "/pods",
    "/pods/{namespace}/{name}",
    "/whatif",
    "/monitoring",
    "/policies",
    "/diagnose",
    "/simulate",
    # As openFuyao's console calls its pages.
    "/container_platform/scheduling/NumaOverview",
    "/container_platform/scheduling/AffinityPolicyConfiguration",
    "/container_platform/scheduling/numaMonitor",
)


class _File(NamedTuple):
    data: bytes
    zipped: bytes
    type: str
    tag: str


def routes(folder: Path = STATIC) -> list[BaseRoute]:
    """The page under all its addresses, and its files; names with a hash in them may be kept for ever."""
    files = {
        f"/{path.relative_to(folder).as_posix()}": _file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }
    page = files.get("/index.html")

    async def index(request: Request) -> Response:
        if page is None:
            raise ProblemError(404, Sentence("the page is not built"), Sentence("run make web"))
        return _send(request, page, "no-cache")

    def sender(path: str, found: _File) -> Route:
        async def send(request: Request) -> Response:
            return _send(request, found, "public, max-age=31536000, immutable")

        return Route(path, send)

    return [*(Route(path, index) for path in _PAGES), *(sender(path, found) for path, found in files.items())]


def _file(path: Path) -> _File:
    data = path.read_bytes()
    tag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
    return _File(data, gzip.compress(data, 9, mtime=0), _TYPES[path.suffix], tag)


def _send(request: Request, file: _File, kept: str) -> Response:
    headers = {"etag": file.tag, "cache-control": kept, "vary": "accept-encoding", "content-type": file.type}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.zipped, headers={**headers, "content-encoding": "gzip"})
    return Response(file.data, headers=headers)
