"""Brings pages that processes have already to another NUMA node: so many bytes a second, and no longer at a time than measured.

A process that touches a page while it is being moved waits for it. So pages go two mebibytes at a time with pauses between, and
the longest of these times is reported: nobody was held up for longer by one of them. Called by `mover.py`, in a thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event

import msgspec

# Of the system call; architectures that are younger than it share one number.
_CALL = {"x86_64": 279, "ppc64le": 301, "s390x": 310}.get(platform.machine(), 239)
_OWN, _SHARED = 2, 4
_PAGE = os.sysconf("SC_PAGE_SIZE")
# A transparent huge page moves whole.
_AT_ONCE = 2 << 20
_ON_NODE = re.compile(r" N(\d{1,4})=(\d{1,18})")
_SIZE = re.compile(r" kernelpagesize_kB=(\d{1,9})")
_libc = ctypes.CDLL(None, use_errno=True)


class Migrated(msgspec.Struct, frozen=True, rename="camel"):
    """What became of a pod's pages, in bytes; `left` could not be moved. `stall` is how long the longest step took."""

    node: int
    moved: int
    left: int
    milliseconds: int
    stall_microseconds: int


class Area(msgspec.Struct, frozen=True):
    """A part of a process's memory with so many pages on other NUMA nodes. `shared` may move though others have them, too."""

    start: int
    end: int
    page: int
    away: int
    shared: bool


def migrate(root: Path, processes: Iterable[int], node: int, rate: int, stop: Event) -> Migrated:
    """All that these processes have elsewhere and that is theirs; those that end meanwhile are done."""
    began = time.monotonic()
    moved = left = 0
    longest = 0.0
    for process, area, pages in _steps(root, processes, node):
        if stop.is_set():
            break
        if not pages:
            continue
        before = time.perf_counter()
        _move(process, pages, node, shared=area.shared)
        longest = max(longest, time.perf_counter() - before)
        # Of a transparent huge page the first part takes the others along, which are then said to be busy: look again.
        arrived = _move(process, pages).count(node)
        moved += arrived * area.page
        left += (len(pages) - arrived) * area.page
        if stop.wait(max(0.0, moved / rate - (time.monotonic() - began))):
            break
    spent = time.monotonic() - began
    return Migrated(node, moved, left, int(spent * 1000), int(longest * 1_000_000))


def areas_of(numa_maps: str, maps: str, node: int) -> Iterator[Area]:
    """Those that have pages on other NUMA nodes."""
    ends = dict(line.partition(" ")[0].split("-", 1) for line in maps.splitlines())
    for line in numa_maps.splitlines():
        start = line.partition(" ")[0]
        away = sum(int(count) for place, count in _ON_NODE.findall(line) if int(place) != node)
        # Only the other knows where an area ends; what has come or gone between the two looks is left out.
        end = ends.get(start, "")
        if end and away:
            # Memory without a file is shared with nobody but the pod's own children; a file's may be with other pods.
            yield Area(int(start, 16), int(end, 16), _page_size(line), away, " file=" not in line)


def _steps(root: Path, processes: Iterable[int], node: int) -> Iterator[tuple[int, Area, list[int]]]:
    for process in processes:
        folder = root / "proc" / str(process)
        try:
            numa_maps, maps = (
                (folder / name).read_text(encoding="utf-8", errors="replace")
                for name in ("numa_maps", "maps")
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        for area in areas_of(numa_maps, maps, node):
            for pages in _pages_elsewhere(process, area, node):
                yield process, area, pages


def _pages_elsewhere(process: int, area: Area, node: int) -> Iterator[list[int]]:
    """A step's worth at a time, until as many were found as the kernel counted; none where nothing is: areas may be vast."""
    step = max(area.page, _AT_ONCE)
    found = 0
    for begin in range(area.start - area.start % step, area.end, step):
        pages = range(max(begin, area.start), min(begin + step, area.end), area.page)
        places = _move(process, pages)
        away = [page for page, place in zip(pages, places, strict=True) if place >= 0 and place != node]
        yield away
        found += len(away)
        if found >= area.away:
            return


def _move(process: int, pages: Sequence[int], node: int | None = None, *, shared: bool = False) -> list[int]:
    """The NUMA node of each page, after it was moved to this one if any is given; less than 0 where there is none."""
    count = len(pages)
    places = (ctypes.c_int * count)()
    done = _libc.syscall(
        ctypes.c_long(_CALL),
        ctypes.c_int(process),
        ctypes.c_ulong(count),
        (ctypes.c_void_p * count)(*pages),
        None if node is None else (ctypes.c_int * count)(*([node] * count)),
        places,
        ctypes.c_int(_SHARED if shared and node is not None else _OWN),
    )
    if done < 0:
        number = ctypes.get_errno()
        # No page of these is there, or the process is not.
        if number in (errno.ENOENT, errno.ESRCH):
            return [-number] * count
        raise OSError(number, f"pages of process {process} cannot be moved: {os.strerror(number)}")
    return list(places)


def _page_size(line: str) -> int:
    found = _SIZE.search(line)
    return int(found[1]) << 10 if found else _PAGE
