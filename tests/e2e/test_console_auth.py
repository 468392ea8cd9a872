"""Who may look at the console of a live cluster, and who may switch: accounts, tokens and roles of a real API server."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, expect

from e2e.api import Object
from e2e.console_program import Answer, ConsoleProgram
from e2e.control_plane import RBAC, ControlPlane
from e2e.program import eventually
from e2e.proxy import FaultyProxy

pytestmark = pytest.mark.e2e

WALL = "/api/v1/wall"
SWITCHES = ("/api/v1/policies/numaaware", "/rest/scheduling/v1/numaaware")
WISH = {"status": "open"}
ACCOUNTS = "/api/v1/namespaces/numaware/serviceaccounts"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
# Longer than anything is kept.
_SECONDS = 60.0


class GuardedConsole(ConsoleProgram):
    """`numaware console --auth kubernetes` over TLS, with the rights that are shipped for it."""

    def __init__(self, plane: ControlPlane, url: str | None = None) -> None:
        super().__init__(plane, url)
        self.command += ["--auth", "kubernetes", "--tls-cert", str(plane.ca), "--tls-key", str(plane.key)]
        self._tls = ssl.create_default_context(cafile=str(plane.ca))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def open(
        self, method: str, path: str, token: str = "", body: object = None, accept: str = "*/*"
    ) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        headers = {"content-type": "application/json", "accept": accept}
        if token:
            headers["authorization"] = f"Bearer {token}"
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=30)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection, connection.getresponse()

    def call(self, method: str, path: str, token: str = "", body: object = None) -> Answer:
        connection, response = self.open(method, path, token, body)
        with closing(connection):
            data = response.read()
            return Answer(response.status, json.loads(data) if data[:1] == b"{" else data)

    def status(self, method: str, path: str, token: str = "", body: object = None) -> int:
        return self.call(method, path, token, body).status


class People:
    """Accounts with what the shipped roles give them, and their tokens."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api = plane.api()

    def come(self, name: str, role: str = "") -> str:
        """A new account, whose name it gives; `role` is viewer or operator."""
        self.api.create(ACCOUNTS, {"metadata": {"name": name}})
        if role:
            self.bind(name, role)
        return name

    def newcomer(self, role: str) -> str:
        """Somebody of whom nothing is kept, not even when a test is tried once more."""
        return self.come(f"newcomer-{time.monotonic_ns()}", role)

    def bind(self, name: str, role: str) -> None:
        reference = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": f"numaware-console-{role}",
        }
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "numaware"}
        self.api.create(
            f"{ROLES}/clusterrolebindings",
            {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]},
        )

    def unbind(self, name: str) -> None:
        self.api.delete(f"{ROLES}/clusterrolebindings/{name}")

    def token(self, name: str, audience: str = "numaware-console") -> str:
        """As `kubectl create token` makes one; without an audience, one for the API server itself."""
        spec: Object = {"expirationSeconds": 3600}
        if audience:
            spec["audiences"] = [audience]
        answer = self.api.create(f"{ACCOUNTS}/{name}/token", {"spec": spec})
        return str(answer["status"]["token"])


@pytest.fixture(scope="module")
def people(plane: ControlPlane) -> People:
    found = People(plane)
    found.come("ada", "viewer")
    found.come("bob", "operator")
    found.come("eve")
    return found


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(plane) as started:
        yield started


@pytest.fixture(scope="module")
def console(plane: ControlPlane, proxy: FaultyProxy, people: People) -> Iterator[GuardedConsole]:
    with GuardedConsole(plane, proxy.url) as program:
        eventually(lambda: program.url in program.tail(), "the console prints its address", 60, program)
        yield program


def test_without_a_token_or_with_a_wrong_one_nobody_is_let_in(console: GuardedConsole) -> None:
    for token in ("", "wrong", "a.b.c", "x" * 60_000):
        for method, path in (("GET", WALL), ("GET", "/api/v1/events"), *(("PUT", one) for one in SWITCHES)):
            # One of that length is no request any more where it comes in more than one piece.
            no = (400, 401) if len(token) > 10_000 else (401,)
            assert console.status(method, path, token, WISH if method == "PUT" else None) in no
    assert console.call("GET", WALL, "wrong").body["detail"] == "the cluster does not know this token"
    assert console.status("GET", "/healthz") == 200
    assert console.status("GET", "/overview") == 200


