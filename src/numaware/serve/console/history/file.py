"""The file that history is kept in: an SQLite database with one writer and any number of readers.

A row of a node is the whole of it, compressed with an earlier row as the dictionary: it costs about as much as what
changed, and is read with one other row. What many rows share is kept once (`value`). A `run` is one stretch of time in
which somebody wrote without a break: every node begins it with a row of its own, so nothing is ever looked for before
it. Rows are only added, in the order of time (so pages are full, and are free as a whole again), and the oldest are taken away; what was answered once stays the answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import zlib
from pathlib import Path
from typing import IO, NamedTuple

from numaware.errors import InputError
from numaware.sentence import Sentence

HOUR = 3600_000
DAY = 24 * HOUR
KEPT_FOR = 7 * DAY
MOST_BYTES = 1 << 30
# A node that never changes is written anew so often; nothing that is needed is older than twice this before the cut.
RENEWED_EVERY = DAY

_OURS = 0x4E554D41
# 2: a kubelet's configuration and state as `twin/node_codec.py` writes them.
_VERSION = 2
_MAGIC = b"SQLite format 3\x00"
_PAGE = 4096
_MOST_RAW = 256 << 20
_TOUCHED_EVERY = 6 * HOUR
_EVENTS_BEFORE = 2 * HOUR
_MOST_VALUES = 20_000
_SCHEMA = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    begin INTEGER NOT NULL,
    shown INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;
CREATE TABLE look (time INTEGER PRIMARY KEY, run INTEGER NOT NULL, event INTEGER NOT NULL) STRICT;
CREATE TABLE node (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE state (node INTEGER NOT NULL, time INTEGER NOT NULL, base INTEGER, data BLOB) STRICT;
CREATE UNIQUE INDEX state_node ON state (node, time);
CREATE TABLE value (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    seen INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE event (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,
    time INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_time ON event (time);
CREATE TABLE point (
    time INTEGER PRIMARY KEY,
    pods INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    aligned INTEGER NOT NULL,
    refusals INTEGER NOT NULL
) STRICT;
"""


class TakenAwayError(Exception):
    """Somebody has deleted, moved or replaced the file that is being written."""


class Row(NamedTuple):
    """What was written of a node last: which row that is, its dictionary's, and that dictionary compressed.

    A node drifts away from its dictionary: how long the first row was that used it, and how much longer all later ones
    were in sum, tells when a new one is worth its price.
    """

    time: int
    base: int
    dictionary: bytes
    digest: bytes
    first: int = 0
    drift: int = 0


