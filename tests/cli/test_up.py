"""`numaware up` as a user starts and ends it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main, up
from numaware.serve.console.history.file import HistoryFile

PLAYING = "numaware: playing the first hour of a lab of 30 machines\n"


def recording_to(path: Path) -> str:
    return f"numaware: recording to {path}: seven days, at most 1 GiB; delete it when the console has ended\n"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is recorded without being asked for goes: not to the home of who runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_it_does_prints_one_line_answers_and_ends_cleanly(
    ending: signal.Signals, state: Path
) -> None:
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
        server = http.client.HTTPConnection(found[2], timeout=60)
        server.request("GET", "/healthz")
        assert server.getresponse().read() == b'{"status":"ok"}'
        # It records from its first hour on.
        server.request("GET", "/api/v1/history")
        (span,) = json.loads(server.getresponse().read())["spans"]
        assert span["toMs"] - span["fromMs"] > 3_500_000
        # Somebody listens while it ends.
        server.request("GET", "/api/v1/events", headers={"accept": "text/event-stream"})
        stream = server.getresponse()
        assert stream.readline() == b"event: hello\n"
        process.send_signal(ending)
        rest, complaints = process.communicate(timeout=60)
        server.close()
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest) == (0, "")
    assert complaints == recording_to(state / "numaware" / "lab.db") + PLAYING


def serving_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` ends before the lab begins to live."""
    monkeypatch.setattr(up, "run_until_signal", lambda coroutine: coroutine.close())


def test_it_does_without_a_record_that_nobody_asked_for(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serving_nobody(monkeypatch)
    (state / "numaware").mkdir(parents=True)
    usual = state / "numaware" / "lab.db"
    assert main(["up", "--port", "0", "--no-browser", "--no-record"]) == 0
    assert capsys.readouterr().err == ""
    assert not usual.exists()
    with contextlib.closing(HistoryFile(usual)):
        assert main(["up", "--port", "0", "--no-browser"]) == 0
    told = f"numaware: not recording: {usual}: another console is writing to it"
    assert capsys.readouterr().err.startswith(told)
    usual.write_text("mine\n", encoding="utf-8")
    assert main(["up", "--port", "0", "--no-browser"]) == 0
    assert "is not a history of numaware" in capsys.readouterr().err
    assert usual.read_text(encoding="utf-8") == "mine\n"


def test_a_home_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serving_nobody(monkeypatch)
    (tmp_path / "state").write_text("", encoding="utf-8")
    assert main(["up", "--port", "0", "--no-browser"]) == 0
    assert capsys.readouterr().err.startswith("numaware: not recording: ")


def test_to_record_and_not_to_record_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--port", "0", "--no-record", "--record", str(tmp_path / "lab.db")]) == 2
    assert capsys.readouterr().err == "numaware: --no-record: cannot be given with --record\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--port", "70000"], "--port: 70000 is not from 0 to 65535"),
        (["--host", "192.0.2.1", "--no-browser"], "192.0.2.1:8080: can be reached by others"),
        (
            ["--port", "0", "--token-file", "/nonexistent/token"],
            "/nonexistent/token: No such file or directory",
        ),
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
    assert main(["up", "--port", "0", "--token-file", str(path), "--no-browser"]) == 2
    assert "holds no token" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_at_once_and_another_one_offered(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["up", "--port", str(port), "--no-browser"]) == 2
    assert capsys.readouterr().err == (
        f"numaware: 127.0.0.1:{port}: cannot be listened on "
        "(another program has it; give another --port, or --port 0 for any that is free)\n"
    )
    assert not state.exists()


def test_history_goes_on_in_the_same_file_when_the_console_is_started_again(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    spans: list[dict[str, int]] = []
    for ending in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-m", "numaware", "up", "--port", "0", "--no-browser", "--record", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"numaware: http://(127\.0\.0\.1:\d+)/\n", process.stdout.readline())
            assert found
            server = http.client.HTTPConnection(found[1], timeout=60)
            kept: dict[str, Any] = {}
            # The first run has the hour that the lab has lived already, later ones begin when they begin.
            for _ in range(600):
                server.request("GET", "/api/v1/history")
                kept = json.loads(server.getresponse().read())
                if len(kept["spans"]) > len(spans):
                    break
                time.sleep(0.1)
            server.close()
            assert kept["spans"][: len(spans)] == spans
            process.send_signal(ending)
            assert process.communicate(timeout=60)[1] == recording_to(path) + PLAYING
        finally:
            process.kill()
            process.wait()
        spans = [*kept["spans"][:-1], {"fromMs": kept["spans"][-1]["fromMs"]}]
        # How far the last one came is known only when nobody writes any more.
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            spans[-1]["toMs"] = database.execute("SELECT max(last) FROM run").fetchone()[0]
    assert spans[0]["toMs"] - spans[0]["fromMs"] > 3_500_000
    assert len(spans) == 3


def test_a_file_that_is_no_history_is_told_in_one_line_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine\n", encoding="utf-8")
    assert main(["up", "--port", "0", "--no-browser", "--record", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"numaware: {path}: is not a history of numaware (it was left as it is; give a new file)\n"
    )
    assert path.read_text(encoding="utf-8") == "mine\n"
