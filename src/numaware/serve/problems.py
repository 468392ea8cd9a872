"""What went wrong, as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from numaware.diagnose.texts import Lang, say
from numaware.sentence import Sentence
from numaware.serve.language import language_of

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
        self,
        status: int,
        detail: Sentence | str,
        hint: Sentence | str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.detail = detail
        self.hint = hint
        self.headers = headers or {}
        super().__init__(detail)

    def problem(self, lang: Lang = "en") -> Problem:
        """The problem in a language."""
        phrase = HTTPStatus(self.status).phrase
        return Problem(phrase, self.status, say(self.detail, lang), say(self.hint, lang))


def answer(error: ProblemError) -> Response:
    """The problem on the wire, in the language of whoever called."""
    return _Answer(error)


class _Answer(Response):
    """Decides on its language when it is sent: only then it is known to whom."""

    media_type = MEDIA_TYPE

    def __init__(self, error: ProblemError) -> None:
        self.error = error
        headers = {"cache-control": "no-store", "vary": "accept-language", **error.headers}
        super().__init__(b"", error.status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lang = language_of(Headers(scope=scope))
        self.body = msgspec.json.encode(self.error.problem(lang))
        self.headers["content-length"] = str(len(self.body))
        self.headers["content-language"] = lang
        await super().__call__(scope, receive, send)
