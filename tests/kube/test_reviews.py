from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.reviews import Caller, Reviews

ADA = Caller("ada", "u-1", ("staff", "system:authenticated"), {"scopes": ("read", "write")})
USER = {"username": "ada", "uid": "u-1", "groups": list(ADA.groups), "extra": {"scopes": ["read", "write"]}}


def run(story: Callable[[FakeApiServer, Reviews], Awaitable[None]], *statuses: object) -> None:
    """The server answers with these statuses, one after the other."""

    async def play() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:
            for status in statuses:
                body = status if isinstance(status, bytes) else json.dumps({"status": status}).encode()
                server.refusals.append(Refusal(201, body=body))
            await story(server, Reviews(client, 5.0))

    asyncio.run(play())


def test_a_token_is_asked_about_and_its_bearer_told_whole() -> None:
    async def story(server: FakeApiServer, reviews: Reviews) -> None:
        assert await reviews.bearer("secret") == ADA
        method, path, _ = server.calls[-1]
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        assert json.loads(server.bodies[-1]) == {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "secret"},
        }

    run(story, {"authenticated": True, "user": USER, "audiences": ["https://kubernetes.default.svc"]})


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "error": "invalid bearer token"},
        {"authenticated": False, "user": USER},
        {"authenticated": True, "user": {}},
    ],
)
def test_a_token_of_nobody_is_nobodys(status: object) -> None:
    async def story(_: FakeApiServer, reviews: Reviews) -> None:
        assert await reviews.bearer("wrong") is None

    run(story, status)


def test_a_token_for_an_audience_counts_only_where_the_server_says_so() -> None:
    """One that knows nothing of audiences leaves them out of its answer, and the token may be meant for anybody."""

    async def story(server: FakeApiServer, reviews: Reviews) -> None:
        assert await reviews.bearer("secret", "console") == ADA
        assert json.loads(server.bodies[-1])["spec"] == {"token": "secret", "audiences": ["console"]}
        assert await reviews.bearer("secret", "console") is None
        assert await reviews.bearer("secret", "console") is None

    run(
        story,
        {"authenticated": True, "user": USER, "audiences": ["console"]},
        {"authenticated": True, "user": USER},
        {"authenticated": True, "user": USER, "audiences": ["other"]},
    )


def test_all_that_is_known_of_a_caller_goes_into_the_second_question() -> None:
    async def story(server: FakeApiServer, reviews: Reviews) -> None:
        assert await reviews.may(ADA, "put", "/somewhere")
        assert server.calls[-1][1] == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert json.loads(server.bodies[-1])["spec"] == {
            "user": "ada",
            "uid": "u-1",
            "groups": ["staff", "system:authenticated"],
            "extra": {"scopes": ["read", "write"]},
            "nonResourceAttributes": {"verb": "put", "path": "/somewhere"},
        }

    run(story, {"allowed": True})


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}])
def test_only_a_plain_yes_is_one(status: object) -> None:
    async def story(_: FakeApiServer, reviews: Reviews) -> None:
        assert not await reviews.may(ADA, "get", "/")

    run(story, status)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"status": 1}', b'{"status": {"authenticated": "yes"}}'])
def test_an_answer_that_makes_no_sense_is_none(body: bytes) -> None:
    async def story(_: FakeApiServer, reviews: Reviews) -> None:
        with pytest.raises(ApiError, match="cannot be read"):
            await reviews.bearer("secret-token")

    run(story, body)


def test_a_refusal_is_told_without_the_token() -> None:
    async def story(server: FakeApiServer, reviews: Reviews) -> None:
        server.refusals.append(Refusal(403, "Forbidden"))
        with pytest.raises(ApiError) as caught:
            await reviews.bearer("secret-token")
        assert caught.value.status == 403
        assert "secret-token" not in str(caught.value)

    run(story)
