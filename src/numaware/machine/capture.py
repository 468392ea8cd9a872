"""Save what the reader needs of a machine's `/sys` and `/proc`, and nothing else, for somebody else to look at.

The reader itself is the list of what to save: it runs over a tree that remembers every file, folder and link it
was asked for, so a capture can never lack what a reader wants, however readers change. What the reader looked at
may still say more than it needs: files of known form are cut down to the lines that matter, and whatever looks
like an identity (UUID, MAC address, container id) is replaced everywhere, names and links included, by a stand-in
of the same form, so that everything still fits together.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import re
from collections.abc import Callable
from typing import IO

from numaware.machine import sysfs
from numaware.machine.archive import Entry, Folder, Link
from numaware.machine.tree import Kind, Tree

# Of these files only the lines that match (or do not) are kept: the rest is of no use, and changes by the second.
_LINES = (
    (
        re.compile(r"proc/meminfo|sys/devices/system/node/node\d+/meminfo"),
        re.compile(rb"(Node\s+\d+ )?(MemTotal:|Huge)"),
    ),
    (re.compile(r"proc/mounts"), re.compile(rb"\S+ \S+ (cgroup2?|cpuset) ")),
    (re.compile(r"proc/cpuinfo"), re.compile(rb"(?i)(?!serial\b|bogomips\b|cpu mhz\b)")),
)
# Links and folders say what they are by their names; these say who the machine is and are never content.
_NEVER = re.compile(
    r"(?:^|/)(?:[a-z]+_serial|product_uuid|serial|uuid|wwid|nguid|eui|address|permaddr|phys_port_id|node_guid|"
    r"sys_image_guid|hostname|unique_id|vpd)$"
)
_IDENTITIES = re.compile(
    r"(?P<uuid>[0-9a-fA-F]{8}(?P<dash>[-_])(?:[0-9a-fA-F]{4}(?P=dash)){3}[0-9a-fA-F]{12}(?![0-9a-fA-F]))"
    r"|(?P<id>(?<![0-9a-zA-Z,])[0-9a-f]{64}(?![0-9a-zA-Z,]))"
    r"|(?P<mac>\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b)"
    r"|(?P<s390>\bidentification = (?P<cpu>[0-9A-F]{6}))"
    r"|(?P<name>\b(?:enx|wlx|wwx|ibx|rocex|iwx)(?P<digits>[0-9a-f]{12,16})\b)"
)

Progress = Callable[[int], object]


class RecordingTree(Tree):
    """A tree that passes every question on and remembers what there was to be seen."""

    def __init__(self, tree: Tree, progress: Progress = lambda _: None) -> None:
        super().__init__(tree.source)
        self._tree = tree
        self._progress = progress
        self._listed: dict[str, list[str]] = {}
        self._entries: dict[str, Entry] = {}
        self.unreadable: list[str] = []

    def recorded(self) -> dict[str, Entry]:
        """Everything seen. Names that were only listed are there too, empty: a reader may count or match them."""
        for folder, names in sorted(self._listed.items()):
            for name in names:
                self.kind_at(f"{folder}/{name}" if folder else name)
        return self._entries

    def kind_at(self, path: str) -> Kind | None:
        """Remember that something is there, whatever else is asked about it."""
        kind = self._tree.kind_at(path)
        if kind == "folder":
            self._entries.setdefault(path, Folder())
        elif kind == "file":
            self._entries.setdefault(path, b"")
        elif kind == "link" and (target := self._tree.target_at(path)) is not None:
            self._entries.setdefault(path, Link(target))
        return kind

    def target_at(self, path: str) -> str | None:
        self.kind_at(path)
        return self._tree.target_at(path)

    def content_at(self, path: str) -> bytes:
        try:
            content = self._tree.content_at(path)
        except OSError:
            self.unreadable.append(path)
            raise
        self._entries[path] = content
        self._progress(len(self._entries))
        return content

    def listed_at(self, path: str) -> list[str]:
        try:
            self._listed[path] = self._tree.listed_at(path)
        except OSError:
            self.unreadable.append(path)
            raise
        return self._listed[path]


class Capture:
    """What was saved of a machine."""

    def __init__(
        self, tree: Tree, *, with_identity: bool = False, progress: Progress = lambda _: None
    ) -> None:
        recording = RecordingTree(tree, progress)
        self.machine = sysfs.read(recording)
        self.unreadable = tuple(recording.unreadable)
        # A file that could not be read here must not look like an empty one there.
        entries = {path: entry for path, entry in recording.recorded().items() if path not in self.unreadable}
        self.entries = _with_own_process(entries if with_identity else without_identity(entries))


def without_identity(entries: dict[str, Entry]) -> dict[str, Entry]:
    """The same entries without what tells one machine from its twin."""
    stand_ins: dict[str, int] = {}
    cleaned: dict[str, Entry] = {}
    for path in sorted(entries):
        entry = entries[path]
        new_path = _replaced(path, stand_ins)
        if isinstance(entry, bytes):
            cleaned[new_path] = b"" if _NEVER.search(path) else _cut_down(path, entry, stand_ins)
        elif isinstance(entry, Link):
            cleaned[new_path] = Link(_replaced(entry.target, stand_ins))
        else:
            cleaned[new_path] = entry
    return cleaned


def _with_own_process(entries: dict[str, Entry]) -> dict[str, Entry]:
    """`/proc/self` as a folder: the number of the capturing process is another one every time."""
    link = entries.get("proc/self")
    if not isinstance(link, Link):
        return entries
    own = re.compile(rf"\Aproc/{re.escape(link.target)}(?=/|\Z)")
    return {own.sub("proc/self", path): entry for path, entry in entries.items()} | {"proc/self": Folder()}


def _cut_down(path: str, content: bytes, stand_ins: dict[str, int]) -> bytes:
    for files, lines in _LINES:
        if files.fullmatch(path):
            content = b"".join(line for line in content.splitlines(keepends=True) if lines.match(line))
    text = content.decode("utf-8", "surrogateescape")
    return _replaced(text, stand_ins).encode("utf-8", "surrogateescape")


def _replaced(text: str, stand_ins: dict[str, int]) -> str:
    """The text with each identity replaced by a number of the same form, the same one every time."""

    def stand_in(match: re.Match[str]) -> str:
        identity = match[0]
        digits = match["digits"] or match["cpu"] or identity
        if not digits.strip("0-:_"):
            return identity
        number = stand_ins.setdefault(digits.lower(), len(stand_ins) + 1)
        left = list(f"{number:0{len(digits)}}")
        changed = "".join(letter if letter in "-_:" else left.pop() for letter in reversed(digits))
        return identity.removesuffix(digits) + changed[::-1]

    return _IDENTITIES.sub(stand_in, text)


def write(entries: dict[str, Entry], stream: IO[bytes]) -> None:
    """The entries as a compressed tar archive, equal entries as equal bytes."""
    import tarfile  # noqa: PLC0415 - only those who capture pay for it

    with (
        gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(filter(None, entries)):
            entry = entries[path]
            member = tarfile.TarInfo(path)
            if isinstance(entry, bytes):
                member.size, member.mode = len(entry), 0o644
            elif isinstance(entry, Link):
                member.type, member.mode = tarfile.SYMTYPE, 0o777
                member.linkname = _relative(entry.target, path)
            else:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member, io.BytesIO(entry) if isinstance(entry, bytes) else None)


def _relative(target: str, path: str) -> str:
    """A link as it must be written to stay inside an unpacked capture."""
    if not target.startswith("/"):
        return target
    return posixpath.relpath(target, "/" + posixpath.dirname(path))
