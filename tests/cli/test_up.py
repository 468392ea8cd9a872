"""`numaware up` as a user starts and ends it."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from numaware.cli import main


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_one_line_answers_and_ends_cleanly(ending: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "numaware", "up", "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"numaware: (http://(127\.0\.0\.1:\d+)/)\n", line)
        assert found, line
        server = http.client.HTTPConnection(found[2], timeout=10)
        server.request("GET", "/healthz")
        assert server.getresponse().read() == b'{"status":"ok"}'
        # Somebody listens while it ends.
        server.request("GET", "/api/v1/events", headers={"accept": "text/event-stream"})
        stream = server.getresponse()
        assert stream.readline() == b"event: hello\n"
        process.send_signal(ending)
        rest, complaints = process.communicate(timeout=20)
        server.close()
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest, complaints) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--port", "70000"], "--port: 70000 is not from 0 to 65535"),
        (["--host", "192.0.2.1", "--no-browser"], "192.0.2.1:8080: can be reached by others"),
        (["--token-file", "/nonexistent/token"], "/nonexistent/token: No such file or directory"),
    ],
)
def test_bad_use_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"numaware: {told}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("content", ["", "short", "two words are no token at all", "tö" * 20])
def test_a_file_without_a_token_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    assert main(["up", "--token-file", str(path), "--no-browser"]) == 2
    assert "holds no token" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["up", "--port", str(taken.getsockname()[1]), "--no-browser"]) == 2
    assert "cannot be listened on" in capsys.readouterr().err
