"""Files copied aside and put back as they were, to the byte; a crash at any moment leaves the old ones or the new ones, whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from numaware.node.atomic_files import draft_of, remove_file, replace_file, sync_folder

_MANIFEST = "manifest.json"


class _Copy(msgspec.Struct, frozen=True):
    """One file as it was: where its copy is (empty: there was none), and whose it was."""

    path: str
    copy: str = ""
    uid: int = 0
    gid: int = 0


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
    draft = draft_of(final)
    try:
        shutil.copy2(kept, draft)
        os.chown(draft, copy.uid, copy.gid)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(final)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(final.parent)


def _copies(folder: Path) -> dict[str, _Copy]:
    listed = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=list[_Copy])
    return {copy.path: copy for copy in listed}
