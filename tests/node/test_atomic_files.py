"""A file that is replaced is the old one or the new one, whole, and never readable by more people than before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from numaware.node.atomic_files import remove_file, replace_file


def test_a_new_file_has_the_mode_it_is_given_and_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    replace_file(file, b"one", 0o600)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    replace_file(file, b"two", 0o600)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"two", 0o640)
    assert [one.name for one in tmp_path.iterdir()] == ["status.json"]


def test_a_disk_that_is_full_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "before.json"
    replace_file(file, b"old")

    def full(_: int) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["before.json"]


def test_what_a_crash_has_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".a.json.numaware").write_bytes(b"half of it and more")
    replace_file(tmp_path / "a.json", b"all")
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"a.json": b"all"}


def test_a_file_that_is_not_there_can_be_removed(tmp_path: Path) -> None:
    remove_file(tmp_path / "a.json")
    remove_file(tmp_path / "no folder" / "a.json")
    assert not list(tmp_path.iterdir())