@pytest.mark.parametrize("audience", ["numaware-console", ""])
def test_a_viewer_looks_and_asks_and_switches_nothing(
    console: GuardedConsole, people: People, audience: str
) -> None:
    token = people.token("ada", audience)
    assert console.status("GET", WALL, token) == 200
    assert console.status("GET", SWITCHES[1], token) == 200
    assert console.status("POST", "/api/v1/whatif", token, {"shape": {"cpu": "4"}}) == 200
    for path in SWITCHES:
        answer = console.call("PUT", path, token, WISH)
        assert answer.status == 403
        assert answer.body["detail"] == (
            f"system:serviceaccount:numaware:ada may not put /numaware/console{path}"
        )


def test_an_operator_gets_as_far_as_the_switch(
    plane: ControlPlane, console: GuardedConsole, people: People
) -> None:
    """Which says that there is no Volcano here."""
    token = people.token("bob")
    assert console.status("GET", WALL, token) == 200
    for path in SWITCHES:
        assert console.status("PUT", path, token, WISH) == 409
        asked = ("auth", "can-i", "put", f"/numaware/console{path}")
        assert plane.kubectl(*asked, "--as", "system:serviceaccount:numaware:bob").strip() == "yes"


def test_who_is_known_but_has_no_role_sees_nothing(console: GuardedConsole, people: People) -> None:
    """Every user of a cluster may look around under /api of the API server; that opens nothing here."""
    assert console.status("GET", WALL, people.token("eve")) == 403
    assert console.status("GET", "/openapi.json", people.token("eve")) == 403


def test_a_token_meant_for_somebody_else_is_none(console: GuardedConsole, people: People) -> None:
    assert console.status("GET", WALL, people.token("ada", "vault")) == 401


def test_no_token_is_in_the_log(console: GuardedConsole, people: People) -> None:
    token = people.token("ada")
    assert console.status("PUT", SWITCHES[0], token, WISH) == 403
    log = eventually(
        lambda: text if "system:serviceaccount:numaware:ada" in (text := console.log.read_text()) else "",
        "the refusal is in the log",
    )
    assert token not in log
    assert not re.search(r"eyJ[\w-]{20,}", log)


def test_a_role_that_is_taken_away_and_given_again_counts_soon(
    console: GuardedConsole, people: People
) -> None:
    carl = people.newcomer("operator")
    token = people.token(carl)
    assert console.status("PUT", SWITCHES[0], token, WISH) == 409
    assert console.status("GET", WALL, token) == 200
    people.unbind(carl)
    for method, path, body in (("PUT", SWITCHES[0], WISH), ("GET", WALL, None)):
        eventually(
            lambda m=method, p=path, b=body: console.status(m, p, token, b) == 403,  # type: ignore[misc]
            "it is refused",
            _SECONDS,
            console,
        )
    people.bind(carl, "viewer")
    eventually(lambda: console.status("GET", WALL, token) == 200, "it is back", _SECONDS, console)
    assert console.status("PUT", SWITCHES[0], token, WISH) == 403


def test_an_account_that_is_gone_is_nobody(
    plane: ControlPlane, console: GuardedConsole, people: People
) -> None:
    dora = people.newcomer("viewer")
    token = people.token(dora)
    assert console.status("GET", WALL, token) == 200
    plane.api().delete(f"{ACCOUNTS}/{dora}")
    eventually(lambda: console.status("GET", WALL, token) == 401, "it is refused", _SECONDS, console)


