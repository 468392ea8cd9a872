"""A root file system to read from: the live `/`, a folder, or a tar archive of a captured `/sys` and `/proc`.

Readers ask a `Tree` for paths such as `sys/devices/system/cpu/online` and never touch the file system
themselves, so one reader serves a live machine and a capture alike. A capture is untrusted: its links are
followed here, one step at a time, and an absolute or climbing link leads to a place inside the capture,
never outside it (as it would under chroot); only regular files are read, and opened so that a pipe or a
device in their place cannot hang anything.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

from numaware.errors import InputError
from numaware.machine.archive import MAX_FILE_BYTES, Entry, Link, TooLarge, read_archive
from numaware.machine.archive import Folder as FolderEntry

Kind = Literal["file", "folder", "link", "other"]

# As many as the kernel follows before it calls a chain of links a loop.
_MAX_LINKS = 40
# Archives hold the root one folder down, or two (NAME/fsroot/sys).
_ROOT_DEPTH = 3
_MAX_SEARCHED = 1000
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Tree(ABC):
    """Paths are relative to the root, with `/` between the parts and none at the start."""

    def __init__(self, source: str) -> None:
        self.source = source
        # Folders whose path is known to be free of links, so that each is looked at once.
        self._folders: dict[str, str | None] = {"": ""}

    @abstractmethod
    def kind_at(self, path: str) -> Kind | None:
        """What is at this link-free path itself; None if nothing is."""

    @abstractmethod
    def target_at(self, path: str) -> str | None:
        """Where the link at this path points to, as written; None if it is no link."""

    @abstractmethod
    def content_at(self, path: str) -> bytes:
        """The content of the regular file at this link-free path."""

    @abstractmethod
    def listed_at(self, path: str) -> list[str]:
        """The names in the folder at this link-free path."""

    def read(self, path: str) -> bytes | None:
        """The whole content of a regular file; None if there is none. A file that cannot be read is an OSError."""
        real = self._without_folder_links(path)
        if real is not None and self.kind_at(real) == "link":
            real = self.resolve(real)
        return self.content_at(real) if real is not None and self.kind_at(real) == "file" else None

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if it is missing. A folder that cannot be read is an OSError."""
        real = self._folder(path)
        return sorted(self.listed_at(real)) if real is not None else []

    def resolve(self, path: str) -> str | None:
        """The path with every link followed; None where it leads nowhere."""
        parent, _, name = path.rpartition("/")
        start = self._folders.get(parent)
        done = start.split("/") if start else []
        pending = [name] if start else path.split("/")[::-1]
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            here = "/".join((*done, part))
            kind = "folder" if self._folders.get(here) == here else self.kind_at(here)
            if kind is None:
                return None
            if kind == "folder":
                self._folders[here] = here
            if kind != "link":
                done.append(part)
                continue
            links += 1
            target = self.target_at(here)
            if links > _MAX_LINKS or target is None:
                return None
            if target.startswith("/"):
                done = []
            pending.extend(target.split("/")[::-1])
        return "/".join(done)

    def readlink(self, path: str) -> str | None:
        """Where a link points to, as written, even if nothing is there; None if it is no link."""
        straight = self._without_folder_links(path)
        return self.target_at(straight) if straight is not None else None

    def exists(self, path: str) -> bool:
        return self.resolve(path) is not None

    def is_folder(self, path: str) -> bool:
        return self._folder(path) is not None

    def _folder(self, path: str) -> str | None:
        """The link-free path of a folder, remembered; None if it is no folder."""
        if path not in self._folders:
            real = self.resolve(path)
            self._folders[path] = real if real is not None and self.kind_at(real) == "folder" else None
        return self._folders[path]

    def _without_folder_links(self, path: str) -> str | None:
        """The path below the link-free path of its folder, whatever is there; None if it has no folder."""
        parent, _, name = path.rpartition("/")
        above = self._folder(parent)
        return None if above is None else _join(above, name)


class FolderTree(Tree):
    """A folder on disk, `/` among them."""

    def __init__(self, root: str, source: str) -> None:
        super().__init__(source)
        self._prefix = root.rstrip("/") + "/"

    def read(self, path: str) -> bytes | None:
        # As the general way, with one look at the disk: reading small files is most of a discovery's time.
        straight = self._without_folder_links(path)
        if straight is None:
            return None
        try:
            return _read_file(self._prefix + straight)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return super().read(path)
            raise

    def kind_at(self, path: str) -> Kind | None:
        try:
            mode = os.lstat(self._prefix + path).st_mode
        except (OSError, ValueError):
            return None
        if stat.S_ISREG(mode):
            return "file"
        if stat.S_ISDIR(mode):
            return "folder"
        return "link" if stat.S_ISLNK(mode) else "other"

    def target_at(self, path: str) -> str | None:
        try:
            return os.readlink(self._prefix + path)  # noqa: PTH115 - a Path for each costs more than the call
        except (OSError, ValueError):
            return None

    def content_at(self, path: str) -> bytes:
        return _read_file(self._prefix + path) or b""

    def listed_at(self, path: str) -> list[str]:
        names = []
        with os.scandir(self._prefix + path) as entries:
            for entry in entries:
                name = entry.name
                names.append(name)
                # The listing tells folders from links for free, so none of them need be looked at again.
                if entry.is_dir(follow_symlinks=False):
                    here = _join(path, name)
                    self._folders[here] = here
        return names


