"""`numaware diagnose --follow`: a log that grows."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from numaware.cli import diagnose_follow, main
from numaware.cli.diagnose_follow import Follower
from numaware.cli.diagnose_input import Place
from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.finding import Finding
from numaware.twin.topology.hints import Hint
from support.kubelet_logs import ERAS, Story, journald, noisy, written

REFUSED = Story(
    hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
    merged=Hint(None, preferred=False),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
LOG = noisy(written(ERAS[2], REFUSED), journald)
QUIET = 'I0117 09:43:00.988280   77344 cpu_manager.go:214] "Starting CPU manager" policy="static"\n'
OTHER = noisy(written(ERAS[2], replace(REFUSED, name="web-1", uid="2")), journald)
CODE = "topology-affinity-error-disjoint-hints"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose_follow, "_EVERY_SECONDS", 0)


def grown(path: Path, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> list[list[str]]:
    """The pods told about after each step; every time the follower rests, the next step is done, and then Ctrl-C."""
    told: list[list[str]] = [[]]
    left = list(steps)

    def rest(_: float) -> None:
        if not left:
            raise KeyboardInterrupt
        told.append([])
        left.pop(0)()

    def tell(found: list[Finding]) -> None:
        told[-1].extend(one.subject.name for one in found if one.severity == "error")

    monkeypatch.setattr(time, "sleep", rest)
    Follower(Bundle(), [Place(str(path), path)], tell).follow()  # type: ignore[arg-type] # a list is handed over
    return told


def append(path: Path, text: str) -> Callable[[], object]:
    def step() -> None:
        with path.open("a") as stream:
            stream.write(text)

    return step


def test_each_finding_is_told_once_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kubelet.log"
    path.write_text(QUIET)
    told = grown(path, monkeypatch, append(path, LOG), append(path, LOG), append(path, OTHER))
    assert told == [[], ["web-0"], [], ["web-1"]]


def test_an_admission_that_is_still_going_on_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubelet.log"
    path.write_text("")
    lines = LOG.splitlines(keepends=True)
    half, rest = "".join(lines[:-2]), "".join(lines[-2:])
    cut = len(rest) // 2
    told = grown(path, monkeypatch, append(path, half), append(path, rest[:cut]), append(path, rest[cut:]))
    assert list(chain(*told)) == ["web-0"]


def test_a_rotated_log_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kubelet.log"
    path.write_text(LOG)

    def rotate() -> None:
        path.rename(tmp_path / "kubelet.log.1")
        path.write_text(OTHER)

    told = grown(path, monkeypatch, rotate, lambda: None, lambda: None)
    assert list(chain(*told)) == ["web-0", "web-1"]


def test_a_journal_can_be_piped_in_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, LOG.encode())
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        assert main(["diagnose", "--follow", "-", "--json"]) == 1
    (one,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert one["code"] == CODE


def test_without_a_log_there_is_nothing_to_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}]}\n"
    )
    assert main(["diagnose", "--follow", str(tmp_path / "pod.yaml")]) == 2
    assert "there is no log to follow" in capsys.readouterr().err
