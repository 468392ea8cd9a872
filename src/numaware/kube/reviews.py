"""Who bears a token, and what they may do: two questions that an API server answers for other servers.

Both are objects that are created and never kept; the answer stands in their status.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.kube.client import Client
from numaware.kube.errors import decoded
from numaware.kube.resources import (
    SELF_SUBJECT_ACCESS_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Resource,
)


class Caller(msgspec.Struct, frozen=True):
    """A user as the API server knows them. All of it goes into the second question: authorisers may look at any part."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _Status(msgspec.Struct):
    """The answer to either question."""

    authenticated: bool = False
    user: Caller = Caller()
    audiences: tuple[str, ...] = ()
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_REVIEW = msgspec.json.Decoder(_Review)


class Reviews:
    """The questions, each answered or given up (`ApiError`) within so many seconds."""

    def __init__(self, client: Client, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    async def bearer(self, token: str, audience: str = "") -> Caller | None:
        """Whose token this is, None if it is nobody's or not meant for the audience (the API server's own if none is given)."""
        spec = {"token": token, "audiences": [audience]} if audience else {"token": token}
        status = await self._ask(TOKEN_REVIEWS, spec)
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
        status = await self._ask(SUBJECT_ACCESS_REVIEWS, spec)
        return status.allowed and not status.denied

    async def _ask(self, review: Resource, spec: Mapping[str, object]) -> _Status:
        data = await self._client.create(review, {**review.head, "spec": spec}, within=self._seconds)
        return decoded(_REVIEW, data, "a review").status


async def may_i(client: Client, verb: str, resource: Resource, name: str = "", namespace: str = "") -> bool:
    """Whether the account of this client may do this with objects of that kind, or with one; every account may ask that of itself."""
    attributes = {"group": resource.group, "resource": resource.plural, "verb": verb}
    attributes |= {"name": name, "namespace": namespace}
    body = {**SELF_SUBJECT_ACCESS_REVIEWS.head, "spec": {"resourceAttributes": attributes}}
    data = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, body)
    status = decoded(_REVIEW, data, "a review").status
    return status.allowed and not status.denied
