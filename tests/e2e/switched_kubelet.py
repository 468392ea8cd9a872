"""A real kubelet whose unit is run by a fake systemd, and `numaware kubelet` beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e import broken_step, fake_systemd
from e2e.real_kubelet import RealKubelet
from numaware.machine.topology import Machine

STATE = ("cpu_manager_state", "memory_manager_state")
Files = dict[str, bytes]


class SwitchedKubelet(RealKubelet):
    """As `RealKubelet`, but `systemctl` starts and stops it; its configuration is a person's YAML."""

    def __init__(self, folder: Path, machine: Machine, config: Mapping[str, Any], **options: Any) -> None:
        super().__init__(folder, machine, config, **options)
        self.socket = folder / "systemd.sock"
        self.tools = folder / "bin"
        self.program.command = self.run_by(self.program.command)
        text = yaml.safe_dump(json.loads(self.config_file.read_text(encoding="utf-8")), sort_keys=False)
        self.config_file.write_text(f"# Row 7.\n{text}# The end.\n", encoding="utf-8")

    def run_by(self, command: list[str]) -> list[str]:
        """What starts a systemd whose unit this command is, with tools that ask it."""
        fake_systemd.make_tools(self.tools, self.socket)
        return [sys.executable, fake_systemd.__file__, str(self.socket), "--", *command]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}

    @property
    def node_flags(self) -> list[str]:
        return [
            f"--config={self.config_file}",
            f"--kubelet-root={self.root}",
            f"--machine-root={self.made}",
            f"--journal={self.folder / 'journal'}",
            f"--node={self.name}",
            "--kubelet-version=v1.35.8",
        ]

    def numaware(self, *words: str, status: int = 0, config: Path | None = None) -> str:
        """`numaware kubelet WORDS` on this node; what it printed."""
        flags = [one for one in self.node_flags if not (config and one.startswith("--config="))]
        flags += [f"--config={config}"] if config else []
        return self._run([Path(sys.executable).with_name("numaware")], [words[0], *flags, *words[1:]], status)

    def broken_at(self, number: int, *words: str) -> str:
        """`numaware kubelet apply WORDS` that fails when it has done this step; what it printed."""
        program = [sys.executable, broken_step.__file__, str(number)]
        return self._run(program, ["apply", *self.node_flags, *words], 1)

    def _run(self, program: Sequence[str | Path], words: Sequence[str], status: int) -> str:
        done = subprocess.run(
            [*program, "kubelet", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            env=self.environment,
        )
        assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def killed_at(self, step: str, *words: str) -> None:
        """The same, but killed as soon as it has begun this step."""
        with subprocess.Popen(
            [Path(sys.executable).with_name("numaware"), "kubelet", "apply", *self.node_flags, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        ) as running:
            assert running.stderr is not None
            for line in running.stderr:
                if step in line and line.rstrip().endswith("..."):
                    running.send_signal(signal.SIGKILL)
                    break
            else:
                raise AssertionError(f"it never came to {step!r}")

    def break_next_start(self) -> None:
        Path(f"{self.socket}.broken").touch()

    def mend(self) -> None:
        Path(f"{self.socket}.broken").unlink(missing_ok=True)

    def whole(self) -> bool:
        """Whether the unit is up and the kubelet well."""
        healthy: bool = self._fetch(self._healthz) == b"ok"
        return healthy

    def bytes(self) -> Files:
        """All that a switch may touch, to the byte."""
        return {
            path.name: path.read_bytes()
            for path in (self.config_file, *(self.root / name for name in STATE))
            if path.exists()
        }

    def restore(self, before: Files) -> None:
        """Everything as it was when `bytes` said so, and nothing switched since."""
        self.stop()
        shutil.rmtree(self.folder / "journal", ignore_errors=True)
        for path in (self.config_file, *(self.root / name for name in STATE)):
            path.unlink(missing_ok=True)
            if path.name in before:
                path.write_bytes(before[path.name])
        self.start()

    @staticmethod
    def mounted(folder: Path, options: str) -> None:
        """A small disk in memory; `remount,ro` makes it one that cannot be written."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)

    @staticmethod
    def unmounted(folder: Path) -> None:
        subprocess.run(["umount", folder], check=True)
