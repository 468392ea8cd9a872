from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from numaware.node.inotify import FolderWatch

Look = Callable[[FolderWatch, list[str]], Awaitable[None]]


def watching(folder: Path, look: Look) -> None:
    async def run() -> None:
        told: list[str] = []
        watch = FolderWatch({folder: frozenset({"state"})}, told.append)
        try:
            await look(watch, told)
        finally:
            watch.close()

    asyncio.run(run())


async def until(told: list[str], *names: str) -> None:
    for _ in range(6000):
        if any(name in told for name in names):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"nobody told of {names}, only of {told}")


def test_a_file_that_is_renamed_over_the_old_one_is_noticed_and_others_are_not(tmp_path: Path) -> None:
    async def look(watch: FolderWatch, told: list[str]) -> None:
        assert watch.refresh() == []
        told.clear()
        (tmp_path / "other").write_text("x")
        (tmp_path / ".draft").write_text("x")
        (tmp_path / ".draft").rename(tmp_path / "state")
        await until(told, "state")
        assert set(told) == {"state"}
        told.clear()
        (tmp_path / "state").unlink()
        await until(told, "state")

    watching(tmp_path, look)


def test_a_folder_that_comes_late_and_is_made_anew_is_taken_up(tmp_path: Path) -> None:
    folder = tmp_path / "late"

    async def look(watch: FolderWatch, told: list[str]) -> None:
        assert watch.refresh() == [folder]
        for _ in range(2):
            told.clear()
            folder.mkdir()
            assert watch.refresh() == []
            assert told == [""], "something may have happened before"
            (folder / "state").write_text("x")
            await until(told, "state")
            told.clear()
            shutil.rmtree(folder)
            await until(told, "")
            assert watch.refresh() == [folder]

    watching(folder, look)


def test_a_flood_of_events_is_not_lost(tmp_path: Path) -> None:
    """The kernel's queue has an end; beyond it the watch is told that something happened, which is enough."""

    async def look(watch: FolderWatch, told: list[str]) -> None:
        watch.refresh()
        told.clear()
        for number in range(20_000):
            path = tmp_path / f"noise-{number % 10}"
            path.touch()
            path.unlink()
        (tmp_path / "state").write_text("x")
        await until(told, "state", "")

    watching(tmp_path, look)