def test_a_stream_ends_when_its_reader_is_shut_out(console: GuardedConsole, people: People) -> None:
    finn = people.newcomer("viewer")
    connection, stream = console.open("GET", "/api/v1/events", people.token(finn), accept="text/event-stream")
    with closing(connection):
        assert stream.status == 200
        assert stream.readline() == b"event: hello\n"
        people.unbind(finn)
        deadline = time.monotonic() + _SECONDS
        while stream.readline():
            assert time.monotonic() < deadline, "the stream goes on"


def test_nobody_comes_in_while_the_api_server_is_away(
    console: GuardedConsole, people: People, proxy: FaultyProxy
) -> None:
    known, fresh = people.token("ada"), people.token("bob")
    assert console.status("GET", WALL, known) == 200
    proxy.down()
    try:
        answer = console.call("GET", WALL, fresh)
        assert (answer.status, answer.body["title"]) == (503, "Service Unavailable")
        eventually(lambda: console.status("GET", WALL, known) == 503, "nobody is known any more", _SECONDS)
        assert console.status("PUT", SWITCHES[0], fresh, WISH) == 503
        assert console.status("GET", WALL) == 401
        assert console.status("GET", "/healthz") == 200
    finally:
        proxy.up()
    for token in (known, fresh):
        eventually(
            lambda t=token: console.status("GET", WALL, t) == 200,  # type: ignore[misc]
            "they are back",
            _SECONDS,
            console,
        )


# What its own account needs


def start(plane: ControlPlane, *flags: str) -> tuple[int, str]:
    """A console that cannot start: its exit status, and all it said."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "numaware", "console", "--port", "0", "--no-browser"),
            *("--kubeconfig", str(plane.kubeconfig("numaware-console")), *flags),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def shipped() -> Object:
    documents = yaml.safe_load_all((RBAC / "console-auth.yaml").read_text(encoding="utf-8"))
    found: Object = next(one for one in documents if one["kind"] == "ClusterRole")
    return found


@pytest.mark.parametrize("missing", [rule["resources"][0] for rule in shipped()["rules"]])
def test_one_right_less_is_missed_at_once(plane: ControlPlane, missing: str) -> None:
    role, path = shipped(), f"{ROLES}/clusterroles/numaware-console-auth"
    less: list[Any] = [rule for rule in role["rules"] if rule["resources"] != [missing]]
    plane.api().patch(path, {"rules": less})
    try:
        told = eventually(
            lambda: said if (said := start(plane, "--auth", "kubernetes"))[0] == 2 else None,
            "the console does not start",
        )[1]
    finally:
        plane.api().patch(path, {"rules": role["rules"]})
    assert told.startswith("numaware: --auth kubernetes: the cluster cannot be asked who callers are: 403")
    assert missing in told
    assert "deploy/rbac/console-auth.yaml" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0:0: can be reached by others"),  # noqa: S104 - refused
        (["--auth", "kubernetes", "--token-file", "token"], "--token-file: does not go with --auth"),
        (["--tls-cert", "tls.crt"], "--tls-cert: needs --tls-key"),
    ],
)
def test_what_would_be_open_or_makes_no_sense_is_told_in_one_line(
    plane: ControlPlane, flags: list[str], told: str
) -> None:
    status, said = start(plane, *flags)
    assert (status, said.startswith(f"numaware: {told}"), said.count("\n")) == (2, True, 1), said


# In a browser


def test_a_person_gives_a_token_and_is_told_what_they_may_not(
    console: GuardedConsole, people: People, browser: Browser
) -> None:
    context = browser.new_context(locale="en-US", ignore_https_errors=True)
    page = context.new_page()
    page.goto(f"{console.url}/policies")
    expect(page.get_by_text("kubectl create token")).to_be_visible()
    page.get_by_label("Token").fill(people.token("eve"))
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_text("eve may not get /numaware/console/api/v1/")).to_be_visible()
    page.get_by_role("button", name="Use another token").click()
    page.get_by_label("Token").fill(people.token("ada"))
    page.get_by_role("button", name="Use it").click()
    expect(page.locator(".live.off")).to_have_count(0)
    expect(page.get_by_role("switch", name="Cluster NUMA affinity")).to_be_visible()
    context.close()
