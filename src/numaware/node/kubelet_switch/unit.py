"""The unit that runs the kubelet, as systemd sees it; tests put a runner of their own in its place."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Protocol

import msgspec

from numaware.errors import InputError
from numaware.sentence import Sentence

_SECONDS = 120.0
_MOST_WORDS = 2000
# In microseconds of the clock that has its zero at the boot, as Python's monotonic one on Linux.
_SINCE = "ActiveEnterTimestampMonotonic"
_LOADED = "loaded"
# Of a log: its end says why.
_LAST_WORDS = 400
# A root, and a command in it: our image has no `chroot`, nor anything else of coreutils. What looking for a command imports
# has to be there before.
_IN_ROOT = """
import os, sys, warnings
try:
    os.chroot(sys.argv[1])
    os.chdir("/")
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]}, in {sys.argv[1]}: {error.strerror}")
"""


class UnitError(Exception):
    """The unit could not be stopped or started, in the words of who should have done it."""


class UnitState(msgspec.Struct, frozen=True):
    """How a unit stands: `active`, `failed`, and how often it was started again by itself.

    `since` is when it became active, in seconds since 1970; None where nobody knows. One that is not `loaded` cannot be started:
    systemd does not know it, or may not.
    """

    active: bool
    failed: bool = False
    restarts: int = 0
    since: float | None = None
    loaded: bool = True


class Unit(Protocol):
    """Stops and starts the kubelet. Both may be asked of one that stands like that already."""

    async def stop(self) -> None: ...

    async def start(self) -> None: ...

    async def state(self) -> UnitState: ...

    async def last_words(self, since: float = 0.0) -> str:
        """The end of its log, for who has to say why it did not come up; empty if nobody knows, or it said nothing since then."""


async def check_unit(unit: Unit, name: str) -> None:
    """`InputError` where the kubelet could not be stopped, nor started again to put everything back."""
    hint = Sentence("--unit names the unit that runs the kubelet, for an agent --kubelet-unit")
    try:
        state = await unit.state()
    except UnitError as error:
        problem = Sentence("systemd does not tell how it stands: {problem}", problem=str(error))
        raise InputError(name, problem, hint=hint) from None
    if not state.loaded:
        raise InputError(name, Sentence("systemd has no such unit that it could start"), hint=hint)


class Systemd:
    """A unit of the systemd whose `systemctl` is found; with a `root`, of the machine whose root that is."""

    def __init__(self, unit: str, root: str = "/") -> None:
        self.unit = unit
        # In a container the machine's own tools are used, on the machine's own files: its systemd takes their word.
        self._front = () if root == "/" else (sys.executable, "-ISc", _IN_ROOT, root)

    async def stop(self) -> None:
        await self._ask("systemctl", "stop", self.unit)

    async def start(self) -> None:
        # A unit that failed too often in a row is not started again before it is forgiven.
        await self._run("systemctl", "reset-failed", self.unit)
        await self._ask("systemctl", "start", self.unit)

    async def state(self) -> UnitState:
        asked = f"--property=ActiveState,LoadState,NRestarts,{_SINCE}"
        text = await self._ask("systemctl", "show", asked, self.unit)
        shown = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        restarts, since = shown.get("NRestarts", ""), shown.get(_SINCE, "")
        known = since.isdecimal() and int(since) > 0
        return UnitState(
            shown.get("ActiveState") == "active",
            shown.get("ActiveState") == "failed",
            int(restarts) if restarts.isdecimal() else 0,
            time.time() - time.monotonic() + int(since) / 1e6 if known else None,
            shown.get("LoadState", _LOADED) == _LOADED,
        )

    async def last_words(self, since: float = 0.0) -> str:
        # What systemd itself says of the unit would drown the kubelet's own reason.
        own = f"_SYSTEMD_UNIT={self.unit}.service"
        # With a time to begin at, the last lines are had only as the first of the way back.
        asked = ("--quiet", f"--since=@{int(since)}", "--reverse", "--lines=5", "--output=cat")
        _, text = await self._run("journalctl", own, *asked)
        return "\n".join(reversed(text.strip().splitlines()))[-_LAST_WORDS:]

    async def _ask(self, *words: str) -> str:
        code, text = await self._run(*words)
        if code:
            raise UnitError(f"{' '.join(words)}: {text[-_MOST_WORDS:].strip() or f'exit code {code}'}")
        return text

    async def _run(self, *words: str) -> tuple[int, str]:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._front,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            raise UnitError(f"{words[0]}: {error.strerror}") from None
        try:
            async with asyncio.timeout(_SECONDS):
                out, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise UnitError(f"{' '.join(words)}: no answer within {_SECONDS:.0f} s") from None
        return process.returncode or 0, out.decode(errors="replace")
