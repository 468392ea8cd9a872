from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import pwd
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kube.fake_api_server import FakeApiServer, fake_api_server, hurried
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import Connection, _from_account, _proxy_of_environment, connect
from numaware.kube.errors import ApiError
from numaware.kube.resources import NODES

SECRET = "s3cr3t-t0ken"  # noqa: S105 - what must never be shown
CONTEXT = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
# Vouches for nothing; a file of authorities must hold some.
AUTHORITY = """-----BEGIN CERTIFICATE-----
MIIBjzCCATWgAwIBAgIUflysxuldNh7Z0Y03Pnvrkls/T1cwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRdGVzdHMgb2YgbnVtYXdhcmUwIBcNMjYxMTE1MTIzNjExWhgP
MjEyNjEwMjIxMjM2MTFaMBwxGjAYBgNVBAMMEXRlc3RzIG9mIG51bWF3YXJlMFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEU87rB+pk3bEHuDQ6a9gXQ45T1/2CMpnH
zOG6fIPxobjvu8s3GzPbVmo/1T+WqiLe+204XJF0hJxM1ebudXpkpqNTMFEwHQYD
VR0OBBYEFEXoI4cu2g5YuifbYjBCBDtO+Q6GMB8GA1UdIwQYMBaAFEXoI4cu2g5Y
uifbYjBCBDtO+Q6GMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIh
AIeX4tqiL01tMqFEOGK2t8zpXHcuJi6WviQ4FAFcwVR6AiBxXHUtF9gdV4FudXJE
9b5Xa/eD4bi6DCCOqXqFMHQw2w==
-----END CERTIFICATE-----
"""


@pytest.fixture(autouse=True)
def nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the kubeconfig nor the proxy of whoever runs the tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("KUBECONFIG", "KUBERNETES_SERVICE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def kubeconfig(
    folder: Path, user: dict[str, Any], server: str = "https://cluster.example:6443", **cluster: Any
) -> str:
    path = folder / "kubeconfig"
    whole = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c", "user": "n"}},
        ],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return str(path)


def plugin(folder: Path, **status: Any) -> dict[str, Any]:
    """A credential plug-in that gives this, with the token that stands in a file, and counts how often it ran."""
    program = folder / "plugin.py"
    (folder / "token").write_text(SECRET, encoding="utf-8")
    program.write_text(
        "import json, pathlib, sys\n"
        f"here = pathlib.Path({str(folder)!r})\n"
        "with (here / 'runs').open('a') as runs: runs.write('x')\n"
        "token = (here / 'token').read_text()\n"
        "if not token: sys.exit('no credentials, log in first')\n"
        f"status = {{'token': token, **json.loads({json.dumps(status)!r})}}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': status}))\n",
        encoding="utf-8",
    )
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(program)],
        }
    }


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text(encoding="utf-8"))


def with_server(story: Callable[[FakeApiServer], Awaitable[None]]) -> None:
    async def play() -> None:
        async with fake_api_server() as server:
            server.put(NODES, "n")
            await story(server)

    asyncio.run(play())


def authorization(path: str, context: str | None = None) -> str | None:
    async def ask() -> str | None:
        return (await (await connect(path, context)).headers()).get("Authorization")

    return asyncio.run(ask())


def test_a_token_is_sent_and_so_is_a_name_with_its_password(tmp_path: Path) -> None:
    assert authorization(kubeconfig(tmp_path, {"token": SECRET})) == f"Bearer {SECRET}"
    basic = base64.b64encode(b"me:pass").decode()
    assert authorization(kubeconfig(tmp_path, {"username": "me", "password": "pass"})) == f"Basic {basic}"
    assert authorization(kubeconfig(tmp_path, {}), "nobody") is None


def test_the_file_named_wins_over_the_variable_and_that_over_the_one_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    for name in ("home/.kube", "variable", "named"):
        (tmp_path / name).mkdir(parents=True)
        places.append(Path(kubeconfig(tmp_path / name, {"token": name})))
    places[0].rename(tmp_path / "home/.kube/config")
    assert authorization("") == "Bearer home/.kube"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{places[1]}")
    assert authorization("") == "Bearer variable"
    assert authorization(str(places[2])) == "Bearer named"


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    clusters = Path(kubeconfig(tmp_path / "a", {}))
    whole = yaml.safe_load(clusters.read_text(encoding="utf-8"))
    users = tmp_path / "b" / "users"
    users.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": SECRET}}]}), encoding="utf-8")
    clusters.write_text(yaml.safe_dump({**whole, "users": []}), encoding="utf-8")
    assert authorization(f"{clusters}:{users}") == f"Bearer {SECRET}"


