"""Becomes the process of one container: `node_container.py JSON`, told by `NodeRuntime` what the pod wants.

A program without imports of ours: it starts for each container, and nothing of it is left in it.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# As scripts/image.py says, but for where the modules lie.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONPATH": "/image/src:/image/site",
}
_ACCOUNTS = "root:x:0:0:root:/:/nologin\nnumaware:x:65532:65532::/:/nologin\n"
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_NEW_MOUNTS, _NEW_NAME, _NEW_NETWORK = 0x0002_0000, 0x0400_0000, 0x4000_0000
_NO_NEW_PRIVILEGES, _DROP = 38, 24
_CAPABILITIES = 64


def main() -> None:
    """Mount, go in, give up what the pod has not, and become the command."""
    told = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if told["network"]:
        with Path(told["network"]).open("rb") as network:
            _checked(libc.setns(network.fileno(), _NEW_NETWORK))
    _checked(libc.unshare(_NEW_MOUNTS | _NEW_NAME))
    if told["name"]:
        socket.sethostname(told["name"])
    _mount("--make-rprivate", "/")
    root = Path(told["root"])
    _build(root)
    # As runtimes do: what lies in another mount comes after it, and nothing is made in one that is read only.
    for source, place, read_only in sorted(told["mounts"], key=lambda one: one[1].count("/")):
        _bind(Path(source), root / place.lstrip("/"), read_only=read_only)
    if told["read_only"]:
        _mount("-o", "remount,ro", root)
    os.chroot(root)
    os.chdir("/")
    if not told["privileged"]:
        for capability in range(_CAPABILITIES):
            libc.prctl(_DROP, capability)
        _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    os.setgroups([])
    os.setgid(told["group"] or told["user"])
    os.setuid(told["user"])
    command, environment = told["command"], {**told["environment"], **_ENVIRONMENT}
    os.execvpe(command[0], command, environment)  # noqa: S606 - what the pod wants


def _build(root: Path) -> None:
    """What the image has: an interpreter with its libraries, the wheels, numaware; no shell and no tools."""
    root.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755", "none", root)
    for folder in filter(os.path.exists, (*_LIBRARIES, sys.base_prefix)):
        if Path(folder).is_symlink():
            (root / folder.lstrip("/")).symlink_to(Path(folder).readlink())
        else:
            _bind(Path(folder), root / folder.lstrip("/"), read_only=True)
    for source, name in ((ROOT / "src", "src"), (Path(sysconfig.get_path("purelib")), "site")):
        _bind(source, root / "image" / name, read_only=True)
    for device in _DEVICES:
        _bind(Path(device), root / device.lstrip("/"))
    _bind(Path("/proc"), root / "proc")
    (root / "tmp").mkdir(mode=0o777)
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(_ACCOUNTS, encoding="ascii")
    script = Path(sys.executable).with_name("numaware").read_text(encoding="utf-8")
    program = root / "usr/local/bin/numaware"
    program.parent.mkdir(parents=True)
    interpreter = Path(sys.executable).resolve()
    program.write_text(f"#!{interpreter}\n{script.partition(chr(10))[2]}", encoding="utf-8")
    program.chmod(0o755)


def _bind(source: Path, place: Path, *, read_only: bool = False) -> None:
    if not place.exists():
        (place if source.is_dir() else place.parent).mkdir(parents=True, exist_ok=True)
        if not source.is_dir():
            place.touch()
    _mount("--rbind", source, place)
    if read_only:
        _mount("-o", "remount,bind,ro", place)


def _mount(*words: Any) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def _checked(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
