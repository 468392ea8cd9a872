"""Files replaced so that a crash at any moment leaves the old bytes or the new ones, whole.

Everything is on the disk before it is said to be there: contents first, then the names in the folder.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """The file anew, under the same owner and mode; the old one stays whole until the new one is. `mode` if it is new."""
    # A link stays a link.
    final = Path(os.path.realpath(path))
    draft = draft_of(final)
    try:
        with draft.open("wb") as stream:
            if final.exists():
                shutil.copystat(final, draft)
                owner = final.stat()
                os.chown(draft, owner.st_uid, owner.st_gid)
            else:
                draft.chmod(mode)
            stream.write(data)
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


def sync_folder(folder: Path) -> None:
    """The names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def draft_of(final: Path) -> Path:
    """Where what replaces a file is written first; always of the same name, so that what a crash has left is written over."""
    return final.with_name(f".{final.name}.numaware")
