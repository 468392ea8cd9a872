"""What systemd says of a unit, from a made `systemctl`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from numaware.node.kubelet_switch import unit
from numaware.node.kubelet_switch.unit import Systemd, UnitError, UnitState


def shown(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> UnitState:
    tool = folder / "systemctl"
    tool.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines), encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    return asyncio.run(Systemd("kubelet").state())


def test_a_unit_that_runs_says_since_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "time", SimpleNamespace(time=lambda: 5000.0, monotonic=lambda: 1000.0))
    lines = "ActiveState=active", "LoadState=loaded", "NRestarts=3", "ActiveEnterTimestampMonotonic=900500000"
    assert shown(tmp_path, monkeypatch, *lines) == UnitState(True, False, 3, 4900.5)


def test_a_unit_that_never_ran_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "ActiveState=failed", "NRestarts=", "ActiveEnterTimestampMonotonic=0"
    assert shown(tmp_path, monkeypatch, *lines) == UnitState(False, failed=True)
    assert shown(tmp_path, monkeypatch, "ActiveState=inactive") == UnitState(False)


def test_a_unit_that_systemd_does_not_know_or_may_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("not-found", "masked"):
        state = shown(tmp_path, monkeypatch, "ActiveState=inactive", f"LoadState={word}")
        assert state == UnitState(False, loaded=False)


def test_the_machines_own_tools_are_run_without_any_of_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no `chroot` to be found, and, as root, no `systemctl` in the machine's root either."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnitError, match=f"^systemctl stop kubelet: systemctl, in {tmp_path}: [A-Z][a-z ]+$"):
        asyncio.run(Systemd("kubelet", str(tmp_path)).stop())


def test_what_a_unit_said_is_what_its_own_processes_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what systemd itself says of it, nor what an earlier kubelet said."""
    tool = tmp_path / "journalctl"
    tool.write_text('#!/bin/sh\necho second; echo "$*"\n', encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    told = asyncio.run(Systemd("k3s").last_words(1000.7))
    assert told == "_SYSTEMD_UNIT=k3s.service --quiet --since=@1000 --reverse --lines=5 --output=cat\nsecond"