def test_a_token_file_that_is_replaced_is_read_again_when_the_server_refuses_the_old(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n", encoding="utf-8")

    async def story(server: FakeApiServer) -> None:
        server.tokens = {"old"}
        path = kubeconfig(tmp_path, {"tokenFile": str(token)}, server.base)
        async with Client(await connect(path)) as client:
            await client.get(NODES, "n")
            server.tokens = {"new"}
            with pytest.raises(ApiError, match="401"):
                await client.get(NODES, "n")
            token.write_text("new\n", encoding="utf-8")
            await client.get(NODES, "n")
            assert len(server.calls) == 5

    with_server(story)


def test_a_watch_that_is_refused_for_its_token_has_a_new_one_the_next_time(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")

    async def story(server: FakeApiServer) -> None:
        path = kubeconfig(tmp_path, {"tokenFile": str(token)}, server.base)
        async with Client(await connect(path)) as client:
            await client.get(NODES, "n")
            server.tokens = {"new"}
            token.write_text("new", encoding="utf-8")
            with pytest.raises(ApiError, match="401"):
                await anext(client.watch(NODES, version="1"))
            assert (await anext(client.watch(NODES, version="1"))).type == "ADDED"

    with_server(story)


def test_a_plugin_that_names_no_end_runs_again_only_when_its_token_is_refused(tmp_path: Path) -> None:
    user = plugin(tmp_path)

    async def story(server: FakeApiServer) -> None:
        server.tokens = {SECRET}
        async with Client(await connect(kubeconfig(tmp_path, user, server.base))) as client:
            for _ in range(3):
                await client.get(NODES, "n")
            assert runs(tmp_path) == 1
            server.tokens = {"new"}
            (tmp_path / "token").write_text("new", encoding="utf-8")
            await client.get(NODES, "n")
            assert runs(tmp_path) == 2

    with_server(story)


@pytest.mark.parametrize(
    ("expires", "expected"), [("2000-01-01T00:00:00Z", 4), ("2999-01-01T00:00:00Z", 1), (None, 1)]
)
def test_a_plugin_that_names_an_end_runs_again_when_that_has_come(
    tmp_path: Path, expires: str | None, expected: int
) -> None:
    user = plugin(tmp_path, **({"expirationTimestamp": expires} if expires else {}))

    async def play() -> None:
        connection = await connect(kubeconfig(tmp_path, user))
        time = connection._looked
        connection._clock = lambda: time
        # Twice to connect, and then not before a minute has passed.
        start = time
        for now in (start + 59.0, start + 60.0, start + 119.0, start + 121.0):
            time = now
            await connection.headers()
        assert runs(tmp_path) == expected

    asyncio.run(play())


def test_a_plugin_that_fails_is_told_in_its_own_words_on_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    user = plugin(tmp_path)
    (tmp_path / "token").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="no credentials, log in first") as caught:
        authorization(kubeconfig(tmp_path, user))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    user["exec"]["command"] = "/no/such/program"
    with pytest.raises(InputError, match="cannot log in"):
        authorization(kubeconfig(tmp_path, user))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_oidc_token_that_has_run_out_is_refreshed_and_kept_for_the_next_time(tmp_path: Path) -> None:
    def jwt(**claims: Any) -> str:
        return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"

    fresh = jwt(exp=4102444800)

    async def play() -> None:
        asked: list[str] = []

        async def issuer(request: web.Request) -> web.Response:
            asked.append(request.path)
            if request.path == "/token":
                assert "r1" in (await request.post()).values()
                return web.json_response({"id_token": fresh, "refresh_token": "r2"})
            return web.json_response({"token_endpoint": f"{base}/token"})

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", issuer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        oidc = {
            "client-id": "id",
            "client-secret": "cs",
            "idp-issuer-url": base,
            "id-token": jwt(exp=1),
            "refresh-token": "r1",
        }
        path = kubeconfig(tmp_path, {"auth-provider": {"name": "oidc", "config": oidc}})
        try:
            for _ in range(2):
                headers = await (await connect(path)).headers()
                assert headers == {"Authorization": f"Bearer {fresh}"}
        finally:
            await runner.cleanup()
        assert asked == ["/.well-known/openid-configuration", "/token"]

    asyncio.run(play())
    assert "r2" in (tmp_path / "kubeconfig").read_text(encoding="utf-8")


