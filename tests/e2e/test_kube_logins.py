"""The ways to log in that need a server which checks them: certificates, plug-ins that give one, and a pod's account."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from e2e.control_plane import ControlPlane
from numaware.kube.client import Client
from numaware.kube.config import Connection, _from_account, connect
from numaware.kube.errors import ApiError
from numaware.kube.resources import Resource

pytestmark = pytest.mark.e2e

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server that takes client certificates which its own certificate vouches for."""
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane(folder, server_flags=[f"--client-ca-file={folder / 'server.crt'}"]) as started:
        yield started


def openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def certificate(plane: ControlPlane, folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of a user of this name, and its key."""
    key, request, made = (folder / f"{name}.{ending}" for ending in ("key", "csr", "crt"))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    openssl("req", "-nodes", *curve, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    openssl(
        "x509", "-req", "-days", "7", "-in", request, "-CA", plane.ca, "-CAkey", plane.key, "-CAcreateserial", "-out", made
    )  # fmt: skip
    return made, key


def kubeconfig(plane: ControlPlane, folder: Path, user: dict[str, Any]) -> str:
    path = folder / "kubeconfig"
    authority = base64.b64encode(plane.ca.read_bytes()).decode()
    whole = {
        "clusters": [
            {"name": "c", "cluster": {"server": plane.url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return str(path)


async def who(connection: Connection) -> str:
    """The name that the server knows us by."""
    async with Client(connection) as client:
        body = {**REVIEWS.head}
        told = msgspec.json.decode(await client.create(REVIEWS, body))
        return str(told["status"]["userInfo"]["username"])


async def who_by(path: str) -> str:
    return await who(await connect(path))


def test_a_certificate_in_a_file_or_in_the_kubeconfig_itself_is_who_we_are(
    plane: ControlPlane, tmp_path: Path
) -> None:
    made, key = certificate(plane, tmp_path, "jane")
    files = {"client-certificate": made.name, "client-key": str(key)}
    assert asyncio.run(who_by(kubeconfig(plane, tmp_path, files))) == "jane"
    data = {
        "client-certificate-data": base64.b64encode(made.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    assert asyncio.run(who_by(kubeconfig(plane, tmp_path, data))) == "jane"


def test_a_certificate_that_is_replaced_is_used_for_new_connections(
    plane: ControlPlane, tmp_path: Path
) -> None:
    made, key = certificate(plane, tmp_path, "before")
    path = kubeconfig(plane, tmp_path, {"client-certificate": str(made), "client-key": str(key)})

    async def play() -> None:
        connection = await connect(path)
        assert await who(connection) == "before"
        for old, new in zip((made, key), certificate(plane, tmp_path, "after"), strict=True):
            new.replace(old)
        await connection.headers(renew=True)
        assert await who(connection) == "after"

    asyncio.run(play())


def test_a_certificate_that_a_plugin_gives_is_who_we_are(plane: ControlPlane, tmp_path: Path) -> None:
    made, key = certificate(plane, tmp_path, "plugged")
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "clientCertificateData": made.read_text(encoding="utf-8"),
            "clientKeyData": key.read_text(encoding="utf-8"),
        },
    }
    (tmp_path / "credential").write_text(json.dumps(credential), encoding="utf-8")
    program = f"print(open({str(tmp_path / 'credential')!r}).read())"
    user = {
        "exec": {"apiVersion": credential["apiVersion"], "command": sys.executable, "args": ["-c", program]}
    }
    assert asyncio.run(who_by(kubeconfig(plane, tmp_path, user))) == "plugged"


def test_a_pods_account_is_who_we_are_also_after_its_token_was_replaced(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = urlsplit(plane.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    (tmp_path / "ca.crt").write_bytes(plane.ca.read_bytes())
    token = tmp_path / "token"
    token.write_text(f"{plane.token('numaware-agent')}\n", encoding="utf-8")

    async def play() -> None:
        connection = await _from_account(tmp_path)
        assert await who(connection) == "system:serviceaccount:numaware:numaware-agent"
        token.write_text(f"{plane.token('numaware-scheduler')}\n", encoding="utf-8")
        await connection.headers(renew=True)
        assert await who(connection) == "system:serviceaccount:numaware:numaware-scheduler"

    asyncio.run(play())


def test_who_is_nobody_is_told_so(plane: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="401 Unauthorized"):
        asyncio.run(who_by(kubeconfig(plane, tmp_path, {})))
