"""`numaware diagnose` as people and programs call it."""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
import time
from pathlib import Path

import pytest

from numaware.cli import diagnose_input, main
from numaware.cli.diagnose_input import places
from numaware.twin.topology.hints import Hint
from support.kubelet_logs import ERAS, Story, journald, noisy, written
from support.packed import PACKERS, tar

REFUSED = Story(
    hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
    merged=Hint(None, preferred=False),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
LOG = noisy(written(ERAS[2], REFUSED), journald)
QUIET = 'I0117 09:43:00.988280   77344 cpu_manager.go:214] "Starting CPU manager" policy="static"\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kubelet.log"
    path.write_text(LOG)
    return path


def test_text_shows_the_line_the_arrow_the_why_and_the_help(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(log)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("error[topology-affinity-error-disjoint-hints] shop/web-0 was refused")
    assert f"--> {log}"[:60] in shown
    assert "^^^^" in shown
    assert "= why: Each resource fits by itself" in shown
    assert "= help: make the request smaller" in shown
    assert shown.endswith("1 error and 0 warnings in 1 file\n")


def test_what_is_fine_exits_with_zero_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubelet.log"
    path.write_text(QUIET)
    assert main(["diagnose", str(path)]) == 0
    assert capsys.readouterr().out == (
        "fine: the kubelet started: the CPU manager with policy static\n\nno topology problem found\n"
    )


def test_json_is_the_same_every_time(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        assert main(["diagnose", str(log), "--json"]) == 1
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    document = json.loads(answers[0])
    assert document["files"] == [{"file": str(log), "kind": "kubelet log"}]
    assert document["summary"] == "something was found"


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_log_can_be_piped_in(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
    assert main(["diagnose", *arguments, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == [{"file": "standard input", "kind": "kubelet log"}]


def test_nothing_at_all_on_a_terminal_is_bad_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert main(["diagnose"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_path_that_is_not_there_is_one_line_and_the_others_are_read(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(log), "missing.log", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "numaware: missing.log: No such file or directory\n"
    assert json.loads(captured.out)["findings"]


def test_a_folder_is_walked_and_links_are_not_followed(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "nodes" / "node7"
    inner.mkdir(parents=True)
    (inner / "cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    (inner / "loop").symlink_to(tmp_path)
    (inner / "notes.bin").write_bytes(b"\0\1\2")
    assert main(["diagnose", str(tmp_path), "--json"]) == 1
    kinds = {Path(one["file"]).name: one["kind"] for one in json.loads(capsys.readouterr().out)["files"]}
    assert kinds == {
        "kubelet.log": "kubelet log",
        "cpu_manager_state": "cpu_manager_state",
        "notes.bin": "unknown",
    }


def test_the_same_path_twice_counts_once(log: Path) -> None:
    found, complaints = places([str(log), str(log)])
    assert (len(found), complaints) == (1, [])


def test_the_report_is_one_file_that_needs_nothing_else(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    assert main(["diagnose", str(log), "--out", str(out)]) == 1
    page = out.read_text()
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "topology-affinity-error-disjoint-hints" in page
    assert "<mark>" in page
    assert "http" not in page.replace("http-equiv", "")


def test_names_in_a_report_cannot_become_markup(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x>.log"
    path.write_text(LOG.replace("web-0", "<b>x</b>").replace("shop", "<script>"))
    out = tmp_path / "report.html"
    main(["diagnose", str(path), "--out", str(out)])
    page = out.read_text()
    assert "<script>" not in page
    assert "<img" not in page
    assert "<b>" not in page


def test_the_language_can_be_chosen(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(log), "--lang", "zh", "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)["findings"]
    assert "NUMA" in one["title"]
    assert one["facts"]["reason"] == "TopologyAffinityError"


def test_an_unknown_language_is_bad_usage(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(log), "--lang", "xx"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "journalctl -u kubelet | numaware diagnose" in shown
    assert "Exit code" in shown


def test_a_bar_shows_how_far_a_large_log_is_where_somebody_looks(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diagnose_input, "_WORTH_A_BAR", 1)
    assert main(["diagnose", str(log)]) == 1
    assert capsys.readouterr().err == ""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["diagnose", str(log)]) == 1
    # At the end all of it was read.
    assert re.search(r"([\d.]+)/\1 KiB", terminal.getvalue())


@pytest.mark.parametrize("content", [b"", b"-- No entries --\n", bytes(3000), b"Hello\n"])
def test_evidence_that_says_nothing_is_not_good_news(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evidence").write_bytes(content)
    assert main(["diagnose", str(tmp_path / "evidence")]) == 2
    shown = capsys.readouterr().out
    assert "warning[nothing-recognised]" in shown
    assert "no topology problem found" not in shown


@pytest.mark.parametrize("form", PACKERS)
def test_an_archive_that_is_cut_off_is_bad_input_whatever_was_found(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = PACKERS[form](
        tar({"n1/kubelet.log": LOG.encode(), "n2/kubelet.log": QUIET.encode() * 500}).rstrip(b"\0")
    )
    path = tmp_path / "must-gather"
    path.write_bytes(packed[:-30])
    assert main(["diagnose", str(path)]) == 2
    shown = capsys.readouterr().out
    assert "warning[evidence-incomplete]" in shown
    assert ("nothing of it was read" if form == "bz2" else "read up to") in " ".join(shown.split())


def test_what_takes_too_long_to_read_is_told_as_far_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clock for all that is packed in all that is given: here it moves on by a second with every look."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    log = tmp_path / "kubelet.log"
    log.write_bytes(b"I0117 09:43:00.988280   77344 cpu_manager.go:214] x\n" * 100_000)
    packed = tmp_path / "logs.tgz"
    packed.write_bytes(PACKERS["gz"](tar({"a.log": log.read_bytes()})))
    assert main(["diagnose", str(log), str(packed), "--seconds", "20"]) == 2
    assert "takes longer than 20 seconds to read" in " ".join(capsys.readouterr().out.split())
    assert main(["diagnose", str(log), "--seconds", "0"]) == 2
    assert capsys.readouterr().err == "numaware: --seconds: 0 is no time to read anything\n"