def test_a_pods_account_is_found_and_its_token_read_again_when_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InputError, match="service account: cannot log in"):
        asyncio.run(connect())
    (tmp_path / "ca.crt").write_text(AUTHORITY, encoding="utf-8")
    (tmp_path / "token").write_text("first\n", encoding="utf-8")

    async def play() -> None:
        connection = await _from_account(tmp_path)
        assert connection.base == "https://[fd00::1]:443"
        assert connection.tls is not None
        assert connection.tls.verify_mode == ssl.CERT_REQUIRED
        start = time = connection._looked
        connection._clock = lambda: time
        assert await connection.headers() == {"Authorization": "Bearer first"}
        (tmp_path / "token").write_text("second\n", encoding="utf-8")
        time = start + 59.0
        assert await connection.headers() == {"Authorization": "Bearer first"}
        time = start + 61.0
        assert await connection.headers() == {"Authorization": "Bearer second"}
        (tmp_path / "token").unlink()
        time = start + 200.0
        assert await connection.headers() == {"Authorization": "Bearer second"}

    asyncio.run(play())


def test_calls_that_need_a_new_token_at_the_same_time_ask_for_it_once() -> None:
    async def play() -> None:
        asked: list[bool] = []

        async def credentials(renew: bool) -> str:
            asked.append(renew)
            await asyncio.sleep(0.01)
            return f"Bearer {len(asked)}"

        connection = Connection("http://x", credentials=credentials)
        told = await asyncio.gather(*(connection.headers() for _ in range(5)))
        assert told == [{"Authorization": "Bearer 1"}] * 5
        told = await asyncio.gather(*(connection.headers(renew=True) for _ in range(5)))
        assert told == [{"Authorization": "Bearer 2"}] * 5
        assert asked == [False, True]

    asyncio.run(play())


def test_tls_is_as_the_kubeconfig_says(tmp_path: Path) -> None:
    authority = base64.b64encode(AUTHORITY.encode()).decode()

    async def made(**cluster: Any) -> Connection:
        return await connect(kubeconfig(tmp_path, {}, **cluster))

    connection = asyncio.run(
        made(**{"certificate-authority-data": authority, "tls-server-name": "api.example"})
    )
    assert connection.tls is not None
    assert [found["subject"] for found in connection.tls.get_ca_certs()] == [
        ((("commonName", "tests of numaware"),),)
    ]
    assert connection.tls.verify_mode == ssl.CERT_REQUIRED
    assert connection.server_name == "api.example"
    unchecked = asyncio.run(made(**{"insecure-skip-tls-verify": True}))
    assert unchecked.tls is not None
    assert (unchecked.tls.verify_mode, unchecked.tls.check_hostname) == (ssl.CERT_NONE, False)
    assert asyncio.run(made(server="http://127.0.0.1:8001/prefix/")).tls is None


def test_the_proxy_of_the_kubeconfig_or_the_environment_is_gone_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: FakeApiServer) -> None:
        path = kubeconfig(tmp_path, {"token": SECRET}, "http://cluster.invalid", **{"proxy-url": server.base})
        async with Client(await connect(path)) as client:
            assert await client.server_version() == "v1.35.8"
        monkeypatch.setenv("HTTP_PROXY", server.base)
        async with Client(await connect(kubeconfig(tmp_path, {}, "http://cluster.invalid"))) as client:
            assert await client.server_version() == "v1.35.8"

    with_server(story)


