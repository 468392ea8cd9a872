"""`numaware console` before it has met a cluster; what it does there is in tests/e2e."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaware.cli import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--port", "0", "--auth", "kubernetes", "--token-file", "token"],
            "--token-file: does not go with --auth",
        ),
        (["--port", "0", "--tls-cert", "tls.crt"], "--tls-cert: needs --tls-key, and the other way round"),
        (["--port", "0", "--tls-key", "tls.key"], "--tls-cert: needs --tls-key, and the other way round"),
        (["--port", "-1"], "--port: -1 is not from 0 to 65535"),
        (["--port", "0", "--kubeconfig", "/nonexistent/config"], "/nonexistent/config: "),
    ],
)
def test_bad_use_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", "--no-browser", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"numaware: {told}")
    assert err.count("\n") == 1


def test_help_teaches_what_roles_have_to_grant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("--auth", "kubectl create token", "nonResourceURLs", "/numaware/console/*", "deploy/rbac"):
        assert word in text


def test_what_help_names_is_shipped() -> None:
    shipped = Path(__file__).parents[2] / "deploy/rbac"
    assert "nonResourceURLs: [/numaware/console/*]" in (shipped / "console-users.yaml").read_text("utf-8")
    assert "tokenreviews" in (shipped / "console-auth.yaml").read_text("utf-8")
