"""`numaware diagnose --follow`: a log that grows, or a journal that is piped in, told about as things happen."""

from __future__ import annotations

import copy
import dataclasses
import io
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO

from numaware.cli.diagnose_input import Place
from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.logs import messages, scan
from numaware.diagnose.finding import Finding, Subject
from numaware.diagnose.rules.diagnosis import findings

_EVERY_SECONDS = 0.5
# A log that never rests is judged all the same.
_LONGEST_WAIT = 5.0
_PIECE = 1 << 20


class _GrowingLog:
    """What has been added to a log, by whole lines; a log that was rotated begins anew."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.number = 1
        self.rest = b""
        self.ended = False
        self.stream: IO[bytes] = place.path.open("rb", buffering=0) if place.path else sys.stdin.buffer

    def take(self, bundle: Bundle) -> int:
        """Take new lines in; the answer is how many bytes were read."""
        data = self._read()
        whole, newline, self.rest = (self.rest + data).rpartition(b"\n")
        if newline:
            messages.read(
                scan.lines(io.BytesIO(whole + newline), self.number), self.place.name, bundle.journal
            )
            self.number += whole.count(b"\n") + 1
        self.rest = self.rest[: scan.LONGEST_LINE]
        return len(data)

    def _read(self) -> bytes:
        if self.place.path is None:
            ready, _, _ = select.select([self.stream], [], [], _EVERY_SECONDS)
            data = os.read(self.stream.fileno(), _PIECE) if ready else b""
            self.ended = bool(ready) and not data
            return data
        data = self.stream.read(_PIECE)
        if not data and self._was_rotated():
            self.stream.close()
            self.stream = self.place.path.open("rb", buffering=0)
            self.number, self.rest = 1, b""
        return data

    def close(self) -> None:
        if self.place.path:
            self.stream.close()

    def _was_rotated(self) -> bool:
        if self.place.path is None:
            return False
        try:
            now = self.place.path.stat()
        except OSError:
            return False
        then = os.fstat(self.stream.fileno())
        return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) or now.st_size < self.stream.tell()


class Follower:
    """Tells each finding once, when the log has come to rest after it, or at the latest after some seconds."""

    def __init__(
        self, bundle: Bundle, places: Sequence[Place], tell: Callable[[Iterable[Finding]], None]
    ) -> None:
        self.bundle = bundle
        self.logs = [_GrowingLog(place) for place in places]
        self.tell = tell
        self.told: dict[tuple[str, str, Subject], Finding] = {}

    def follow(self) -> list[Finding]:
        """Follow until Ctrl-C, or until all that is followed has ended; gives everything that was told."""
        judged, behind = time.monotonic(), True
        try:
            while not all(log.ended for log in self.logs):
                came = sum(log.take(self.bundle) for log in self.logs if not log.ended)
                behind = behind or came > 0
                if behind and (not came or time.monotonic() - judged > _LONGEST_WAIT):
                    self.judge()
                    judged, behind = time.monotonic(), False
                if not came and all(log.place.path for log in self.logs):
                    time.sleep(_EVERY_SECONDS)
        except KeyboardInterrupt:
            pass
        for log in self.logs:
            log.close()
        self.judge()
        return list(self.told.values())

    def judge(self) -> None:
        """Tell what is new. The journal is judged as a copy: an admission that is still going on stays open in it."""
        now = dataclasses.replace(self.bundle, journal=copy.deepcopy(self.bundle.journal))
        fresh = {(one.code, one.variant, one.subject): one for one in findings(now)}
        self.tell([one for key, one in fresh.items() if key not in self.told])
        self.told = {**fresh, **self.told}
