"""Which containers were moved where, and what they had before: answers the container runtime from memory.

What a container had before is on disk before it is changed, so that it gets it back whatever happens to the agent: when it
stops, and when one that was killed comes again. When the kubelet gives a container other CPUs, those become what it has
without us, and it gets of them what lies on its NUMA node. Called by `mover.py` and by what tells of containers
(`nri/plugin.py`, `through_cgroups.py`), each in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
import structlog

from numaware.affinity.chosen import word_of
from numaware.machine.cpuset import CpuSet
from numaware.node.atomic_files import replace_file
from numaware.node.nri.plugin import Changes, CpusAndMems, RunningContainer, Sandbox

log = structlog.get_logger("numaware.agent")

P = ParamSpec("P")
T = TypeVar("T")
# As a list of CPUs or memory nodes: none were set, and none shall be. The empty one is for what is left as it is.
UNSET = "\n"


class Target(msgspec.Struct, frozen=True):
    """On which NUMA node a pod shall be. Memory: from `mems` only, and new containers have it from `preferred` at first."""

    cpus: CpuSet
    node: int
    mems: str = ""
    preferred: str = ""


class _Kept(msgspec.Struct):
    """What is on disk: container -> what it had before."""

    before: dict[str, CpusAndMems] = {}


def _alone(method: Callable[Concatenate[Placements, P], T]) -> Callable[Concatenate[Placements, P], T]:
    """One caller at a time."""

    @wraps(method)
    def locked(self: Placements, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


class Placements:
    """The `Resident` of the NRI plug-in. `everything` is what a container may use that nobody has confined."""

    def __init__(self, file: Path, everything: CpusAndMems) -> None:
        self._lock = RLock()
        self._file = file
        self._everything = everything
        self._targets: dict[str, Target] = {}
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, RunningContainer] = {}
        self._before = _read(file)

    @property
    def targets(self) -> dict[str, Target]:
        """Pod uid -> where it was put."""
        return dict(self._targets)

    @_alone
    def known(self) -> dict[str, tuple[RunningContainer, ...]]:
        """Pod uid -> containers that run."""
        pods: dict[str, list[RunningContainer]] = {}
        for container in self._containers.values():
            sandbox = self._sandboxes.get(container.sandbox)
            if sandbox is not None:
                pods.setdefault(sandbox.uid, []).append(container)
        return {uid: tuple(sorted(containers, key=lambda one: one.id)) for uid, containers in pods.items()}

    @_alone
    def placed(self) -> dict[str, tuple[tuple[RunningContainer, CpusAndMems], ...]]:
        """Pod uid -> its containers and what they have, where it was put."""
        found = {}
        for uid, containers in self.known().items():
            target = self._targets.get(uid)
            if target is None:
                continue
            held = []
            for one in containers:
                had = self._before.get(one.id, CpusAndMems(one.cpus, one.mems))
                has = self._confined(one.id, had, target).get(one.id, had)
                mems = has.mems or had.mems.strip() or self._everything.mems
                held.append((one, CpusAndMems(has.cpus.strip() or self._everything.cpus, mems)))
            found[uid] = tuple(held)
        return found

    @_alone
    def words(self) -> dict[str, str]:
        """Pod uid -> what it said of itself, as far as the runtime tells."""
        said = {one.uid: word_of(one.labels, one.annotations) for one in self._sandboxes.values()}
        return {uid: word for uid, word in said.items() if word}

    @_alone
    def kept(self) -> set[str]:
        """Pods of which it is written down what they had, wherever they are: they may not have it back yet."""
        return {uid for uid, held in self.known().items() if any(one.id in self._before for one in held)}

    @_alone
    def place(self, targets: dict[str, Target]) -> Changes:
        """What to change so that these pods are where they shall be; what they had is kept first."""
        self._targets |= targets
        changes: Changes = {}
        for uid, containers in self.known().items():
            target = targets.get(uid)
            if target is None:
                continue
            for container in containers:
                changes |= self._confined(container.id, self._kept(container, target), target)
        self._write()
        return changes

    @_alone
    def leave(self, uids: Iterable[str]) -> None:
        """These pods are not where they should have been put."""
        for uid in uids:
            self._targets.pop(uid, None)

    @_alone
    def restore(self, uids: Container[str] | None = None) -> Changes:
        """What to change so that these pods, or all, have what they had; `forget` the containers when it is done."""
        known = {uid: held for uid, held in self.known().items() if uids is None or uid in uids}
        self.leave(known)
        return {
            one.id: self._before[one.id]
            for containers in known.values()
            for one in containers
            if one.id in self._before
        }

    @_alone
    def forget(self, containers: Iterable[str]) -> None:
        """They have what they had, and that is what they have now."""
        for one in containers:
            had = self._before.pop(one, None)
            if had is not None and one in self._containers:
                self._containers[one] = msgspec.structs.replace(self._containers[one], cpus=had.cpus)
        self._write()

    # What the runtime calls.

    @_alone
    def synchronized(self, sandboxes: list[Sandbox], containers: list[RunningContainer]) -> Changes:
        self._sandboxes = {sandbox.id: sandbox for sandbox in sandboxes}
        self._containers = {container.id: container for container in containers}
        # Kept from before, by us or by an agent that was killed: back to what it was, unless it is to be where it is.
        self._before = {one: had for one, had in self._before.items() if one in self._containers}
        left = {
            one: had for one, had in self._before.items() if self._target_of(self._containers[one]) is None
        }
        # What they had stays written down, as nobody tells whether they have it now; the kubelet's updates keep it true.
        again = self.place(self.targets)
        if left:
            log.info("containers get back what they had", containers=len(left))
        return {**left, **again}

    @_alone
    def created(self, sandbox: Sandbox, container: RunningContainer) -> CpusAndMems | None:
        self._sandboxes[sandbox.id] = sandbox
        self._containers[container.id] = container
        target = self._targets.get(sandbox.uid)
        if target is None:
            return None
        had = self._kept(container, target)
        self._write()
        confined = self._confined(container.id, had, target).get(container.id)
        return confined and msgspec.structs.replace(confined, preferred=target.preferred)

    @_alone
    def updated(
        self, sandbox: Sandbox, container: RunningContainer, wanted: CpusAndMems
    ) -> CpusAndMems | None:
        target = self._targets.get(sandbox.uid)
        if not wanted.cpus and not wanted.mems:
            return None
        cpus, mems = wanted.cpus or container.cpus, wanted.mems or container.mems
        self._containers[container.id] = msgspec.structs.replace(container, cpus=cpus, mems=mems)
        kept = self._before.get(container.id)
        if kept is None:
            return None
        # Memory nodes are only given back where they were changed.
        had = CpusAndMems(wanted.cpus or kept.cpus, wanted.mems if kept.mems and wanted.mems else kept.mems)
        self._before[container.id] = had
        self._write()
        return self._confined(container.id, had, target).get(container.id) if target is not None else None

    @_alone
    def removed(self, sandbox: str, container: str) -> None:
        if container:
            self._containers.pop(container, None)
            if self._before.pop(container, None) is not None:
                self._write()
            return
        gone = self._sandboxes.pop(sandbox, None)
        # A sandbox that was made anew comes before the one that has ended is gone.
        if gone is not None and all(other.uid != gone.uid for other in self._sandboxes.values()):
            self._targets.pop(gone.uid, None)

    def _target_of(self, container: RunningContainer) -> Target | None:
        sandbox = self._sandboxes.get(container.sandbox)
        return self._targets.get(sandbox.uid) if sandbox is not None else None

    def _kept(self, container: RunningContainer, target: Target) -> CpusAndMems:
        """What it had before it was first changed; of memory nodes nothing as long as those are left alone."""
        kept = self._before.get(container.id, CpusAndMems(container.cpus or self._everything.cpus))
        if target.mems and not kept.mems:
            kept = CpusAndMems(kept.cpus, container.mems or self._everything.mems)
        self._before[container.id] = kept
        return kept

    def _confined(self, container: str, had: CpusAndMems, target: Target) -> Changes:
        """What of its own it has there; where that is nothing, whoever gave it its CPUs has the last word."""
        cpus = CpuSet.parse(had.cpus.strip() or self._everything.cpus) & target.cpus
        mems = CpuSet.parse(had.mems.strip() or self._everything.mems) & CpuSet.parse(target.mems)
        return {container: CpusAndMems(str(cpus), str(mems))} if cpus else {}

    def _write(self) -> None:
        """On disk before anything is changed; a disk that is full keeps nobody's container from starting."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._file, msgspec.json.encode(_Kept(dict(sorted(self._before.items())))))


def _read(file: Path) -> dict[str, CpusAndMems]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Kept).before
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("what containers had before cannot be read", file=str(file), error=str(error))
        return {}
