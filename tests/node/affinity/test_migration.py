"""Pages that are brought to another NUMA node. This machine has one; real moves are made in the machine with several."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from threading import Event

import pytest

from numaware.node.affinity import migration
from numaware.node.affinity.migration import Area, areas_of, migrate
from support.numa_maps import bytes_by_node

NUMA_MAPS = """\
55d000000000 default file=/usr/bin/x mapped=3 N0=2 N1=1 kernelpagesize_kB=4
7f0000000000 default anon=6 dirty=6 N0=4 N1=2 kernelpagesize_kB=4
7f0000100000 default anon=2 dirty=2 N1=2 kernelpagesize_kB=4
7f0000200000 default huge anon=1 dirty=1 N0=1 kernelpagesize_kB=2048
7ffc00000000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
7ffd00000000 default
"""
MAPS = """\
55d000000000-55d000003000 r-xp 00000000 08:01 1 /usr/bin/x
7f0000000000-7f0000010000 rw-p 00000000 00:00 0
7f0000100000-7f0000102000 rw-p 00000000 00:00 0
7f0000200000-7f0000400000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 r--p 00000000 00:00 0 [vvar]
"""


def test_areas_are_those_with_pages_elsewhere() -> None:
    assert list(areas_of(NUMA_MAPS, MAPS, 1)) == [
        Area(0x55D000000000, 0x55D000003000, 4096, 2, shared=False),
        Area(0x7F0000000000, 0x7F0000010000, 4096, 4, shared=True),
        Area(0x7F0000200000, 0x7F0000400000, 2 << 20, 1, shared=True),
    ]


def test_bytes_are_counted_in_pages_of_their_own_size() -> None:
    assert bytes_by_node(NUMA_MAPS) == {0: 9 * 4096 + (2 << 20), 1: 5 * 4096}


class Pages:
    """A process of 3000 pages on NUMA node 0 and what the kernel would do with them; every hundredth cannot be moved."""

    def __init__(self, root: Path) -> None:
        self.moves: list[int] = []
        folder = root / "proc/41"
        folder.mkdir(parents=True)
        (folder / "numa_maps").write_text("7f0000000000 default anon=3000 N0=3000 kernelpagesize_kB=4\n")
        (folder / "maps").write_text("7f0000000000-7f0001000000 rw-p 00000000 00:00 0\n")
        self.at = {0x7F0000000000 + 4096 * number: 0 for number in range(3000)}

    def __call__(
        self, _: int, pages: list[int], node: int | None = None, *, shared: bool = False
    ) -> list[int]:
        if node is not None:
            assert shared
            self.moves.append(len(pages))
            self.at |= {page: node for page in pages if page // 4096 % 100}
        return [self.at.get(page, -2) for page in pages]


class Waits(Event):
    """Time that passes in no time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0
        return self.is_set()


def test_pages_go_two_mebibytes_at_a_time_and_no_faster_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, stop = Pages(tmp_path), Waits()
    monkeypatch.setattr(migration, "_move", pages)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    done = migrate(tmp_path, [40, 41], 1, 1 << 20, stop)
    assert (done.moved, done.left) == (2970 * 4096, 30 * 4096)
    assert max(pages.moves) == 512
    # With a clock that stands still, what was waited in all is what each step had to wait for all before it.
    assert stop.seconds >= done.moved / (1 << 20)


def test_one_who_is_stopped_moves_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages, stop = Pages(tmp_path), Waits()
    stop.set()
    monkeypatch.setattr(migration, "_move", pages)
    assert migrate(tmp_path, [41], 1, 1 << 20, stop).moved == 0
    assert pages.moves == []


def test_one_who_is_stopped_looks_no_further_where_pages_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may have a terabyte of addresses, and one page at its end."""
    folder = tmp_path / "proc/41"
    folder.mkdir(parents=True)
    (folder / "numa_maps").write_text("7e0000000000 default anon=1 N0=1 kernelpagesize_kB=4\n")
    (folder / "maps").write_text("7e0000000000-7f0000000000 rw-p 00000000 00:00 0\n")
    stop = Waits()
    looks = 0

    def nothing(_: int, pages: list[int], __: int | None = None, **___: bool) -> list[int]:
        nonlocal looks
        looks += 1
        if looks == 3:
            stop.set()
        assert looks < 10, "it should have stopped"
        return [-2] * len(pages)

    monkeypatch.setattr(migration, "_move", nothing)
    assert migrate(tmp_path, [41], 1, 1 << 20, stop).moved == 0


def test_the_kernel_tells_where_pages_of_this_process_are() -> None:
    with mmap.mmap(-1, 16 * mmap.PAGESIZE) as memory:
        memory[0] = 1
        text = Path("/proc/self/maps").read_text()
        starts = [int(line.partition("-")[0], 16) for line in text.splitlines()]
        places = migration._move(os.getpid(), [start for start in starts if start < 1 << 47])
    assert 0 in places


def test_where_all_pages_are_at_home_nothing_is_moved() -> None:
    home = max(bytes_by_node(Path("/proc/self/numa_maps").read_text()))
    assert migrate(Path("/"), [os.getpid()], home, 1 << 30, Event()).left == 0


def test_processes_that_have_ended_are_done(tmp_path: Path) -> None:
    assert migrate(tmp_path, [41, 42], 1, 1 << 20, Event()).moved == 0
    assert migration._move(2**22 + 1, [4096], 0) == [-3]
