"""Watches folders with the kernel's inotify, and calls back when a file of a given name changes.

The kubelet replaces its state files by renaming a new one over the old, so the folder is watched, not the file. Linux has
one call for it and Python's library none; three functions of the C library through ctypes are less to carry than a
package that brings threads along.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

_CLOSE_WRITE, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _ONLY_FOLDERS = 0x4000, 0x8000, 0x0100_0000
_HEADER = struct.Struct("iIII")
# Room for some hundred events; what does not fit is read at once after.
_BUFFER = 64 << 10


class FolderWatch:
    """Watches folders for files of certain names, None for all; `changed` is told the name, or "" where the kernel lost count.

    A folder may come late or be made anew: `refresh` takes up those that are there now.
    """

    def __init__(self, wanted: Mapping[Path, frozenset[str] | None], changed: Callable[[str], None]) -> None:
        self._wanted = dict(wanted)
        self._changed = changed
        self._folders: dict[int, Path] = {}
        self._libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"inotify: {os.strerror(number)}")
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def refresh(self) -> list[Path]:
        """Watch what is not watched yet; the folders that are still missing."""
        watched = set(self._folders.values())
        missing = []
        for folder in self._wanted.keys() - watched:
            mask = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
            if number < 0:
                missing.append(folder)
            else:
                self._folders[number] = folder
                # Whatever happened before somebody was watching.
                self._changed("")
        return sorted(missing)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _BUFFER)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, place)
            start = place + _HEADER.size
            place = start + length
            name = os.fsdecode(data[start:place].rstrip(b"\0"))
            if mask & _OVERFLOW:
                self._changed("")
            elif mask & _IGNORED:
                self._folders.pop(number, None)
                self._changed("")
            elif number in self._folders:
                names = self._wanted[self._folders[number]]
                if names is None or name in names:
                    self._changed(name)
