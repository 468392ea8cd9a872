"""The kubelet's files on this node: where they lie, and reading them without trusting their size."""

from __future__ import annotations

from pathlib import Path

import msgspec

from numaware.errors import InputError
from numaware.machine.textfile import read_bounded
from numaware.twin import kubelet_config
from numaware.twin.config import KubeletConfig
from numaware.twin.files import STATE_FILES
from numaware.twin.state import device as device_file

SOCKET = "kubelet.sock"
_MOST_BYTES = 32 << 20


class KubeletFiles(msgspec.Struct, frozen=True):
    """The folders of one kubelet; `config` is None where its configuration is asked of the API server."""

    root: Path = Path("/var/lib/kubelet")
    config: Path | None = Path("/var/lib/kubelet/config.yaml")
    plugins: Path | None = None
    socket: Path | None = None

    @property
    def plugins_folder(self) -> Path:
        return self.plugins or self.root / "device-plugins"

    @property
    def podresources(self) -> Path:
        return self.socket or self.root / "pod-resources" / SOCKET

    def watched(self) -> dict[Path, frozenset[str]]:
        """Folder -> the names in it whose change may mean something else is true now."""
        folders: dict[Path, set[str]] = {}
        for name in STATE_FILES:
            folders.setdefault(self._folder(name), set()).add(name)
        folders.setdefault(self.podresources.parent, set()).add(self.podresources.name)
        return {folder: frozenset(names) for folder, names in folders.items()}

    def state(self) -> dict[str, bytes]:
        """The state files that are there."""
        contents = {}
        for name in STATE_FILES:
            path = self._folder(name) / name
            try:
                contents[name] = read_bounded(path, _MOST_BYTES)
            except FileNotFoundError:
                continue
        return contents

    def read_config(self, version: str) -> KubeletConfig:
        """The configuration file as the kubelet of that version takes it."""
        if self.config is None:
            raise InputError("kubelet configuration", "no file was named")
        source = str(self.config)
        return kubelet_config.read(read_bounded(self.config, _MOST_BYTES), source, version).accepted(source)

    def _folder(self, name: str) -> Path:
        return self.plugins_folder if name == device_file.FILE else self.root