class HistoryFile:
    """The one writer of a file; used by one thread at a time. Nothing is there for readers before `commit`."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES, kept_for: int = KEPT_FOR) -> None:
        """`InputError` for a file that is not ours or has another writer, `OSError` for one that cannot be written."""
        self.path = path
        self._kept_for = kept_for
        if not path.exists() or (path.is_file() and not path.stat().st_size):
            _create(path)
        self._lock = _locked(path)
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error:
            self._lock.close()
            raise
        try:
            self._set_up(most_bytes)
        except BaseException as error:
            self.close()
            if isinstance(error, UnicodeDecodeError) or type(error) is sqlite3.DatabaseError:
                hint = Sentence("put it aside, and give a new file")
                raise InputError(str(path), Sentence("is damaged"), hint=hint) from None
            raise
        # Numbers of what is shared, by digest, with the time that they were last told to be in use.
        self._values: dict[bytes, tuple[int, int]] = {}
        self._nodes: dict[str, int] = {}
        self._run = 0

    def _set_up(self, most_bytes: int) -> None:
        self._most_pages = max(64, most_bytes // _PAGE)
        for pragma in (
            "journal_mode = WAL",
            # A process that dies loses nothing that was committed; a machine that does may lose the last seconds.
            "synchronous = NORMAL",
            f"max_page_count = {self._most_pages}",
            f"journal_size_limit = {8 << 20}",
            "busy_timeout = 2000",
            "trusted_schema = OFF",
        ):
            self._database.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        """Let go of the file; what was not committed is dropped. The lock has to be the last to go."""
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        self._lock.close()

    def check_in_place(self) -> None:
        """`TakenAwayError` if the file is not there any more, or another has its name: nobody would find what is written."""
        opened = os.fstat(self._lock.fileno())
        try:
            here = os.path.samestat(self.path.stat(), opened)
        except FileNotFoundError:
            here = False
        if not here:
            raise TakenAwayError(Sentence("the file was taken away"))

    # Writing

    def begin_run(self, name: str, kind: str, time: int) -> None:
        """From now on rows belong to a new run; what is known of earlier ones counts no more."""
        self._begin()
        inserted = self._database.execute(
            "INSERT INTO run (name, kind, begin, shown, last) VALUES (?, ?, ?, ?, ?)",
            (name, kind, time, time, time),
        )
        self._run = inserted.lastrowid or 0

    def last_time(self) -> int:
        """The last moment that anything was written of; whatever is older cannot be added any more."""
        return int(self._database.execute("SELECT coalesce(max(last), 0) FROM run").fetchone()[0])

    def number_of(self, raw: bytes, time: int) -> int:
        """The number of a value that is shared between rows."""
        digest = _digest(raw)
        known = self._values.get(digest)
        if known is not None and time - known[1] < _TOUCHED_EVERY:
            return known[0]
        self._begin()
        row = self._database.execute(
            "INSERT INTO value (digest, seen, data) VALUES (?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET seen = excluded.seen RETURNING id",
            (digest, time, zlib.compress(raw, 6)),
        ).fetchone()
        if len(self._values) >= _MOST_VALUES:
            self._values.clear()
        self._values[digest] = row[0], time
        return int(row[0])

    def put_gone(self, name: str, time: int) -> None:
        """The node is there no more."""
        self._insert(name, time, None, None)

    def put(self, name: str, time: int, raw: bytes, before: Row | None) -> Row:
        """Write a node down unless it is as `before` tells."""
        digest = _digest(raw)
        if before is not None and before.digest == digest and time - before.base < RENEWED_EVERY:
            return before
        if before is not None and time - before.base < RENEWED_EVERY:
            made = zlib.compressobj(6, zdict=zlib.decompress(before.dictionary))
            data = made.compress(raw) + made.flush()
            first = before.first or len(data)
            drift = before.drift + max(0, len(data) - first)
            if drift < len(before.dictionary) and 4 * len(data) < 3 * len(before.dictionary):
                self._insert(name, time, before.base, data)
                return before._replace(time=time, digest=digest, first=first, drift=drift)
        data = zlib.compress(raw, 6)
        self._insert(name, time, None, data)
        return Row(time, time, data, digest)

    def _insert(self, name: str, time: int, base: int | None, data: bytes | None) -> None:
        self._begin()
        self._database.execute(
            "INSERT INTO state (node, time, base, data) VALUES (?, ?, ?, ?)",
            (self._node(name), time, base, data),
        )

    def _node(self, name: str) -> int:
        number = self._nodes.get(name)
        if number is None:
            self._database.execute("INSERT OR IGNORE INTO node (name) VALUES (?)", (name,))
            row = self._database.execute("SELECT id FROM node WHERE name = ?", (name,)).fetchone()
            number = self._nodes[name] = int(row[0])
        return number

    def add_event(self, number: int, time: int, data: str) -> None:
        self._begin()
        self._database.execute("INSERT INTO event VALUES (?, ?, ?, ?)", (self._run, number, time, data))

    def add_point(self, time: int, numbers: tuple[int, int, int, int]) -> None:
        self._begin()
        self._database.execute("INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?)", (time, *numbers))

    def add_look(self, time: int, last_event: int) -> None:
        """Something is other than before."""
        self._begin()
        self._database.execute("INSERT INTO look VALUES (?, ?, ?)", (time, self._run, last_event))

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")

    def commit(self, time: int) -> None:
        """All is written that is to be told of the time up to now."""
        self._begin()
        self._database.execute("UPDATE run SET last = ? WHERE id = ?", (time, self._run))
        self._database.execute("COMMIT")

    # Letting go

    def used_permille(self) -> int:
        """How much of the largest size is taken."""
        pages, free = (
            int(self._database.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count")
        )
        return 1000 * (pages - free) // self._most_pages

    def forget(self, now: int) -> None:
        """Take away what is older than is to be kept, and the oldest tenths as long as the file is too full."""
        self._cut(now - self._kept_for, _EVENTS_BEFORE)
        for _ in range(20):
            if self.used_permille() < 850:
                return
            oldest = self._database.execute("SELECT min(shown), max(last) FROM run").fetchone()
            if oldest[0] is None or oldest[1] - oldest[0] < 60_000:
                return
            tenth = (oldest[1] - oldest[0]) // 10 + 1
            self._cut(oldest[0] + tenth, min(_EVENTS_BEFORE, 9 * tenth))

    def _cut(self, before: int, events: int) -> None:
        """Nothing is shown of the time before any more. Of every node the row that held then stays, and its dictionary."""
        run = self._database.execute
        self._begin()
        run("DELETE FROM run WHERE last < ? AND id <> ?", (before, self._run))
        run("UPDATE run SET shown = ? WHERE shown < ?", (before, before))
        first = run("SELECT coalesce(min(begin), ?) FROM run", (before,)).fetchone()[0]
        for (node,) in run("SELECT id FROM node").fetchall():
            run("DELETE FROM state WHERE node = ? AND time < ?", (node, first))
            held = run(
                "SELECT time, base FROM state WHERE node = ? AND time <= ? ORDER BY time DESC LIMIT 1",
                (node, before),
            ).fetchone()
            if held is not None:
                run("DELETE FROM state WHERE node = ? AND time < ? AND time IS NOT ?", (node, *held))
        run("DELETE FROM node WHERE id NOT IN (SELECT DISTINCT node FROM state)")
        # The look that held at the cut is still wanted, and what happened in the hour before it is counted then; there
        # is less of that only where hardly more fits in the file.
        run(
            "DELETE FROM look WHERE time < (SELECT coalesce(max(time), ?1) FROM look WHERE time <= ?1)",
            (before,),
        )
        run("DELETE FROM event WHERE time < ?", (before - events,))
        run("DELETE FROM point WHERE time < ?", (before,))
        run("DELETE FROM value WHERE seen < ?", (before - 2 * RENEWED_EVERY - _TOUCHED_EVERY,))
        run("COMMIT")
        self._values.clear()
        self._nodes.clear()


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def inflate(data: bytes, dictionary: bytes | None = None) -> bytes:
    """What was compressed; `ValueError` for what was not, or would be larger than anything we write."""
    try:
        made = zlib.decompressobj(zdict=dictionary) if dictionary is not None else zlib.decompressobj()
        raw = made.decompress(data, _MOST_RAW)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not made.eof:
        raise ValueError("ends too early")
    return raw


def _create(path: Path) -> None:
    """A new, empty history; it is there as a whole or not at all."""
    made = path.with_name(f".{path.name}.new")
    made.unlink(missing_ok=True)
    try:
        # SQLite would say less clearly why it cannot; and what runs in a cluster is not for everybody on this machine.
        made.touch(0o600, exist_ok=False)
        with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as database:
            database.execute(f"PRAGMA page_size = {_PAGE}")
            database.executescript(
                f"BEGIN; PRAGMA application_id = {_OURS}; PRAGMA user_version = {_VERSION}; {_SCHEMA} COMMIT;"
            )
        # Left by a file that somebody took away, and SQLite would read it into this one.
        for left in ("-wal", "-shm"):
            path.with_name(path.name + left).unlink(missing_ok=True)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def _locked(path: Path) -> IO[bytes]:
    """The file, for us alone as a writer. Looked at before SQLite touches it: what is not ours stays as it is."""
    if not path.is_file():
        raise InputError(
            str(path), Sentence("is not a file"), hint=Sentence("give --record a file of its own")
        )
    stream = path.open("r+b")
    try:
        _check(path, stream.read(100))
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        hint = Sentence("give every console a file of its own")
        raise InputError(str(path), Sentence("another console is writing to it"), hint=hint) from None
    except BaseException:
        stream.close()
        raise
    return stream


def _check(path: Path, head: bytes) -> None:
    number, version = (int.from_bytes(head[place : place + 4], "big") for place in (68, 60))
    hint = Sentence("it was left as it is; give a new file")
    if len(head) < 100 or not head.startswith(_MAGIC) or number != _OURS:
        raise InputError(str(path), Sentence("is not a history of numaware"), hint=hint)
    if version != _VERSION:
        raise InputError(
            str(path),
            Sentence("is a history of version {given}, not {known}", given=version, known=_VERSION),
            hint=hint,
        )


def size_of(path: Path) -> int:
    """Bytes that a history takes, what is still to be moved into it included."""
    total = 0
    for part in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(OSError):
            total += part.stat().st_size
    return total
