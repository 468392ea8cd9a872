"""The part of the agent that keeps talking pods together: look, plan and, where it may, act, once a period.

By default it only observes, and says what it would do. With NRI it moves containers through the container runtime, answers
it while it runs, and gives every container back what it had when it stops. It never acts on half a picture: when the kubelet
does not say who holds CPUs of his own, nobody is moved.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import structlog

from numaware.affinity.plan import Member, Plan, Rules, Zone, plan
from numaware.affinity.traffic import Flows, Pair, Smoothing, after, talking
from numaware.errors import InputError
from numaware.machine import sysfs
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import open_tree
from numaware.node.affinity import status as status_file
from numaware.node.affinity.look import Chosen, Look, exclusive_of, members_of, zones_of
from numaware.node.affinity.placements import Placements, Target
from numaware.node.affinity.pod_groups import PodGroup, read_pods
from numaware.node.affinity.pod_networks import networks_of
from numaware.node.affinity.status import AffinityStatus, Mode, Move, Talk
from numaware.node.atomic_files import replace_file
from numaware.node.exporter import kernel
from numaware.node.exporter.families import Family, counter, gauge
from numaware.node.nri.mux import WireError
from numaware.node.nri.plugin import Changes, CpusAndMems, Plugin
from numaware.node.nri.ttrpc import CallError
from numaware.node.podresources import PodResources, PodResourcesError
from numaware.node.traffic.collector import Collector
from numaware.node.troubles import Troubles

log = structlog.get_logger("numaware.agent")

_FIRST_RETRY, _LONGEST_RETRY = 0.2, 10.0
_MOST_MOVES_KEPT = 200
_MOST_TALK_SHOWN = 50


class AffinityOptions(msgspec.Struct, frozen=True):
    """What a user says of run-time affinity. `cool_down` is in seconds; `pin_memory` lets memory nodes be set, too."""

    mode: Mode = "observe"
    period: float = 5.0
    cool_down: int = 300
    pin_memory: bool = False
    chosen: Chosen = Chosen()
    rules: Rules = Rules()
    smoothing: Smoothing = Smoothing()
    nri: str = "/var/run/nri/nri.sock"
    folder: Path = status_file.FOLDER
    most_pods: int = 2000


class Keeper:
    """Looks after the pods of one node while `run` runs. `words` gives what pods say of themselves, by uid."""

    def __init__(
        self,
        node: str,
        root: str,
        service: PodResources,
        troubles: Troubles,
        options: AffinityOptions,
        words: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._node = node
        self._root = root
        self._service = service
        self._troubles = troubles
        self._options = options
        self._words = words
        self._machine = sysfs.read(open_tree(root))
        everything = CpusAndMems(
            str(self._machine.online),
            ",".join(str(numa.id) for numa in self._machine.numa if numa.memory_bytes),
        )
        self._placements = Placements(options.folder / status_file.BEFORE.name, everything)
        self._plugin = Plugin(self._placements)
        self._collector = Collector()
        self._flows: Flows = {}
        self._used: dict[str, tuple[float, int]] = {}
        self._collected_at: float | None = None
        self._moved_at: dict[str, float] = {}
        self._moves: tuple[Move, ...] = ()
        self._plan: Plan | None = None
        self._names: dict[str, tuple[str, str]] = {}
        self._counts = dict.fromkeys(("moved", "failed"), 0)
        self._cpu_seconds = 0.0

    async def run(self) -> None:
        """Until cancelled; then every container has back what it had."""
        # Two sockets for each pod, which on a full node are more than a process may have unless it says so.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        connection = asyncio.create_task(self._stay_connected()) if self._options.mode == "nri" else None
        try:
            while True:
                await self._round()
                if connection is not None and connection.done():
                    # It ends with something that nobody has thought of, which is not to be passed over in silence.
                    await connection
                await asyncio.sleep(self._options.period)
        finally:
            try:
                await self._give_back()
            finally:
                if connection is not None:
                    connection.cancel()
                    await asyncio.wait([connection])
                self._collector.close()

    async def _stay_connected(self) -> None:
        """Be the runtime's plug-in, again after each time that it goes."""
        wait = _FIRST_RETRY
        while True:
            try:
                await self._plugin.run(self._options.nri)
            except (OSError, WireError, CallError, TimeoutError) as error:
                self._troubles.raised("runtime", type(error).__name__, f"{self._options.nri}: {error}")
            wait = _FIRST_RETRY if self._plugin.runtime else min(_LONGEST_RETRY, 2 * wait)
            self._plugin.runtime = ""
            await asyncio.sleep(wait)

    async def _round(self) -> None:
        try:
            look = await self._look()
        except PodResourcesError as error:
            self._troubles.raised("affinity", error.cause, str(error))
            return
        except (InputError, OSError) as error:
            self._troubles.raised("affinity", "unreadable", str(error))
            return
        zones = zones_of(look)
        members = members_of(look, self._placements.targets, self._resting(), self._options.chosen)
        talk = talking(self._flows)
        self._names = {member.uid: (member.namespace, member.name) for member in members}
        self._plan = plan(zones, members, talk, self._options.rules)
        self._measure(members, talk)
        if self._options.mode == "nri" and self._plugin.synchronized.is_set():
            self._troubles.cleared("runtime")
            barred = {member.uid for member in members if member.barred is not None}
            await self._give_back(barred & self._placements.targets.keys())
            await self._act(self._plan)
        self._troubles.cleared("affinity")
        self._write(look, tuple(zones), tuple(members), talk)

    async def _look(self) -> Look:
        held = await self._service.pods()
        source = Source(open_tree(self._root))
        pods = tuple(await asyncio.to_thread(read_pods, source, self._options.most_pods))
        counted = await asyncio.to_thread(self._collector.collect, networks_of(self._root, pods))
        now = time.monotonic()
        if self._collected_at is not None:
            passed = int((now - self._collected_at) * 1000)
            self._flows = after(self._flows, counted.bytes, passed, self._options.smoothing)
        self._collected_at = now
        self._cpu_seconds += counted.cpu_seconds
        if counted.unread:
            place, problem = next(iter(sorted(counted.unread.items())))
            self._troubles.raised("traffic", "unread", f"network namespace {place}: {problem}")
        elif counted.lost:
            self._troubles.raised(
                "traffic", "lost", f"network namespace {counted.lost[0]}: too many connections ended"
            )
        else:
            self._troubles.cleared("traffic")
        free = {
            numa.id: kernel.memory(source, numa.id).get(kernel.AVAILABLE, 0) for numa in self._machine.numa
        }
        return Look(self._machine, pods, held, free, self._loads(pods, now), self._words())

    def _loads(self, pods: tuple[PodGroup, ...], now: float) -> dict[str, int]:
        loads = {}
        for pod in pods:
            before = self._used.get(pod.uid)
            if before is not None and now > before[0]:
                loads[pod.uid] = max(0, int((pod.used - before[1]) / (now - before[0]) / 1e6))
        self._used = {pod.uid: (now, pod.used) for pod in pods}
        return loads

    def _resting(self) -> dict[str, int]:
        now = time.monotonic()
        left = {uid: int(self._options.cool_down - (now - at)) for uid, at in self._moved_at.items()}
        self._moved_at = {uid: at for uid, at in self._moved_at.items() if left[uid] > 0}
        return {uid: seconds for uid, seconds in left.items() if seconds > 0}

    async def _act(self, wanted: Plan) -> None:
        targets = {
            answer.uid: Target(answer.cpus, str(answer.target) if self._options.pin_memory else "")
            for answer in wanted.moves
            if answer.target is not None
        }
        if not targets:
            return
        changes: Changes = {}
        failed: set[str] = set()
        try:
            changes = self._placements.place(targets)
            failed = {*await self._plugin.update(changes)}
        except (WireError, CallError, TimeoutError, OSError) as error:
            failed = {*changes}
            self._troubles.raised("runtime", "update", str(error))
        known = self._placements.known()
        moved = {
            uid
            for uid in targets
            if {one.id for one in known.get(uid, ())} & changes.keys()
            and failed.isdisjoint(one.id for one in known[uid])
        }
        # Who may be elsewhere is not taken for moved; what they had is kept, and given back in the end.
        self._placements.leave(targets.keys() - moved)
        self._counts["failed"] += len(targets) - len(moved)
        self._counts["moved"] += len(moved)
        now = int(time.time())
        for answer in wanted.moves:
            # Nor are those asked for again at once who could not be moved.
            self._moved_at[answer.uid] = time.monotonic()
            if answer.uid not in moved:
                continue
            namespace, name = self._names[answer.uid]
            move = Move(answer.uid, namespace, name, now, answer.target or 0, answer.saving)
            self._moves = (*self._moves, move)[-_MOST_MOVES_KEPT:]
            log.info(
                "moved",
                pod=f"{namespace}/{name}",
                numa=answer.target,
                cpus=str(answer.cpus),
                saving=answer.saving,
            )

    def _measure(self, members: list[Member], talk: Mapping[Pair, int]) -> None:
        """What moved pods say within their NUMA node now: that is what does not cross any more."""
        zones = {member.uid: member.zones for member in members}
        for number, move in enumerate(self._moves):
            at = self._moved_at.get(move.uid)
            if move.measured is None and at is not None and time.monotonic() - at > 3 * self._options.period:
                partners = [
                    (pair[0] if pair[1] == move.uid else pair[1], rate)
                    for pair, rate in talk.items()
                    if move.uid in pair
                ]
                within = sum(rate for uid, rate in partners if zones.get(uid) == zones.get(move.uid))
                self._moves = (
                    *self._moves[:number],
                    msgspec.structs.replace(move, measured=within),
                    *self._moves[number + 1 :],
                )

    async def _give_back(self, uids: set[str] | None = None) -> None:
        """To those who may not be moved any more, or to all."""
        changes: Changes = self._placements.restore(uids)
        if not changes:
            return
        try:
            # It may have just been started anew.
            async with asyncio.timeout(_LONGEST_RETRY):
                await self._plugin.synchronized.wait()
            failed = await self._plugin.update(changes)
            self._placements.forget(changes.keys() - set(failed))
        except (WireError, CallError, TimeoutError, OSError) as error:
            # It is on disk what they had; the next agent gives it back.
            log.warning("containers could not be given back what they had", error=str(error))
            return
        log.info("containers have back what they had", containers=len(changes) - len(failed))

    def _write(
        self,
        look: Look,
        zones: tuple[Zone, ...],
        members: tuple[Member, ...],
        talk: Mapping[Pair, int],
    ) -> None:
        status = AffinityStatus(
            node=self._node,
            mode=self._options.mode,
            at=int(time.time()),
            runtime=self._plugin.runtime,
            zones=zones,
            members=members,
            talk=tuple(Talk(one, other, rate) for (one, other), rate in sorted(talk.items())),
            rules=self._options.rules,
            moves=self._moves,
            targets={uid: target.cpus for uid, target in sorted(self._placements.targets.items())},
            exclusive=exclusive_of(look),
            processes={pod.uid: pod.processes for pod in look.pods},
            troubles=tuple(
                f"{source}: {message}" for source, (_, message) in sorted(self._troubles.current.items())
            ),
        )
        file = self._options.folder / status_file.FILE.name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, status_file.encode(status), 0o600)
        except OSError as error:
            self._troubles.raised("affinity", "unwritable", str(error))

    def families(self) -> Iterator[Family]:
        """For the exporter."""
        planned = self._plan
        labels = ["namespace_a", "pod_a", "namespace_b", "pod_b"]
        talk = sorted(talking(self._flows).items(), key=lambda item: (-item[1], item[0]))[:_MOST_TALK_SHOWN]
        yield gauge(
            "numa_pod_traffic_bytes_per_second",
            "What two pods say to each other, smoothed; those who say most.",
            labels,
            [
                ((*self._names[one], *self._names[other]), rate)
                for (one, other), rate in talk
                if one in self._names and other in self._names
            ],
        )
        if planned is not None:
            text = (
                "Bytes a second between pods of different NUMA nodes: now, and if the plan were carried out."
            )
            across = [(("now",), planned.across_before), (("planned",), planned.across_after)]
            yield gauge("numa_affinity_cross_numa_bytes_per_second", text, ["when"], across)
        counts = [((result,), count) for result, count in sorted(self._counts.items())]
        yield counter("numa_affinity_moves", "Pods that were moved, or could not be.", ["result"], counts)
        text = "CPU time spent on counting what pods say to each other."
        yield counter("numa_affinity_collector_cpu_seconds", text, [], [((), self._cpu_seconds)])
