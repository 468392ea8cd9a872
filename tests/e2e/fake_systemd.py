"""A fake systemd of one unit: really starts and stops the real kubelet, for a `systemctl` that asks through a socket.

`fake_systemd.py SOCKET -- COMMAND…` starts the unit and answers until it is ended; the kernel then ends the unit, too.
`fake_systemd.py SOCKET --ask WORD…` is what a made `systemctl` or `journalctl` is. While the file SOCKET.broken is there, a start
fails once, and takes the file away.
"""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

_LAST_LINES = 5


class Unit:
    """The kubelet as a child of this process."""

    def __init__(self, command: list[str], socket_path: Path) -> None:
        self._command = command
        self._broken = Path(f"{socket_path}.broken")
        self._log = Path(f"{socket_path}.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = True
        self._since = 0.0

    def start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        command = self._command
        if self._broken.exists():
            self._broken.unlink()
            command = ["sh", "-c", "echo the unit was told to fail; exit 1"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._stopped = False
        self._since = time.monotonic()

    def stop(self) -> None:
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def show(self) -> str:
        running = self._process is not None and self._process.poll() is None
        state = "active" if running else "inactive" if self._stopped else "failed"
        return f"ActiveState={state}\nNRestarts=0\nActiveEnterTimestampMonotonic={int(self._since * 1e6)}\n"

    def answer(self, words: list[str]) -> tuple[int, str]:
        match words:
            case ["systemctl", "start", _]:
                self.start()
            case ["systemctl", "stop", _]:
                self.stop()
            case ["systemctl", "reset-failed", _]:
                pass
            case ["systemctl", "show", *_]:
                return 0, self.show()
            case ["journalctl", *flags] if "--reverse" in flags:
                lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
                return 0, "\n".join(reversed(lines[-_LAST_LINES:]))
            case _:
                return 1, f"unknown: {words}"
        return 0, ""


def serve(path: Path, command: list[str]) -> None:
    unit = Unit(command, path)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)
        unit.start()
        try:
            while True:
                client, _ = server.accept()
                with client, client.makefile("rw", encoding="utf-8") as stream:
                    line = stream.readline()
                    if line:
                        stream.write(json.dumps(unit.answer(json.loads(line))))
        finally:
            unit.stop()


def ask(path: Path, words: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        with client.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps(words) + "\n")
            stream.flush()
            code, text = json.loads(stream.read())
    sys.stdout.write(text)
    return int(code)


def make_tools(folder: Path, path: Path) -> Path:
    """A folder with `systemctl` and `journalctl` that ask the one that serves at `path`."""
    folder.mkdir(parents=True)
    for name in ("systemctl", "journalctl"):
        tool = folder / name
        script = f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" "{path}" --ask {name} "$@"\n'
        tool.write_text(script, encoding="utf-8")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return folder


if __name__ == "__main__":
    place, kind, *rest = sys.argv[1:]
    if kind == "--ask":
        sys.exit(ask(Path(place), rest))
    serve(Path(place), rest)
