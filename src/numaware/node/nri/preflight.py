"""Why no container runtime listens for plug-ins, from its configuration: which line of which file has to change.

containerd 1.7 has NRI switched off unless told otherwise, containerd 2 on; of CRI-O it is not known from its files, so it is to be
told. Files are read below the node's /, and nothing is asked of a runtime that may not be there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from numaware.diagnose.finding import Message

_CONTAINERD = ("etc/containerd/config.toml", "run/containerd/containerd.sock")
# Where k3s and RKE2 keep what they tell their own containerd; it is made anew from a template at each start.
_RANCHER = tuple(f"var/lib/rancher/{name}/agent/etc/containerd/config.toml" for name in ("k3s", "rke2"))
_CRIO = ("etc/crio/crio.conf", "run/crio/crio.sock")
_SECTION = 'plugins."io.containerd.nri.v1.nri"'
_CRIO_SECTION = "crio.nri"
_USUAL_SOCKET = "/var/run/nri/nri.sock"
_LARGEST = 1 << 20

Code = Literal["switch-on", "elsewhere", "restart", "unreadable", "without"]


class Advice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do: `switch-on` by this line in that section of the file, use the socket that is `elsewhere`, `restart`.

    `without`: no runtime with NRI was found. `problem` is why a file is `unreadable`.
    """

    code: Code
    runtime: str = ""
    file: str = ""
    section: str = ""
    line: str = ""
    problem: str = ""

    @property
    def message(self) -> Message:
        facts = {"runtime": self.runtime, "file": self.file, "section": self.section, "line": self.line}
        return Message(f"affinity-nri-{self.code}", {**facts, "problem": self.problem})


def advise(root: Path, socket: str) -> Advice:
    """For a node on which nobody listens on the socket."""
    file, running = _CRIO
    crio = (root / file).exists() or (root / "etc/crio/crio.conf.d").is_dir()
    containerd = next((name for name in (*_RANCHER, _CONTAINERD[0]) if (root / name).exists()), "")
    # Where both are installed, the one that runs.
    if crio and ((root / running).exists() or not containerd):
        return _of_crio(root, socket)
    if containerd or (root / _CONTAINERD[1]).exists():
        return _of_containerd(root, containerd or _CONTAINERD[0], socket)
    if not (root / "etc").is_dir():
        return Advice("unreadable", "the container runtime", "/etc", problem=f"it is not below {root}")
    return Advice("without")


def _of_containerd(root: Path, file: str, socket: str) -> Advice:
    try:
        config = _read(root / file)
        set_in, nri, version = file, dict(_nri_of(config)), config.get("version", 1)
        for path in _imported(root, config):
            more = _nri_of(_read(path))
            if more:
                set_in = str(path.relative_to(root))
                nri |= more
    except (OSError, ValueError) as error:
        return Advice("unreadable", "containerd", f"/{file}", problem=str(error))
    # Version 3 of its configuration is containerd 2's own; that understands version 2, too.
    newer = isinstance(version, int) and version >= 3
    runtime = "containerd 2" if newer else "containerd 1.7"
    if nri.get("disable", not newer):
        return Advice("switch-on", runtime, f"/{set_in}", _SECTION, "disable = false")
    if nri.get("disable_connections", False):
        return Advice("switch-on", runtime, f"/{set_in}", _SECTION, "disable_connections = false")
    return _switched_on(runtime, f"/{set_in}", nri.get("socket_path"), socket)


def _of_crio(root: Path, socket: str) -> Advice:
    set_in = ""
    nri: dict[str, Any] = {}
    files = [root / _CRIO[0], *sorted((root / "etc/crio/crio.conf.d").glob("*.conf"))]
    for path in files:
        try:
            more = _read(path).get("crio", {}).get("nri", {})
        except FileNotFoundError:
            continue
        except (OSError, ValueError, AttributeError) as error:
            return Advice("unreadable", "CRI-O", f"/{path.relative_to(root)}", problem=str(error))
        if isinstance(more, dict) and more:
            set_in = f"/{path.relative_to(root)}"
            nri |= more
    if not nri.get("enable_nri", False):
        file = set_in or "/etc/crio/crio.conf.d/10-nri.conf"
        return Advice("switch-on", "CRI-O", file, _CRIO_SECTION, "enable_nri = true")
    return _switched_on("CRI-O", set_in, nri.get("nri_listen"), socket)


def _switched_on(runtime: str, file: str, listens: object, socket: str) -> Advice:
    """It should be there; where is it?"""
    path = listens if isinstance(listens, str) and listens else _USUAL_SOCKET
    # /var/run is /run on every node of today.
    if path.removeprefix("/var") != socket.removeprefix("/var"):
        return Advice("elsewhere", runtime, file, line=f"--nri-socket {path}")
    return Advice("restart", runtime, file)


def _imported(root: Path, config: Mapping[str, Any]) -> Iterator[Path]:
    patterns = config.get("imports", [])
    for pattern in patterns if isinstance(patterns, list) else []:
        if isinstance(pattern, str) and pattern.startswith("/"):
            yield from sorted(root.glob(pattern.lstrip("/")))


def _nri_of(config: Mapping[str, Any]) -> dict[str, Any]:
    plugins = config.get("plugins", {})
    nri = plugins.get("io.containerd.nri.v1.nri", {}) if isinstance(plugins, dict) else {}
    return nri if isinstance(nri, dict) else {}


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(str(path))
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"is larger than {_LARGEST >> 20} MiB")
    return tomllib.loads(path.read_text(encoding="utf-8", errors="replace"))
