"""The built page: a handful of files, read once, sent compressed. Every address that it knows is the page itself; what a
browser is led to by any other is the page as well (`UnknownPage`), which says that there is nothing.
"""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

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
    "/traffic",
    "/diagnose",
    "/simulate",
    # As openFuyao's console calls its pages.
    "/container_platform/scheduling/NumaOverview",
    "/container_platform/scheduling/AffinityPolicyConfiguration",
    "/container_platform/scheduling/numaMonitor",
)


class UnknownPage(Route):
    """For who looks (a browser that wants HTML) at an address that nothing else answers; programs are told by a problem."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        accepted = dict(scope["headers"]).get(b"accept", b"")
        elsewhere = scope["path"].startswith(("/api/", "/rest/", "/assets/", "/healthz", "/openapi.json"))
        # One that ends with a slash is led to the address without it.
        if (
            elsewhere
            or scope["path"].endswith("/")
            or b"text/html" not in accepted
            or scope["method"] not in ("GET", "HEAD")
        ):
            return Match.NONE, {}
        return super().matches(scope)


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

    async def missing(request: Request) -> Response:
        answer = await index(request)
        answer.status_code = 404
        return answer

    def sender(path: str, found: Packed) -> Route:
        async def send(request: Request) -> Response:
            return sent(request, found, "public, max-age=31536000, immutable")

        return Route(path, send)

    return [
        *(Route(path, index) for path in _PAGES),
        *(sender(path, found) for path, found in files.items()),
        UnknownPage("/{path:path}", missing),
    ]


def _file(path: Path) -> Packed:
    return zipped(path.read_bytes(), 9, _TYPES[path.suffix])
