"""Changes containers in the kernel's control groups, version 1 and 2, where the container runtime has no NRI.

The kernel tells nobody of containers, so they are looked for once a period, and what has become of them is told in the words
of a container runtime: made, changed by somebody else, gone. Whoever else writes CPUs of a container (the kubelet through
the runtime) is answered with what of them is on its NUMA node, but not for ever: after a few times he has the last word.
"""

from __future__ import annotations

import asyncio
import errno
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import RLock

import msgspec

from numaware.node.affinity.placements import UNSET
from numaware.node.affinity.pod_groups import PodGroup, controller_path
from numaware.node.nri.plugin import Changes, CpusAndMems, Resident, RunningContainer, Sandbox

_ID = re.compile(r"[0-9a-f]{64}")
_CPUS, _MEMS = "cpuset.cpus", "cpuset.mems"
_MOST_ANSWERS, _WITHIN_SECONDS = 5, 300.0


class _Group(msgspec.Struct, frozen=True):
    """The control group of a container, or one that a container has made below its own."""

    id: str
    sandbox: Sandbox
    folder: Path

    def container(self, has: CpusAndMems) -> RunningContainer:
        return RunningContainer(self.id, self.sandbox.id, self.id, has.cpus, has.mems, str(self.folder))


class ThroughCgroups:
    """A `Runtime` that is only files. `root` is where the node's / is."""

    def __init__(self, root: str, resident: Resident) -> None:
        self.ready = asyncio.Event()
        self._root = Path(root)
        self._resident = resident
        self._groups: dict[str, _Group] = {}
        self._seen: dict[str, CpusAndMems] = {}
        self._answered: dict[str, list[float]] = {}
        self._problem: str | None = None
        # What is seen and what is changed are one thing: a change in between would be taken for somebody else's.
        self._lock = RLock()

    @property
    def name(self) -> str:
        return "control groups"

    async def run(self) -> None:
        """There is nobody to stay connected to."""
        await asyncio.Event().wait()

    async def follow(self, pods: Iterable[PodGroup]) -> frozenset[str]:
        contested = await asyncio.to_thread(self._follow, list(pods))
        self.ready.set()
        return contested

    async def update(self, changes: Changes) -> tuple[str, ...]:
        failed = await asyncio.to_thread(self._change, changes, only_as_seen=True)
        if failed and len(failed) == len(changes):
            raise OSError(f"{self._groups[failed[0]].folder}: {self._problem}")
        return failed

    def _follow(self, pods: list[PodGroup]) -> frozenset[str]:
        """Tells what is new, changed and gone since the last time, and does what is answered."""
        with self._lock:
            return self._followed(pods)

    def _followed(self, pods: list[PodGroup]) -> frozenset[str]:
        groups = {group.id: group for pod in pods for group in _groups_of(self._root, pod)}
        has = {one: value for one, group in groups.items() if (value := _read(group.folder)) is not None}
        before, self._groups = self._groups, {one: groups[one] for one in has}
        if not self.ready.is_set():
            self._seen = has
            sandboxes = {group.sandbox.id: group.sandbox for group in self._groups.values()}
            containers = [groups[one].container(value) for one, value in has.items()]
            self._change(self._resident.synchronized(list(sandboxes.values()), containers))
            return frozenset()
        # Only what was told counts as seen: what cannot be written down now is told again.
        seen = self._seen
        self._seen = {one: seen[one] for one in has if one in seen}
        self._tell_who_is_gone(before)
        changes: Changes = {}
        contested = set()
        for one, value in has.items():
            group = groups[one]
            if one not in seen:
                answer = self._resident.created(group.sandbox, group.container(value))
            elif value != seen[one]:
                told = CpusAndMems(
                    value.cpus if value.cpus != seen[one].cpus else "",
                    value.mems if value.mems != seen[one].mems else "",
                )
                answer = self._resident.updated(group.sandbox, group.container(value), told)
                if answer is not None and not self._may_answer(one):
                    contested.add(group.sandbox.uid)
                    answer = None
            else:
                continue
            self._seen[one] = value
            if answer is not None:
                changes[one] = answer
        self._change(changes)
        return frozenset(contested)

    def _tell_who_is_gone(self, before: dict[str, _Group]) -> None:
        left = {group.sandbox.id for group in self._groups.values()}
        for one in before.keys() - self._groups.keys():
            self._answered.pop(one, None)
            self._resident.removed(before[one].sandbox.id, one)
        for sandbox in {group.sandbox.id for group in before.values()} - left:
            self._resident.removed(sandbox, "")

    def _may_answer(self, container: str) -> bool:
        now = time.monotonic()
        answered = [at for at in self._answered.get(container, ()) if now - at < _WITHIN_SECONDS]
        self._answered[container] = [*answered, now]
        return len(answered) < _MOST_ANSWERS

    def _change(self, changes: Changes, *, only_as_seen: bool = False) -> tuple[str, ...]:
        """Those that could not be changed. Who is gone meanwhile is no failure, nor who has something new since it was seen."""
        with self._lock:
            return self._changed(changes, only_as_seen=only_as_seen)

    def _changed(self, changes: Changes, *, only_as_seen: bool) -> tuple[str, ...]:
        if only_as_seen:
            changes = {
                one: change
                for one, change in changes.items()
                if one in self._groups and _read(self._groups[one].folder) == self._seen.get(one)
            }
        # In version 1 a group must have all that the groups below it have, so the order matters: as long as some writing
        # helps, what failed is tried again.
        left = {one: change for one, change in changes.items() if one in self._groups}
        failed = dict(left)
        while left:
            failed = {one: change for one, change in left.items() if not self._written(one, change)}
            if len(failed) == len(left):
                break
            left = failed
        for one in changes.keys() & self._groups.keys():
            value = _read(self._groups[one].folder)
            if value is not None:
                self._seen[one] = value
        return tuple(sorted(failed))

    def _written(self, container: str, change: CpusAndMems) -> bool:
        folder = self._groups[container].folder
        try:
            for name, value in ((_CPUS, change.cpus), (_MEMS, change.mems)):
                if value:
                    _write(folder, name, value)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._problem = error.strerror
            return False
        return True


def _groups_of(root: Path, pod: PodGroup) -> Iterator[_Group]:
    """Known by the container's id, as a container runtime would name it, so that either finds what the other has kept."""
    sandbox = Sandbox(pod.uid, pod.uid, pod.namespace, pod.name)
    if not pod.containers:
        return
    # The first is a container's, directly below the pod's.
    start = len(pod.containers[0].rpartition("/")[0]) + 1
    for path in pod.containers:
        first, slash, below = path[start:].partition("/")
        found = _ID.search(first)
        yield _Group(
            f"{found[0] if found else first}{slash}{below}",
            sandbox,
            root / controller_path(path, "cpuset"),
        )


def _write(folder: Path, name: str, value: str) -> None:
    try:
        (folder / name).write_text(value, encoding="ascii")
    except OSError as error:
        if value != UNSET or error.errno != errno.ENOSPC:
            raise
        # Version 2 lets no group in which something runs have none again; what none means is all that the group above has.
        every = (folder.parent / f"{name}.effective").read_text(encoding="ascii")
        (folder / name).write_text(every, encoding="ascii")


def _read(folder: Path) -> CpusAndMems | None:
    """None where there is no such group, or none with CPUs."""
    try:
        cpus = (folder / _CPUS).read_text(encoding="ascii").strip()
        mems = (folder / _MEMS).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return CpusAndMems(cpus or UNSET, mems or UNSET)
