"""Who bears a token, and what they may do: two questions that an API server answers for other servers.

Both are objects that are created and never kept; the answer stands in their status.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.kube.client import Client
from numaware.kube.errors import decoded
from numaware.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS


class Caller(msgspec.Struct, frozen=True):
    """A user as the API server knows them. All of it goes into the second question: authorisers may look at any part."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: Caller = Caller()
    audiences: tuple[str, ...] = ()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_TOKEN_REVIEW = msgspec.json.Decoder(_TokenReview)
_ACCESS_REVIEW = msgspec.json.Decoder(_AccessReview)


class Reviews:
    """The questions, each answered or given up (`ApiError`) within so many seconds."""

    def __init__(self, client: Client, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    async def bearer(self, token: str, audience: str = "") -> Caller | None:
        """Whose token this is, None if it is nobody's or not meant for the audience (the API server's own if none is given)."""
        spec = {"token": token, "audiences": [audience]} if audience else {"token": token}
        body = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": spec}
        data = await self._client.create(TOKEN_REVIEWS, body, within=self._seconds)
        status = decoded(_TOKEN_REVIEW, data, "a review").status
        # A server that knows nothing of audiences says yes without naming one.
        meant = not audience or audience in status.audiences
        return status.user if status.authenticated and status.user.username and meant else None

    async def may(self, caller: Caller, verb: str, path: str) -> bool:
        """Whether they may do this with an address that is no object of the cluster (`nonResourceURLs` in a role)."""
        spec = {
            "user": caller.username,
            "uid": caller.uid,
            "groups": caller.groups,
            "extra": caller.extra,
            "nonResourceAttributes": {"verb": verb, "path": path},
        }
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": spec,
        }
        data = await self._client.create(SUBJECT_ACCESS_REVIEWS, body, within=self._seconds)
        status = decoded(_ACCESS_REVIEW, data, "a review").status
        return status.allowed and not status.denied