def test_a_proxy_that_refuses_is_named_and_nothing_was_sent(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        path = kubeconfig(
            tmp_path, {"token": SECRET}, "https://cluster.invalid", **{"proxy-url": server.base}
        )
        async with Client(await connect(path), **hurried()) as client:
            with pytest.raises(ApiError, match="the proxy refused: 404") as caught:
                await client.bind("ns", "p", "u", "n")
            assert not caught.value.uncertain

    with_server(story)


@pytest.mark.parametrize(
    ("exceptions", "host", "proxied"),
    [
        ("", "10.96.0.1", True),
        ("10.96.0.0/12,example.org", "10.96.0.1", False),
        ("10.96.0.0/12,example.org", "11.0.0.1", True),
        ("example.org", "api.example.org", False),
        ("nonsense/99, fd00::/8", "fd00::1", False),
        ("*", "anything", False),
    ],
)
def test_what_needs_no_proxy_may_be_a_name_or_a_range_of_addresses(
    monkeypatch: pytest.MonkeyPatch, exceptions: str, host: str, proxied: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", exceptions)
    found = _proxy_of_environment("https", f"{host}:6443" if ":" not in host else f"[{host}]:6443", host)
    assert found == ("http://proxy:3128" if proxied else None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a kubeconfig"),
        ("just words", "not a kubeconfig"),
        ("- a\n- list", "not a kubeconfig"),
        ("a: [unclosed", "not YAML"),
        ("clusters: 5\n", "not a kubeconfig that can be used"),
        (f"current-context: x\nusers: [{{name: u, user: {{token: {SECRET}}}}}]\n", "Expected"),
        (
            f"{CONTEXT}clusters: [{{name: c, cluster: {{server: 'https://h'}}}}]\nusers: [{{name: u, token: {SECRET}}}]\n",
            "key user",
        ),
        (f"{CONTEXT}clusters: [{{name: c, cluster: {{server: 'ftp://h'}}}}]\n", "not an http or https URL"),
        (
            f"{CONTEXT}clusters: [{{name: c, cluster: {{server: 'https://h', certificate-authority-data: czNjcjN0}}}}]\n",
            "certificates",
        ),
        (
            f"{CONTEXT}clusters: [{{name: c, cluster: {{server: 'https://h', proxy-url: 'socks5://{SECRET}@p'}}}}]\n",
            "proxy's address",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_one_line_without_what_is_secret(
    tmp_path: Path, text: str, why: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    path.write_text(text, encoding="utf-8")
    caplog.set_level(logging.DEBUG)
    with pytest.raises(InputError, match=why) as caught:
        asyncio.run(connect(str(path)))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    told = f"{caught.value} {caplog.text} {capfd.readouterr()}"
    assert SECRET not in told
    assert "czNjcjN0" not in told


def test_who_has_no_home_has_no_kubeconfig_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user of a container has none whom only a number names."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(InputError, match="this is not a pod of a cluster"):
        asyncio.run(connect())


def test_a_file_or_context_that_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-file: no such file"):
        asyncio.run(connect(f"{tmp_path}/no-such-file"))
    path = kubeconfig(tmp_path, {})
    with pytest.raises(InputError, match=r"no context 'there' \(it has here, nobody\)"):
        asyncio.run(connect(path, "there"))
    with pytest.raises(InputError, match="not a pod of a cluster"):
        asyncio.run(connect())
    with pytest.raises(InputError, match="no kubeconfig to look it up in"):
        asyncio.run(connect(None, "there"))


def test_no_secret_is_in_what_a_connection_shows_of_itself(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": SECRET}, **{"proxy-url": f"http://u:{SECRET}@proxy"})
    connection = asyncio.run(connect(path))
    assert connection.proxy is not None
    assert SECRET not in f"{connection} {connection!r}"


def test_no_secret_is_in_the_error_of_a_call(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        base = server.base
        server.delay = 5
        path = kubeconfig(tmp_path, {"token": SECRET}, base)
        async with Client(await connect(path)) as client:
            with pytest.raises(ApiError) as caught:
                await client.create(NODES, {"token": SECRET}, within=0.05)
            seen: list[BaseException | None] = [caught.value]
            while seen[-1] is not None:
                seen.append(seen[-1].__cause__ or seen[-1].__context__)
            assert SECRET not in "".join(f"{error} {error!r}" for error in seen)

    with_server(story)
