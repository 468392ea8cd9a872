"""Bytes between the pods of this node, as another program has counted them between processes and appends them to a file.

One line for two processes and what they said in a period, `pid1 811, pid2 4242, level 5000000`: so oeAware's client prints its topic
`process_affinity`. The numbers alone will do, and lines of another kind are passed over.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from time import thread_time

from numaware.affinity.traffic import Pair, pair_of
from numaware.node.traffic.source import Counted, PodNetwork

_LINE = re.compile(
    rb"^[ \t]*(?:pid1[ :=]*)?(\d{1,10})[ ,\t]+(?:pid2[ :=]*)?(\d{1,10})[ ,\t]+(?:level[ :=]*)?(\d{1,18})[ \t\r]*$",
    re.MULTILINE,
)
_MOST_READ = 4 << 20


class ProcessPairs:
    """What is appended to one file, whichever file has its name."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._asked = False
        # Which file it was, and how far it was read.
        self._inode, self._read = 0, 0

    def close(self) -> None:
        """It is open only while it is read."""

    def collect(self, pods: Sequence[PodNetwork]) -> Counted:
        began = thread_time()
        lost: tuple[str, ...] = ()
        try:
            data, too_much = self._news()
        except OSError as error:
            problem = {str(self._file): error.strerror or str(error)}
            return Counted({}, 0, (), problem, thread_time() - began)
        finally:
            self._asked = True
        if too_much:
            lost = (str(self._file),)
        owners = {process: pod.uid for pod in pods for process in pod.processes}
        counted: dict[Pair, int] = {}
        lines = _LINE.findall(data)
        for first, second, said in lines:
            one, other = owners.get(int(first)), owners.get(int(second))
            if one is not None and other is not None and one != other:
                pair = pair_of(one, other)
                counted[pair] = counted.get(pair, 0) + int(said)
        return Counted(counted, len(lines), lost, {}, thread_time() - began)

    def _news(self) -> tuple[bytes, bool]:
        """Whole lines since the last look, and whether some were passed over: a file that grows too fast is read at its end."""
        # Not to wait for whoever writes into a pipe.
        with open(os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - of a descriptor
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise OSError(0, "is no regular file")
            if not self._asked:
                self._inode, self._read = about.st_ino, about.st_size
            elif about.st_ino != self._inode or about.st_size < self._read:
                self._inode, self._read = about.st_ino, 0
            begin = max(self._read, about.st_size - _MOST_READ)
            file.seek(begin)
            data = file.read(about.st_size - begin)
        whole, newline, _ = data.rpartition(b"\n")
        too_much = begin > self._read
        self._read = begin + len(whole) + len(newline)
        return whole, too_much
