"""Where a console is served: on loopback to anybody there, beyond it only behind a gate."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from numaware.errors import InputError
from numaware.serve.authentication import TokenAuthentication
from numaware.serve.console.app import Access, serving_console
from numaware.web import Tls
from support.console_world import console

SECRET = str(uuid.UUID(int=13))
EVERYWHERE = ("0.0.0.0:0", "[::]:0", ":0")


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    made = Tls(tmp_path / "tls.crt", tmp_path / "tls.key")
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    files = ("-keyout", str(made.key), "-out", str(made.certificate))
    subprocess.run(["openssl", "req", *options.split(), *files], check=True, capture_output=True)
    return made


def status_of(access: Access, path: str, headers: dict[str, str] | None = None) -> tuple[str, int]:
    """How a console served like this is reached, and what it answers."""

    async def ask() -> tuple[str, int]:
        async with (
            serving_console(console(nodes=2), access) as url,
            aiohttp.ClientSession() as session,
            session.get(
                url.replace("0.0.0.0", "127.0.0.1") + path,  # noqa: S104 - where it listens
                headers=headers,
                ssl=False,
            ) as answer,
        ):
            return url.partition("://")[0], answer.status

    return asyncio.run(ask())


@pytest.mark.parametrize("address", EVERYWHERE)
def test_beyond_loopback_without_a_gate_it_does_not_start(address: str, tls: Tls) -> None:
    for access in (Access(address), Access(address, tls=tls)):
        with pytest.raises(InputError, match="can be reached by others"):
            status_of(access, "/healthz")


def test_beyond_loopback_it_answers_to_any_name_and_only_with_a_token() -> None:
    access = Access(EVERYWHERE[0], TokenAuthentication(SECRET))
    bearer = {"authorization": f"Bearer {SECRET}", "host": "numa.example"}
    assert status_of(access, "/api/v1/cluster", {"host": "numa.example"}) == ("http", 401)
    assert status_of(access, "/api/v1/cluster", bearer) == ("http", 200)


def test_that_tokens_would_travel_in_the_clear_is_said(tls: Tls) -> None:
    for access, lines in (
        (Access(EVERYWHERE[0], TokenAuthentication(SECRET)), 1),
        (Access(EVERYWHERE[0], TokenAuthentication(SECRET), tls=tls), 0),
        (Access("127.0.0.1:0", TokenAuthentication(SECRET)), 0),
    ):
        with capture_logs() as logged:
            status_of(access, "/healthz")
        assert [line["event"] for line in logged if "unencrypted" in line["event"]] == [
            "tokens and answers go over the network unencrypted: give --tls-cert and --tls-key"
        ] * lines


def test_with_a_certificate_it_is_served_by_https(tls: Tls) -> None:
    assert status_of(Access("127.0.0.1:0", tls=tls), "/api/v1/cluster") == ("https", 200)
