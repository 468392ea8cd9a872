"""What went wrong, as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened; `detail` says it in a sentence, `hint` what would help."""

    title: str
    status: int
    detail: str = ""
    hint: str = ""
    type: str = "about:blank"


class ProblemError(Exception):
    """Ends a call with a problem for the one who called."""

    def __init__(
        self, status: int, detail: str, hint: str = "", headers: dict[str, str] | None = None
    ) -> None:
        self.problem = Problem(HTTPStatus(status).phrase, status, detail, hint)
        self.headers = headers or {}
        super().__init__(detail)


def answer(error: ProblemError) -> Response:
    """The problem on the wire."""
    return Response(
        msgspec.json.encode(error.problem),
        status_code=error.problem.status,
        media_type=MEDIA_TYPE,
        headers={"cache-control": "no-store", **error.headers},
    )
