"""Writing history beside everything else: what goes wrong there never stops the console, and what was written stays."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from numaware.errors import InputError
from numaware.sentence import Sentence
from numaware.serve.console.history import writer
from numaware.serve.console.history.api import History
from numaware.serve.console.history.file import HOUR, HistoryFile
from numaware.serve.console.history.writer import EVERY
from numaware.serve.console.views.wall_model import STALE_AFTER
from numaware.serve.problems import ProblemError
from support.console_world import NOW, client
from support.recorded_world import lab, moment, recording

TESTS = Path(__file__).parents[3]
# Lives as fast as it can, and says when everything up to a moment has been written.
DIARIST = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.recorded_world import lab, recording
with recording(Path({path!r}), lab(seed=int(sys.argv[1]))) as recorded:
    for _ in range(100_000):
        print(recorded.look(), flush=True)
"""


def check(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_process_that_is_killed_at_any_moment_loses_nothing_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    told = 0
    for attempt in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", DIARIST.format(tests=str(TESTS), path=str(path)), str(attempt + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(3 + attempt * 5):
            told = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with recording(path, lab()) as recorded:
            last = recorded.kept_spans()[-1]["toMs"]
            # Told of, and quiet since; the next one began where the one before ended.
            assert last >= told - 5 * EVERY
            assert recorded.everything(last)["nodes"]["items"]
        check(path)


def test_a_full_disk_is_told_once_and_the_console_goes_on_until_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "file"
    world = lab(nodes=30)
    made: list[HistoryFile] = []

    class Cramped(HistoryFile):
        def used_permille(self) -> int:
            """As of a disk that others fill."""
            return 0

    def make(where: Path) -> HistoryFile:
        made.append(HistoryFile(where) if made else Cramped(where, most_bytes=64 << 12))
        return made[-1]

    with capture_logs() as logs, recording(path, world, make) as recorded:
        for _ in range(1000):
            recorded.look(world.now + EVERY)
            if recorded.history.writer.problem:
                break
        assert "full" in recorded.ask("GET /api/v1/history")["problem"]
        assert recorded.everything()["nodes"]["items"]
        for _ in range(40):
            recorded.look(world.now + EVERY)
        assert not recorded.ask("GET /api/v1/history")["problem"]
        spans = recorded.kept_spans()
        assert len(spans) == 2
        recorded.look(spans[-1]["toMs"] + 60_000)
        now = recorded.everything()
        assert recorded.everything(world.now)["nodes"] == now["nodes"]
    assert [log["event"] for log in logs] == ["not recording", "recording again"]
    check(path)


def test_where_no_file_can_be_made_the_console_says_so_and_goes_on() -> None:
    with capture_logs() as logs, recording(Path("/proc/history"), lab()) as recorded:
        recorded.look()
        recorded.look()
        kept = recorded.ask("GET /api/v1/history")
        assert (kept["file"], kept["spans"]) == ("history", [])
        assert kept["problem"]
        assert recorded.everything()["nodes"]["items"]
        for minutes in (1, 1440):
            assert recorded.ask("GET /api/v1/monitoring", node="gpu-0", minutes=minutes)["times"]
    assert [log["event"] for log in logs] == ["not recording"]


def test_a_file_that_was_damaged_breaks_no_page(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with recording(path, lab()) as recorded:
        times = [recorded.look(NOW - HOUR + step * 30_000) for step in range(20)]
    whole = path.read_bytes()
    dice = random.Random(1)  # noqa: S311 - no secret, only the same every time
    audit: set[object] = set()
    for _ in range(25):
        damaged = bytearray(whole)
        # Behind the head, which tells whose file it is.
        for _ in range(dice.choice((1, 20, 400))):
            damaged[dice.randrange(100, len(damaged))] = dice.randrange(256)
        path.write_bytes(damaged)
        try:
            HistoryFile(path).close()
        except InputError as error:
            audit.add(error.problem)
            continue
        with capture_logs(), recording(path, lab()) as recorded:
            recorded.look(NOW)
            found = client(recorded.console)
            for at in (times[0], times[-1]):
                for name in ("cluster", "nodes", "nodes/gpu-0", "pods", "monitoring", "history"):
                    query = {"around" if name == "history" else "at": moment(at)}
                    answer = found.get(f"/api/v1/{name}", params=query)
                    audit.add(answer.status_code)
                    assert answer.status_code in (200, 404), answer.text
            assert found.get("/api/v1/monitoring", params={"minutes": 1440}).status_code in (200, 404)
            assert found.get("/api/v1/nodes").status_code == 200
    assert audit == {200, 404, Sentence("is damaged")}


def test_a_file_that_becomes_another_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "file"
    world = lab()
    fail = threading.Event()

    class Failing(HistoryFile):
        def commit(self, time: int) -> None:
            if fail.is_set():
                raise sqlite3.OperationalError("disk I/O error")
            super().commit(time)

    with recording(path, world, Failing) as recorded:
        recorded.look()
        fail.set()
        recorded.look(world.now + 60_000)
        assert str(recorded.history.writer.problem) == "disk I/O error"
        fail.clear()
        path.unlink()
        path.write_text("somebody else's", encoding="utf-8")
        recorded.look(world.now + 70_000)
        assert "is not a history" in str(recorded.history.writer.problem)
    assert path.read_text(encoding="utf-8") == "somebody else's"


@pytest.mark.parametrize("moved", [False, True])
def test_a_file_that_is_taken_away_is_told_of_and_begun_anew(tmp_path: Path, moved: bool) -> None:
    path = tmp_path / "file"
    world = lab()
    with capture_logs() as logs, recording(path, world) as recorded:
        recorded.look()
        if moved:
            path.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        recorded.look(world.now + EVERY)
        assert str(recorded.history.writer.problem) == "the file was taken away"
        recorded.look(world.now + EVERY)
        assert not recorded.history.writer.problem
        assert recorded.history.writer.archive is not None
        assert len(recorded.history.writer.archive.spans()) == 1
    check(path)
    assert [line["event"] for line in logs] == ["not recording", "recording again"]


def test_a_writer_that_lags_leaves_looks_out_but_no_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    going = threading.Event()
    waited: list[bool] = []

    class Slow(HistoryFile):
        def commit(self, time: int) -> None:
            waited.append(not going.wait(60))
            super().commit(time)

    world = lab()
    with recording(path, world, Slow) as recorded:
        for _ in range(50):
            world.advance(world.now + EVERY)
            recorded.console.write_down()
        assert waited == []
        going.set()
        recorded.history.writer._looks.join()
        now = recorded.look()
        seen = recorded.everything()
        assert recorded.everything(now) == seen
    with closing(sqlite3.connect(path)) as database:
        assert 1 < database.execute("SELECT count(*) FROM look").fetchone()[0] < 20


def test_two_consoles_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with recording(path, lab()), pytest.raises(InputError, match="another console"):
        History(path)


def test_what_was_written_of_a_time_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with recording(path, lab(seed=1)) as recorded:
        first = recorded.look(NOW)
        seen = recorded.everything()
    other = lab(seed=2)
    with recording(path, other) as recorded:
        for time_ in range(NOW - HOUR // 20, NOW + HOUR // 20, 30_000):
            recorded.look(time_)
        assert recorded.everything(first)["pods"] == seen["pods"]
        assert [span["fromMs"] > first for span in recorded.kept_spans()] == [False, True]


def test_a_file_from_the_future_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with recording(path, lab()) as recorded:
        recorded.look(NOW + 3 * HOUR)
    with recording(path, lab()) as recorded:
        recorded.look(NOW)
        assert str(recorded.history.writer.problem) == "what is kept in it is of a later time than now"


def test_of_a_time_in_which_nobody_looked_nothing_is_shown(tmp_path: Path) -> None:
    with recording(tmp_path / "file", lab()) as recorded:
        before = recorded.look(NOW - HOUR + 10_000)
        after = recorded.look(NOW - HOUR + 600_000)
        seen = recorded.everything()
        assert [span["fromMs"] for span in recorded.kept_spans()] == [before, after]
        with pytest.raises(ProblemError, match="nothing is kept of that time"):
            recorded.everything(before + 300_000)
        # What happened before is told of in the new stretch as well, as it is live.
        assert recorded.everything(after) == seen


def test_a_file_that_is_too_small_for_anything_is_told_of(tmp_path: Path) -> None:
    with recording(tmp_path / "file", lab(nodes=30), partial(HistoryFile, most_bytes=1)) as recorded:
        for _ in range(60):
            recorded.look(recorded.world.now + 30_000)
        assert (tmp_path / "file").stat().st_size <= 64 << 12


def test_of_many_nodes_a_few_are_asked_each_time_how_old_they_are_and_none_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_AGES_AT_ONCE", 2)
    world = lab()
    silent = world.cluster.members[-1].name
    heard = world.now
    monkeypatch.setattr(world, "reported", lambda name: ("reported", heard if name == silent else world.now))
    with recording(tmp_path / "file", world) as recorded:
        recorded.look()
        recorded.look(heard + STALE_AFTER + 1)
        looks = [recorded.look() for _ in range(len(world.cluster) // 2)]
        nodes = recorded.ask("GET /api/v1/nodes", recorded.kept(looks)[-1])["items"]
        assert [node["name"] for node in nodes if node["stale"]] == [silent]
        assert next(node["reportedAt"] for node in nodes if node["stale"]) == heard
