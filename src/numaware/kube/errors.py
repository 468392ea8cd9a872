"""`ApiError`: a call to an API server that was refused, or not answered; and how an answer becomes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from numaware.machine.words import printable

_MOST_TEXT = 1000


class ApiError(Exception):
    """One call that did not succeed: HTTP status, Kubernetes' own reason and message, and when to come back.

    `status` is 0 where no answer came at all, or none that makes sense. The text is one line and never holds what was
    sent, so that no secret can be in it.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None, sent: bool = True
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = printable(message, _MOST_TEXT)
        self.retry_after = retry_after
        self.sent = sent
        super().__init__(f"{status or 'no answer'} {reason}: {self.message}")

    @property
    def uncertain(self) -> bool:
        """Whether the server may have done what was asked all the same: look again before acting on a failure."""
        return self.sent and (self.status == 0 or self.status >= 500)

    @property
    def conflict(self) -> bool:
        """Whether someone else was first: the object is there already, changed meanwhile, or is another by now."""
        # To a patch that names another uid the server says that this cannot be changed.
        return self.status == 409 or (self.status == 422 and "metadata.uid:" in self.message)

    @property
    def not_found(self) -> bool:
        """Whether the object, or its whole kind, is not there."""
        return self.status == 404

    @property
    def gone(self) -> bool:
        """Whether the resourceVersion or continue token asked for is too old to be served."""
        return self.status == 410 or self.reason in {"Expired", "Gone"}


class _Status(msgspec.Struct):
    """What the API server says of a failure."""

    message: str = ""
    reason: str = ""
    code: int = 0


_STATUS = msgspec.json.Decoder(_Status)
_T = TypeVar("_T")
# What a decoder raises for bytes that are not what it is for.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def decoded(decoder: msgspec.json.Decoder[_T], answer: bytes, what: str, reason: str = "BadAnswer") -> _T:
    """The value in an answer; `ApiError` if the server answered with something else than `what`."""
    try:
        return decoder.decode(answer)
    except UNREADABLE as error:
        raise ApiError(0, reason, f"{what} that cannot be read: {error}") from None


def refusal(status: int, headers: Mapping[str, str], body: bytes | msgspec.Raw) -> ApiError:
    """The error for an answer that is not a success, in the server's own words where it has some."""
    try:
        said = _STATUS.decode(body)
    except UNREADABLE:
        # A proxy's page, for one.
        said = _Status(message=bytes(memoryview(body)[:_MOST_TEXT]).decode(errors="replace"))
    after = headers.get("Retry-After", "")
    return ApiError(
        status or said.code,
        said.reason or "Unknown",
        said.message or "the server gave no message",
        retry_after=float(after) if after.isascii() and after.isdigit() and len(after) < 9 else None,
    )