class ArchiveTree(Tree):
    """An archive in memory."""

    def __init__(self, entries: dict[str, Entry], source: str) -> None:
        super().__init__(source)
        self._entries = entries
        self._children: dict[str, list[str]] = {"": []}
        for path in entries:
            self._adopt(path)

    def rooted_at(self, folder: str) -> ArchiveTree:
        """The part of the archive below a folder."""
        start = len(folder) + 1
        below = {
            path[start:]: entry for path, entry in self._entries.items() if path.startswith(folder + "/")
        }
        return ArchiveTree(below, self.source)

    def _adopt(self, path: str) -> None:
        """Make known a path and the folders above it, which an archive need not name."""
        if isinstance(self._entries.get(path), FolderEntry):
            self._children.setdefault(path, [])
        while path:
            parent, _, name = path.rpartition("/")
            siblings = self._children.get(parent)
            if siblings is not None:
                siblings.append(name)
                return
            self._children[parent] = [name]
            path = parent

    def kind_at(self, path: str) -> Kind | None:
        entry = self._entries.get(path)
        if path in self._children:
            return "folder"
        if entry is None:
            return None
        return "link" if isinstance(entry, Link) else "file"

    def target_at(self, path: str) -> str | None:
        entry = self._entries.get(path)
        return entry.target if isinstance(entry, Link) else None

    def content_at(self, path: str) -> bytes:
        entry = self._entries[path]
        if isinstance(entry, TooLarge):
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return entry if isinstance(entry, bytes) else b""

    def listed_at(self, path: str) -> list[str]:
        return self._children[path]


def open_tree(path: str | Path) -> Tree:
    """The machine at `path`: a folder or an archive with `sys/` and `proc/` at its top or a few folders down.

    An archive of several machines is opened at one of them with `ARCHIVE/FOLDER`.
    """
    source = str(path)
    try:
        return _open(source)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(source, getattr(error, "strerror", None) or "not the name of a file") from None


def _open(source: str) -> Tree:
    place, inside = _split(Path(source))
    if place.is_dir():
        tree: Tree = FolderTree(str(place), source)
        root = _find_root(tree)
        return FolderTree(f"{place}/{root}", source) if root else tree
    if not place.is_file():
        raise InputError(
            source, "neither a folder nor a file" if place.exists() else "no such file or folder"
        )
    archive = ArchiveTree(read_archive(place), source)
    root = _find_root(archive, inside)
    return archive.rooted_at(root) if root else archive


def _split(path: Path) -> tuple[Path, str]:
    """The path, or the archive it leads into and the folder there."""
    if not path.exists():
        archive = next((place for place in path.parents if place.is_file()), None)
        if archive is not None:
            return archive, str(path.relative_to(archive))
    return path, ""


def _find_root(tree: Tree, start: str = "") -> str:
    """The folder that holds `sys` or `proc`: the nearest to the top, which must be the only one there."""
    level = [start]
    for _ in range(_ROOT_DEPTH):
        roots = [folder for folder in level if _is_root(tree, folder)]
        if len(roots) == 1:
            return roots[0]
        if roots:
            shown = ", ".join(roots[:3])
            hint = f"give one of them, as in {tree.source}/{roots[0]}"
            raise InputError(tree.source, f"holds {len(roots)} machines: {shown}", hint=hint)
        below = (_join(folder, name) for folder in level for name in tree.names(folder))
        level = [folder for folder in below if tree.is_folder(folder)][:_MAX_SEARCHED]
    raise InputError(
        tree.source, "holds no captured machine", hint="expected sys/devices/system/cpu or proc/cpuinfo in it"
    )


def _is_root(tree: Tree, folder: str) -> bool:
    return any(tree.exists(_join(folder, sign)) for sign in ("sys/devices/system/cpu", "proc/cpuinfo"))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _read_file(full: str) -> bytes | None:
    """The content of a regular file; None if it is anything else, which is neither waited for nor read."""
    descriptor = os.open(full, _OPEN)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        data = os.read(descriptor, 4096)
        # A file on disk is complete when it has its size; one of procfs or sysfs only when nothing more comes.
        if len(data) == status.st_size:
            return data
        chunks = [data]
        total = len(data)
        while data:
            data = os.read(descriptor, 1 << 16)
            chunks.append(data)
            total += len(data)
            if total > MAX_FILE_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return b"".join(chunks)
    finally:
        os.close(descriptor)
