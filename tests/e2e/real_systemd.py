"""A real systemd, in namespaces of its own, whose one unit is a real kubelet.

It is the init of a process namespace and has a cgroup of its own, a /run and an /etc that nobody else sees. The machine's sysctls
are read-only for it. `systemctl` and `journalctl` are Debian's, called inside.
"""

from __future__ import annotations

import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from types import TracebackType

from e2e.program import eventually
from e2e.switched_kubelet import SwitchedKubelet

SYSTEMD = Path("/lib/systemd/systemd")
UNIT = "kubelet.service"
TOOLS = ("systemctl", "journalctl")
_CGROUPS = Path("/sys/fs/cgroup")
# What a kubelet wants of a machine's own /etc.
_ETC = ("passwd", "group", "hosts")

_UNIT = """\
[Unit]
DefaultDependencies=no
After=systemd-journald.socket
StartLimitIntervalSec=60
StartLimitBurst=4

[Service]
ExecStart={command}
Restart=always
RestartSec=1
"""
_TARGET = f"""\
[Unit]
DefaultDependencies=no
Wants={UNIT} systemd-journald.service
"""
# $1 is the folder, $2… the cgroups that are ours.
_OUTSIDE = """\
set -euo pipefail
folder=$1; shift
echo $$ >"$folder/pid"
for cgroup; do mkdir -p "$cgroup"; echo $$ >"$cgroup/cgroup.procs"; done
exec unshare --mount --pid --fork --kill-child --cgroup --ipc bash "$folder/boot.sh"
"""
_INSIDE = """\
set -euo pipefail
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mount --bind {folder}/etc /etc
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
  mount -t cgroup2 none /sys/fs/cgroup
else
  mount -t tmpfs none /sys/fs/cgroup
  mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
  mount -t cgroup -o none,name=systemd none /sys/fs/cgroup/systemd
  mount -t cgroup2 none /sys/fs/cgroup/unified
fi
export container=made
exec {systemd} --system --unit=made.target --log-target=journal --show-status=no
"""


class SystemdKubelet(SwitchedKubelet):
    """As `SwitchedKubelet`, but with the real systemd."""

    def run_by(self, command: list[str]) -> list[str]:
        units = self.folder / "etc/systemd/system"
        units.mkdir(parents=True)
        for name in _ETC:
            shutil.copy(f"/etc/{name}", self.folder / "etc")
        (self.folder / "etc/machine-id").write_text("0" * 31 + "1\n", encoding="utf-8")
        (units / "made.target").write_text(_TARGET, encoding="utf-8")
        self.command = shlex.join(command)
        (units / UNIT).write_text(_UNIT.format(command=self.command), encoding="utf-8")
        boot = _INSIDE.format(folder=shlex.quote(str(self.folder)), systemd=SYSTEMD)
        (self.folder / "boot.sh").write_text(boot, encoding="utf-8")
        self._make_tools()
        return ["bash", "-c", _OUTSIDE, "boot", str(self.folder), *map(str, self._cgroups())]

    def drop_in(self, text: str) -> None:
        """More of the unit, as an administrator would add it; empty takes it away."""
        folder = self.folder / "etc/systemd/system" / f"{UNIT}.d"
        folder.mkdir(exist_ok=True)
        (folder / "made.conf").write_text(text, encoding="utf-8")
        self.ask("systemctl", "daemon-reload")

    def ask(self, *words: str) -> str:
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def stop(self) -> None:
        # An init takes a friendly signal for something else.
        self.program.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        super().__exit__(kind, error, trace)
        eventually(self._without_cgroups, "its cgroups are gone")

    def _without_cgroups(self) -> bool:
        """They can be removed as soon as the kernel has buried who was in them."""
        for cgroup in self._cgroups():
            if cgroup.exists():
                for folder in sorted(cgroup.rglob("*/"), reverse=True):
                    folder.rmdir()
                cgroup.rmdir()
        return True

    def _cgroups(self) -> list[Path]:
        """In every hierarchy one of ours, as systemd takes the one that it is in for the first of all."""
        found = []
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if names == "cpuset":
                # A new one has no CPUs, and takes nobody in; systemd makes none.
                continue
            mixed = names.removeprefix("name=") or "unified"
            place = _CGROUPS / mixed if (_CGROUPS / mixed).is_dir() else _CGROUPS
            found.append(place / path.lstrip("/") / f"numaware-{self.folder.name}-{self.port}")
        return found

    def _make_tools(self) -> None:
        self.tools.mkdir()
        # The child of `unshare`, which is the first one inside.
        inside = f'"$(cat /proc/$(cat {shlex.quote(str(self.folder))}/pid)/task/*/children | cut -d" " -f1)"'
        for name in TOOLS:
            tool = self.tools / name
            tool.write_text(
                f'#!/bin/sh\nexec nsenter --target {inside} --mount --pid /usr/bin/{name} "$@"\n',
                encoding="utf-8",
            )
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
