"""The file of a history: whose it is, what it costs, and what it lets go of."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from numaware.errors import InputError
from numaware.serve.console.history.file import DAY, HOUR, HistoryFile, inflate
from support.console_world import NOW
from support.recorded_world import lab, recording

MINUTE = 60_000


def rows(path: Path, question: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(question).fetchall()


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE precious (thing TEXT)")
        database.commit()


def other_version(path: Path) -> None:
    HistoryFile(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


def letter(path: Path) -> None:
    path.write_text("Dear diary, this is no database.\n" * 10, encoding="utf-8")


def torn(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00")


@pytest.mark.parametrize("make", [other_database, other_version, letter, torn])
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    make(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="history"):
        HistoryFile(path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        HistoryFile(tmp_path)


def test_an_empty_file_is_taken_and_a_second_writer_is_told_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    first = HistoryFile(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="another console is writing to it"):
        HistoryFile(path)
    first.close()
    HistoryFile(path).close()


def test_a_change_costs_what_changed_and_no_change_costs_nothing(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "file")
    file.begin_run("lab", "lab", NOW)
    # Nothing that repeats, so that only the dictionary can make it short.
    raw = b"".join(zlib.crc32(number.to_bytes(4, "big")).to_bytes(4, "big") for number in range(1000))
    first = file.put("gpu-0", NOW, raw, None)
    assert file.put("gpu-0", NOW + 1, raw, first) is first
    second = file.put("gpu-0", NOW + 2, raw[:2000] + b"more" + raw[2000:], first)
    assert second.base == first.time
    file.commit(NOW + 2)
    file.close()
    sizes = rows(tmp_path / "file", "SELECT length(data) FROM state ORDER BY time")
    assert len(sizes) == 2
    assert sizes[1][0] < sizes[0][0] / 20


def test_what_is_unlike_its_dictionary_begins_a_new_one(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "file")
    file.begin_run("lab", "lab", NOW)
    noise = [
        b"".join(
            zlib.crc32(number.to_bytes(4, "big")).to_bytes(4, "big") for number in range(begin, begin + 500)
        )
        for begin in (0, 10_000)
    ]
    first = file.put("gpu-0", NOW, noise[0], None)
    assert file.put("gpu-0", NOW + 1, noise[1], first).base == NOW + 1
    file.close()


def test_a_node_that_never_changes_is_written_again_after_a_day(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "file")
    file.begin_run("lab", "lab", NOW)
    first = file.put("gpu-0", NOW, b"the same", None)
    again = file.put("gpu-0", NOW + DAY, b"the same", first)
    assert (again.time, again.base, again.digest) == (NOW + DAY, NOW + DAY, first.digest)
    file.close()


@pytest.mark.parametrize("kept_for", [10 * MINUTE, 25 * MINUTE])
def test_what_is_kept_stays_the_same_when_older_things_are_forgotten(tmp_path: Path, kept_for: int) -> None:
    path = tmp_path / "file"
    seen = {}
    with recording(path, lab()) as recorded:
        for step in range(80):
            time = recorded.look(NOW - HOUR + step * MINUTE // 2)
            if not step % 8:
                seen[time] = recorded.everything()
    file = HistoryFile(path, kept_for=kept_for)
    before = rows(path, "SELECT count(*) FROM state")
    file.forget(max(seen))
    assert rows(path, "SELECT count(*) FROM state") < before
    file.close()
    with recording(path, lab()) as recorded:
        kept = recorded.kept_spans()
        assert kept[0]["fromMs"] == max(seen) - kept_for
        inside = [time for time in seen if time >= max(seen) - kept_for]
        assert 2 < len(inside) < len(seen)
        for time in inside:
            assert recorded.everything(time) == seen[time]


def test_a_file_never_grows_beyond_its_bound_and_keeps_the_latest(tmp_path: Path) -> None:
    path = tmp_path / "file"
    bound = 400 << 10
    with recording(path, lab(nodes=30), make=partial(HistoryFile, most_bytes=bound)) as recorded:
        for step in range(500):
            recorded.look(NOW - HOUR + step * 7_000)
            assert path.stat().st_size <= bound
        assert not recorded.history.writer.problem
        span = recorded.kept_spans()[-1]
        assert NOW - HOUR < span["fromMs"] < span["toMs"]
        # What happened an hour ago is not told any more, but what is, is.
        now, then = recorded.everything(), recorded.everything(span["toMs"])
        assert [node["numa"] for node in then["nodes"]["items"]] == [
            node["numa"] for node in now["nodes"]["items"]
        ]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_what_unpacks_without_end_or_ends_too_early_is_refused() -> None:
    bomb = zlib.compress(bytes(300 << 20), 9)
    for data in (bomb, zlib.compress(b"words")[:-3], b"nothing of the kind"):
        with pytest.raises(ValueError, match=r"."):
            inflate(data)
