"""A fake unit runner: a kubelet that only reads its files, as the twin does, and writes its state as the twin says."""

from __future__ import annotations

import contextlib
from pathlib import Path

from numaware.node.kubelet_switch.unit import UnitError, UnitState
from numaware.twin import kubelet_config
from numaware.twin.errors import StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet import start
from numaware.twin.node import Node


class FakeUnit:
    """Starts as the twin says, or stays down with the kubelet's words; `trouble` makes a call fail once, by its name.

    `lasting` makes it fail each time.
    """

    def __init__(self, folder: Path, hardware: Hardware) -> None:
        self.folder = folder
        self.hardware = hardware
        self.active = False
        self.words = ""
        self.calls: list[str] = []
        self.trouble: dict[str, Exception] = {}
        self.lasting: dict[str, Exception] = {}
        # Takes for ever to come up.
        self.slow = False
        self.since: float | None = None
        self.loaded = True

    async def stop(self) -> None:
        self._call("stop")
        self.active = False

    async def start(self) -> None:
        self._call("start")
        self.active = False
        if self.slow:
            self.slow = False
            return
        file = self.folder / "config.yaml"
        try:
            config = kubelet_config.read(file.read_bytes(), str(file)).accepted(str(file))
            kubelet = start(self.hardware, config)
            root = self.folder / "kubelet"
            found = {one.name: one.read_bytes() for one in root.iterdir() if one.is_file()}
            state = load_state(kubelet, found)
        except (StartError, ValueError) as error:
            self.words = str(error)
            return
        self.active = True
        for name, text in state_files(kubelet, Node(kubelet, state).state).items():
            (root / name).write_text(text, encoding="utf-8")

    async def state(self) -> UnitState:
        failed = not self.active and bool(self.words)
        return UnitState(self.active, failed=failed, since=self.since, loaded=self.loaded)

    async def last_words(self, since: float = 0.0) -> str:  # noqa: ARG002 - its words are of its last start
        return self.words

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.lasting:
            raise self.lasting[name]
        with contextlib.suppress(KeyError):
            raise self.trouble.pop(name)


def broken(text: str) -> UnitError:
    return UnitError(text)
