"""Profiles that come from files, read again when the files change: a cluster's wishes change without a restart.

`daemons.py` runs it beside the scheduler. A file is looked at every few seconds, because what is mounted into a container is
replaced rather than written to, and no two file systems tell of that in the same way. One that cannot be read any more, or is
no profile, changes nothing: what was read last stays, and the log says so, once for each such file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from numaware.errors import InputError
from numaware.schedule import profile
from numaware.schedule.engine import Engine

_log = structlog.get_logger(__name__)

_SECONDS_BETWEEN_LOOKS = 2.0


class ProfileFiles:
    """The files of profiles of `engine`, by the name of the scheduler; the name of nobody is for all others."""

    def __init__(self, engine: Engine, files: Mapping[str, Path]) -> None:
        self._engine = engine
        self._files = dict(files)
        # What the engine's profiles were read from is not known here, and may be gone: the files are looked at in any case.
        self._seen: dict[str, bytes] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            self.look()

    def look(self) -> None:
        """Take in what has changed."""
        for name, path in self._files.items():
            content = _read(path)
            if content == self._seen.get(name):
                continue
            self._seen[name] = content
            about = {"file": str(path), "scheduler": name or "all others"}
            try:
                changed = self._engine.set_profile(name, profile.read(content, str(path)))
            except InputError as error:
                _log.warning("the profile cannot be used, the one before stays", problem=str(error), **about)
            else:
                if changed:
                    _log.info("the profile has changed", **about)


def _read(path: Path) -> bytes:
    """What the file holds, no more than shows that it is too large; nothing, which is no profile, if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(profile.MOST_BYTES + 1)
    except OSError:
        return b""
