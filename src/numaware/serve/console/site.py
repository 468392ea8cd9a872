"""The built page: a handful of files, read once, sent compressed. Every path that is no file is the page itself."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numaware.sentence import Sentence
from numaware.serve.console.api.operations import Packed, sent, zipped
from numaware.serve.problems import ProblemError

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
        return sent(request, page, "no-cache")

    def sender(path: str, found: Packed) -> Route:
        async def send(request: Request) -> Response:
            return sent(request, found, "public, max-age=31536000, immutable")

        return Route(path, send)

    return [*(Route(path, index) for path in _PAGES), *(sender(path, found) for path, found in files.items())]


def _file(path: Path) -> Packed:
    return zipped(path.read_bytes(), 9, _TYPES[path.suffix])
