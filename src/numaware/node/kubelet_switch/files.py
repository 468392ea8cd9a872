"""Files replaced, copied aside and put back so that a crash at any moment leaves the old bytes or the new ones, whole.

Everything is on the disk before it is said to be there: contents first, then the names in the folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

_MANIFEST = "manifest.json"


class _Copy(msgspec.Struct, frozen=True):
    """One file as it was: where its copy is (empty: there was none), and whose it was."""

    path: str
    copy: str = ""
    uid: int = 0
    gid: int = 0


def replace_file(path: Path, data: bytes) -> None:
    """The file anew, under the same owner and mode; the old one stays whole until the new one is."""
    # A link stays a link.
    final = Path(os.path.realpath(path))
    draft = _draft(final)
    try:
        with draft.open("wb") as stream:
            stream.write(data)
            if final.exists():
                shutil.copystat(final, draft)
                owner = final.stat()
                os.chown(draft, owner.st_uid, owner.st_gid)
            else:
                draft.chmod(0o644)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(final.parent)


def remove_file(path: Path) -> None:
    """The file gone, there before or not."""
    path.unlink(missing_ok=True)
    if path.parent.exists():
        sync_folder(path.parent)


def put_aside(paths: Iterable[Path], folder: Path) -> None:
    """Copies of the files in a folder; a list of them, written last, says that they are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    copies = []
    for number, path in enumerate(paths):
        if not path.exists():
            copies.append(_Copy(str(path)))
            continue
        copy = folder / f"{number}-{path.name}"
        shutil.copy2(path, copy)
        with copy.open("rb") as stream:
            os.fsync(stream.fileno())
        owner = path.stat()
        copies.append(_Copy(str(path), copy.name, owner.st_uid, owner.st_gid))
    replace_file(folder / _MANIFEST, msgspec.json.encode(copies))


def is_aside(folder: Path) -> bool:
    """Whether the copies are complete."""
    return (folder / _MANIFEST).exists()


def bytes_aside(path: Path, folder: Path) -> bytes | None:
    """What a file held when it was put aside; None where there was none."""
    copy = _copies(folder)[str(path)]
    return (folder / copy.copy).read_bytes() if copy.copy else None


def put_back(path: Path, folder: Path) -> None:
    """The file as it was, to the byte, with its owner, mode and times; gone if there was none."""
    copy = _copies(folder)[str(path)]
    if not copy.copy:
        remove_file(path)
        return
    kept, final = folder / copy.copy, Path(os.path.realpath(path))
    if final.exists() and final.read_bytes() == kept.read_bytes():
        # Nothing to write, and so nothing that a full disk could prevent.
        return
    draft = _draft(final)
    try:
        shutil.copy2(kept, draft)
        os.chown(draft, copy.uid, copy.gid)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(final.parent)


def sync_folder(folder: Path) -> None:
    """The names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copies(folder: Path) -> dict[str, _Copy]:
    listed = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=list[_Copy])
    return {copy.path: copy for copy in listed}


def _draft(final: Path) -> Path:
    # Always of the same name: what a crash has left is written over.
    return final.with_name(f".{final.name}.numaware")
