"""Whose token is good: one token for all, or whomever the cluster knows and lets in.

The second way is that of Kubernetes' own servers: a TokenReview tells who bears the token, a SubjectAccessReview whether
they may do this verb (the method in small letters) with this path. What was told is kept for some seconds, so that a page
with a dozen calls costs two questions, and no longer, so that who is shut out is out soon. Of a token only a hash is kept.
If the API server cannot be asked, nobody comes in.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import structlog

from numaware.kube.errors import ApiError
from numaware.kube.reviews import Caller
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.serve.guard import Ask, Rate
from numaware.serve.problems import ProblemError

# Before the path in every question. Without it `get /api/v1/nodes` would be granted to everybody by the role
# system:discovery, which lets all users look around in the API server's own paths.
PATHS = "/numaware/console"
# A token made for this name opens the console and nothing else in the cluster.
AUDIENCE = "numaware-console"

SECONDS_TO_ASK = 5.0
SECONDS_KNOWN = 30.0
SECONDS_WRONG = 3.0
SECONDS_ALLOWED = 10.0
_MOST_KEPT = 4096
_LONGEST_TOKEN = 16 << 10
_LONGEST_PATH = 1024
_AT_ONCE = 16

_log = structlog.get_logger(__name__)
_Value = TypeVar("_Value")


class Reviewer(Protocol):
    """Answers for the cluster, or raises `ApiError`."""

    async def bearer(self, token: str, audience: str = "") -> Caller | None: ...

    async def may(self, caller: Caller, verb: str, path: str) -> bool: ...


class TokenAuthentication:
    """One token, for all who come."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def admit(self, ask: Ask) -> str:
        """Nobody is told apart, so nobody has a name."""
        if not hmac.compare_digest(ask.token.encode(), self._token):
            raise _token_needed("Bearer")
        return ""


class ClusterAuthentication:
    """Callers are who the cluster says they are, and may do what its roles say."""

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer = reviewer
        self._secret = secrets.token_bytes(32)
        self._known = _Kept[Caller](SECONDS_KNOWN, clock)
        # Apart, so that guesses cannot crowd out those who are known.
        self._wrong = _Kept[bool](SECONDS_WRONG, clock)
        self._allowed = _Kept[bool](SECONDS_ALLOWED, clock)
        self._candidate_twins = Rate(10, 50, clock)
        self._asking = asyncio.Semaphore(_AT_ONCE)
        self._away = False

    async def admit(self, ask: Ask) -> str:
        """The user's name."""
        if not ask.token or len(ask.token) > _LONGEST_TOKEN:
            raise _token_needed('Bearer realm="kubernetes"')
        if len(ask.path) > _LONGEST_PATH:
            raise ProblemError(414, Sentence("nothing here has so long a path"))
        caller = await self._caller(ask)
        name = printable(caller.username, 200)
        if not await self._may(caller, ask):
            what = f"{ask.verb} {PATHS}{printable(ask.path, 200)}"
            if ask.verb != "get":
                _log.warning("refused", by=name, what=what, client=ask.client)
            raise ProblemError(
                403,
                Sentence("{name} may not {action}", name=name, action=what),
                Sentence("a ClusterRole with that verb in nonResourceURLs gives leave"),
            )
        return name

    async def _caller(self, ask: Ask) -> Caller:
        key = self._hash(ask.token)
        caller = self._known.get(key)
        if caller is None and not self._wrong.get(key):
            wait = self._candidate_twins.wait(ask.client)
            if wait:
                raise ProblemError(
                    429, Sentence("too many tokens"), headers={"retry-after": str(int(wait) + 1)}
                )
            caller = await self._find(self._known, key, lambda: self._bearer(ask.token))
            if caller is None:
                self._wrong.put(key, True)
        if caller is None:
            unknown = Sentence("the cluster does not know this token")
            raise _token_needed('Bearer realm="kubernetes"', unknown)
        return caller

    async def _bearer(self, token: str) -> Caller | None:
        return await self._reviewer.bearer(token) or await self._reviewer.bearer(token, AUDIENCE)

    async def _may(self, caller: Caller, ask: Ask) -> bool:
        key = self._hash(f"{ask.token} {ask.verb} {ask.path}")
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = await self._find(
                self._allowed, key, lambda: self._reviewer.may(caller, ask.verb, PATHS + ask.path)
            )
        return bool(allowed)

    async def _find(
        self, kept: _Kept[_Value], key: bytes, question: Callable[[], Awaitable[_Value | None]]
    ) -> _Value | None:
        """Ask, a few questions at a time; who had to wait may find the answer there already."""
        try:
            async with asyncio.timeout(SECONDS_TO_ASK), self._asking:
                found = kept.get(key)
                if found is None:
                    found = await question()
                    if found is not None:
                        kept.put(key, found)
        except (TimeoutError, ApiError) as error:
            if not self._away:
                _log.error("nobody can come in: the cluster cannot be asked", error=str(error) or "no answer")
            self._away = True
            unasked = Sentence("the cluster cannot be asked who may do this")
            raise ProblemError(503, unasked, Sentence("try again"), {"retry-after": "2"}) from None
        self._away = False
        return found

    def _hash(self, text: str) -> bytes:
        """Of use to nobody who comes to see it, not even for trying out tokens."""
        return hashlib.blake2b(text.encode(), key=self._secret, digest_size=32).digest()


class _Kept(Generic[_Value]):
    """Answers that are good for so many seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._found: OrderedDict[bytes, tuple[float, _Value]] = OrderedDict()

    def get(self, key: bytes) -> _Value | None:
        since, value = self._found.get(key, (0.0, None))
        return value if self._clock() < since + self._seconds else None

    def put(self, key: bytes, value: _Value) -> None:
        self._found.pop(key, None)
        self._found[key] = self._clock(), value
        if len(self._found) > _MOST_KEPT:
            self._found.popitem(last=False)


def _token_needed(how: str, why: Sentence | None = None) -> ProblemError:
    detail = why or Sentence("a token is needed")
    return ProblemError(
        401, detail, Sentence("send it as Authorization: Bearer …"), {"www-authenticate": how}
    )
