"""A real program as a child of the tests: its log in a file, its life bound to theirs.

Programs get a process group of their own, so that a signal to the tests does not reach them by chance, and the kernel
ends them when the tests die in whatever way: nothing outlives a test run, not even one that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")


def eventually(
    look: Callable[[], T | None], what: str, seconds: float = 30, alive: Program | None = None
) -> T:
    """What `look` returns once that is neither None nor false; an error while looking counts as "not yet"."""
    deadline = time.monotonic() + seconds
    problem: Exception | None = None
    while time.monotonic() < deadline:
        if alive is not None and not alive.running:
            raise AssertionError(f"{alive.name} ended while waiting until {what}\n{alive.tail()}")
        try:
            found = look()
            problem = None
        except (OSError, AssertionError, LookupError) as error:
            found, problem = None, error
        if found:
            return found
        time.sleep(0.05)
    log = f"\n{alive.tail()}" if alive is not None else ""
    raise AssertionError(
        f"not in {seconds:g} s: {what}{f' ({problem})' if problem else ''}{log}"
    ) from problem


class Program:
    """One program, started, stopped and started again with the same command line, always into the same log."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.env = dict(env or {})
        self.process: subprocess.Popen[bytes] | None = None
        self._spent = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """To be called from the main thread: the kernel binds the child's life to the thread that made it."""
        assert not self.running, f"{self.name} is running already"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
                start_new_session=True,
            )

    def stop(self, seconds: float = 20) -> int | None:
        """Ask it to end, and make it end if it does not; its exit status, None if it was not running."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL, 20)

    def pause(self) -> None:
        """Freeze it where it stands; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def tail(self, lines: int = 30) -> str:
        """The end of its log, for the message of a test that failed."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return f"--- {self.name}: the end of {self.log}\n" + "\n".join(text.splitlines()[-lines:])

    def cpu_seconds(self) -> float:
        """User and system time spent so far, restarts counted in."""
        return self._spent + (self._cpu_now() if self.running else 0.0)

    def memory_mib(self) -> int:
        """What it has in memory; 0 while it does not run."""
        if self.process is None:
            return 0
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return 0
        lines = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return next((int(line.split()[1]) // 1024 for line in lines), 0)

    def _cpu_now(self) -> float:
        assert self.process is not None
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return 0.0
        # The name in brackets may hold blanks; user and system time are the 12th and 13th field after it.
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def _end(self, number: signal.Signals, seconds: float) -> int | None:
        if self.process is None:
            return None
        if self.running:
            self._spent += self._cpu_now()
            self._signal(number)
            # One that was paused hears of it only when it goes on.
            self._signal(signal.SIGCONT)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            status = self.process.wait()
        self.process = None
        return status
