"""Carries out a plan: moves pods, remembers what was moved and when, and gives back what they had.

It knows nothing of talk; `worker.py` hands it plans. What containers had before is kept by `placements.py`, and how they are
changed is up to a `Runtime`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Literal

import msgspec
import structlog

from numaware.affinity.plan import Answer, Member, Plan, Zone, crossing
from numaware.affinity.report import Move
from numaware.affinity.traffic import Pair
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity.entry import Placed
from numaware.node.affinity.migration import Migrated, migrate
from numaware.node.affinity.placements import Placements, Target
from numaware.node.affinity.pod_groups import PodGroup
from numaware.node.affinity.runtime import FAILURES, Runtime
from numaware.node.nri.plugin import Changes
from numaware.node.troubles import Troubles

# What is said of a moved pod's memory: nothing, or that new containers take it there as long as there is room, or that it
# has to lie there.
MemoryRule = Literal["leave", "prefer", "only"]
log = structlog.get_logger("numaware.agent")

_MOST_MOVES_KEPT = 200
# A runtime that has just been started anew gets so long until it has told what runs.
_PATIENCE = 10.0


class Scene(msgspec.Struct, frozen=True):
    """One moment of the node, as a plan sees it."""

    zones: tuple[Zone, ...]
    members: tuple[Member, ...]
    talk: Mapping[Pair, int]

    def with_moves(self, targets: Mapping[str, int]) -> Scene:
        members = tuple(
            msgspec.structs.replace(member, zones=(targets[member.uid],)) if member.uid in targets else member
            for member in self.members
        )
        return msgspec.structs.replace(self, members=members)

    def crossing(self) -> dict[str, int]:
        """Pod uid -> bytes a second that it exchanges with other NUMA nodes."""
        return crossing(self.zones, self.members, self.talk)

    def said(self) -> dict[str, int]:
        """Pod uid -> bytes a second that it exchanges with anybody on the node."""
        total: Counter[str] = Counter()
        for pair, rate in self.talk.items():
            total.update(dict.fromkeys(pair, rate))
        return total


class Mover:
    """Moves pods of one node while `run` runs. `cool_down` is in seconds, `migrate` in bytes a second, 0 for not at all.

    `root` is where the node's / is.
    """

    def __init__(
        self,
        runtime: Runtime,
        placements: Placements,
        troubles: Troubles,
        *,
        cool_down: int,
        memory: MemoryRule,
        migrate: int,
        root: Path,
    ) -> None:
        self.moves: tuple[Move, ...] = ()
        self.migrated: dict[str, Migrated] = {}
        self.counts = dict.fromkeys(("moved", "failed"), 0)
        self._runtime = runtime
        self._placements = placements
        self._troubles = troubles
        self._cool_down = cool_down
        self._memory = memory
        self._moved_at: dict[str, float] = {}
        self._migrate = migrate
        self._root = root
        self._following: asyncio.Queue[str] = asyncio.Queue()
        self._processes: dict[str, tuple[int, ...]] = {}

    @property
    def runtime(self) -> str:
        """Its name, empty while none is there."""
        return self._runtime.name

    @property
    def targets(self) -> dict[str, Target]:
        """Pod uid -> where it was put."""
        return self._placements.targets

    @property
    def placed(self) -> Placed:
        """Pod uid -> its containers and what they have there."""
        return self._placements.placed()

    @property
    def words(self) -> dict[str, str]:
        """Pod uid -> what it said of itself when it was made."""
        return self._placements.words()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._runtime.run())
                group.create_task(self._let_pages_follow())
        except* Exception as errors:  # noqa: BLE001 - one of the two is as good as the other
            raise errors.exceptions[0] from None

    def resting(self) -> dict[str, int]:
        """Pod uid -> seconds until it may be moved again."""
        now = time.monotonic()
        left = {uid: int(self._cool_down - (now - at)) for uid, at in self._moved_at.items()}
        self._moved_at = {uid: at for uid, at in self._moved_at.items() if left[uid] > 0}
        return {uid: seconds for uid, seconds in left.items() if seconds > 0}

    async def follow(self, pods: Sequence[PodGroup]) -> None:
        """What runs now, whoever may be moved: an agent that comes after one that was killed gives back already here."""
        self._processes = {pod.uid: pod.processes for pod in pods}
        self.migrated = {uid: done for uid, done in self.migrated.items() if uid in self._processes}
        contested = await self._runtime.follow(pods)
        if contested:
            # Somebody else insists on what they have. They rest, and are perhaps asked for again after that.
            self._placements.leave(contested)
            self._moved_at |= dict.fromkeys(contested, time.monotonic())
            text = f"pod {min(contested)}: its CPUs are changed again and again by somebody else"
            self._troubles.raised("runtime", "contested", text)
        elif self._runtime.ready.is_set():
            self._troubles.cleared("runtime")

    async def act(self, scene: Scene, wanted: Plan) -> None:
        """Those who may not be moved any more get back what they had, the others go where they should be."""
        if not self._runtime.ready.is_set():
            return
        barred = {member.uid for member in scene.members if member.barred is not None}
        # Until they have it: a runtime that did not change them then is asked again.
        await self.give_back(barred & self._placements.kept())
        targets = {
            answer.uid: self._target(answer.cpus, answer.target)
            for answer in wanted.moves
            if answer.target is not None
        }
        if targets:
            moved = await self._place(targets)
            self._placements.leave(targets.keys() - moved)
            self._note(scene, wanted.moves, moved, targets.keys())
            if self._migrate:
                for uid in sorted(moved):
                    self._following.put_nowait(uid)

    def _target(self, cpus: CpuSet, node: int) -> Target:
        preferred = "" if self._memory == "leave" else str(node)
        # Confined to it, memory would follow at once with control groups version 2; it follows at our pace first.
        mems = str(node) if self._memory == "only" and not self._migrate else ""
        return Target(cpus, node, mems, preferred)

    async def _let_pages_follow(self) -> None:
        """One pod after the other."""
        stop = Event()
        try:
            while True:
                uid = await self._following.get()
                target = self.targets.get(uid)
                if target is None:
                    continue
                try:
                    done = await asyncio.to_thread(
                        migrate,
                        self._root,
                        self._processes.get(uid, ()),
                        target.node,
                        self._migrate,
                        stop,
                    )
                except OSError as error:
                    self._troubles.raised("migration", "refused", str(error))
                    continue
                self._troubles.cleared("migration")
                self.migrated[uid] = done
                log.info("its pages have followed", pod=uid, numa=done.node, moved=done.moved, left=done.left)
                if self._memory == "only" and self.targets.get(uid) == target:
                    await self._place({uid: msgspec.structs.replace(target, mems=str(target.node))})
        finally:
            stop.set()

    async def _place(self, targets: dict[str, Target]) -> set[str]:
        """Who is there now. Who may be elsewhere is not; what he had is kept, and given back in the end."""
        changes: Changes = {}
        failed: set[str] = set()
        try:
            changes = self._placements.place(targets)
            failed = {*await self._runtime.update(changes)}
        except FAILURES as error:
            failed = {*changes}
            self._troubles.raised("runtime", "update", str(error))
        known = self._placements.known()
        return {
            uid
            for uid in targets
            if {one.id for one in known.get(uid, ())} & changes.keys()
            and failed.isdisjoint(one.id for one in known[uid])
        }

    def _note(self, scene: Scene, answers: Sequence[Answer], moved: set[str], asked: Iterable[str]) -> None:
        # Those who could not be moved are not asked for again at once, either.
        self._moved_at |= dict.fromkeys(asked, time.monotonic())
        self.counts["failed"] += len(set(asked) - moved)
        self.counts["moved"] += len(moved)
        now = int(time.time())
        names = {member.uid: member for member in scene.members}
        before = scene.crossing()
        planned = scene.with_moves(
            {one.uid: one.target for one in answers if one.target is not None}
        ).crossing()
        for answer in answers:
            if answer.uid not in moved:
                continue
            member = names[answer.uid]
            move = Move(
                answer.uid,
                member.namespace,
                member.name,
                now,
                answer.target or 0,
                answer.saving,
                before=before.get(answer.uid, 0),
                planned=planned.get(answer.uid, 0),
            )
            self.moves = (*self.moves, move)[-_MOST_MOVES_KEPT:]
            log.info(
                "moved",
                pod=f"{member.namespace}/{member.name}",
                numa=answer.target,
                cpus=str(answer.cpus),
                saving=answer.saving,
            )

    def measure(self, scene: Scene, settled: float) -> None:
        """What has become of moves after so many seconds: what pods say within their NUMA node, and what across."""
        due = [
            number
            for number, move in enumerate(self.moves)
            if move.after is None
            and time.monotonic() - self._moved_at.get(move.uid, time.monotonic()) > settled
        ]
        if not due:
            return
        across, said = scene.crossing(), scene.said()
        moves = list(self.moves)
        for number in due:
            uid = moves[number].uid
            after = across.get(uid, 0)
            moves[number] = msgspec.structs.replace(
                moves[number], measured=said.get(uid, 0) - after, after=after
            )
        self.moves = tuple(moves)

    async def give_back(self, uids: Iterable[str] | None = None) -> None:
        """To these, or to all."""
        changes: Changes = self._placements.restore(None if uids is None else frozenset(uids))
        if not changes:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._runtime.ready.wait()
            done = changes.keys() - {*await self._runtime.update(changes)}
            self._placements.forget(done)
        except FAILURES as error:
            # It is on disk what they had; the next agent gives it back.
            log.warning("containers could not be given back what they had", error=str(error))
            return
        if done:
            log.info("containers have back what they had", containers=len(done))
