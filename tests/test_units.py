"""Units of systemd: systemd finds nothing wrong with them, they are shut in, and what they start knows its options."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from numaware.cli import main

UNITS = sorted((Path(__file__).parents[1] / "deploy/systemd").glob("*.service"))
# How open systemd calls them, in tenths of ten: the agent is root, and reads all of /proc.
OPEN = {"numaware-agent.service": 22, "numaware-scheduler.service": 14, "numaware-extender.service": 14}
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


def started(unit: Path) -> list[str]:
    (line,) = [line for line in unit.read_text("utf-8").splitlines() if line.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart="))


def test_there_is_a_unit_for_each_daemon_that_runs_beside_a_kubelet_or_a_scheduler() -> None:
    assert {unit.name for unit in UNITS} == set(OPEN)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_a_unit_starts_has_the_options_that_it_is_given(
    unit: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    program, verb, *options = started(unit)
    assert Path(program).name == "numaware"
    assert main([verb, "--help"]) == 0
    helped = capsys.readouterr().out
    assert options
    assert [one for one in options if one.partition("=")[0] not in helped] == []


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_a_unit_as_it_is(unit: Path, tmp_path: Path) -> None:
    """Where the program lies on this machine aside."""
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text("utf-8").replace("/usr/local/bin/numaware", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
    assert done.returncode == 0, done.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_shut_in(unit: Path) -> None:
    limit = f"--threshold={OPEN[unit.name]}"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", limit, unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
