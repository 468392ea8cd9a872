"""The part of the agent that keeps talking pods together: look, plan and, where it may, act, once a period.

By default it only observes, and says what it would do. Where it acts, through the container runtime (NRI) or in the kernel's
control groups, it answers whoever else changes containers, and gives every container back what it had when it stops. It never acts on half a picture: when the kubelet
does not say who holds CPUs of his own, nobody is moved.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from numaware.affinity.chosen import Chosen, Said
from numaware.affinity.plan import Member, Plan, Rules, Zone, plan
from numaware.affinity.report import About, report
from numaware.affinity.traffic import Pair, Smoothing
from numaware.errors import InputError
from numaware.node.affinity import status as status_file
from numaware.node.affinity.entry import entry_of
from numaware.node.affinity.in_cluster import InCluster, SharedObjects
from numaware.node.affinity.look import Look, intents_of, members_of, zones_of
from numaware.node.affinity.mover import MemoryRule, Mover, Scene
from numaware.node.affinity.observer import Observer
from numaware.node.affinity.placements import Placements
from numaware.node.affinity.runtime import Runtime, ThroughNri
from numaware.node.affinity.status import AffinityStatus, Mode, Talk
from numaware.node.affinity.through_cgroups import ThroughCgroups
from numaware.node.atomic_files import replace_file
from numaware.node.exporter.families import Family, counter, gauge
from numaware.node.nri.plugin import CpusAndMems
from numaware.node.nri.preflight import Advice, advise
from numaware.node.podresources import PodResources, PodResourcesError
from numaware.node.traffic.sources import SOCKETS, Sources, sources_of
from numaware.node.troubles import Troubles

_MOST_TALK_SHOWN = 50


class AffinityOptions(msgspec.Struct, frozen=True):
    """What a user says of run-time affinity. `cool_down` is in seconds, `migrate` in bytes a second, 0 for not at all.

    `budget` is how much of a core counting may take, in percent.
    """

    mode: Mode = "observe"
    period: float = 5.0
    sources: tuple[str, ...] = (SOCKETS,)
    budget: float = 2.0
    cool_down: int = 300
    memory: MemoryRule = "leave"
    migrate: int = 0
    chosen: Chosen = Chosen()
    rules: Rules = Rules()
    smoothing: Smoothing = Smoothing()
    nri: str = "/var/run/nri/nri.sock"
    folder: Path = status_file.FOLDER
    most_pods: int = 2000
    cluster: SharedObjects = SharedObjects()


class AffinityWorker:
    """Looks after the pods of one node while `run` runs.

    `said` gives what the cluster says of its pods, None as long as it is not known. Where nobody asks the cluster, what pods
    said of themselves when they were made is heard from the container runtime. `cluster` is told of all that is done.
    """

    def __init__(
        self,
        node: str,
        root: str,
        service: PodResources,
        troubles: Troubles,
        options: AffinityOptions,
        said: Callable[[], Said | None] | None = None,
        cluster: InCluster | None = None,
    ) -> None:
        self._node = node
        self._root = Path(root)
        self._troubles = troubles
        self._options = options
        self._cluster = cluster
        self._traffic = Sources(sources_of(options.sources, root), options.budget / 100)
        self._observer = Observer(
            root, service, troubles, options.smoothing, options.most_pods, said or self._said, self._traffic
        )
        self._mover = None if options.mode == "observe" else self._make_mover()
        self._plan: Plan | None = None
        self._names: dict[str, tuple[str, str]] = {}

    def _make_mover(self) -> Mover:
        options, machine = self._options, self._observer.machine
        mems = ",".join(str(numa.id) for numa in machine.numa if numa.memory_bytes)
        placements = Placements(
            options.folder / status_file.BEFORE.name, CpusAndMems(str(machine.online), mems)
        )
        runtime: Runtime = (
            ThroughNri(options.nri, placements, self._troubles, self._root)
            if options.mode == "nri"
            else ThroughCgroups(str(self._root), placements)
        )
        return Mover(
            runtime,
            placements,
            self._troubles,
            cool_down=options.cool_down,
            memory=options.memory,
            migrate=options.migrate,
            root=self._root,
        )

    def _said(self) -> Said:
        return Said(self._mover.words if self._mover is not None else {})

    async def run(self) -> None:
        """Until cancelled; then every container has back what it had."""
        # Two sockets for each pod, which on a full node are more than a process may have unless it says so.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        moving = asyncio.create_task(self._mover.run()) if self._mover is not None else None
        try:
            while True:
                await self._round()
                if moving is not None and moving.done():
                    # It ends with something that nobody has thought of, which is not to be passed over in silence.
                    await moving
                await asyncio.sleep(self._options.period)
        finally:
            try:
                if self._mover is not None:
                    await self._mover.give_back()
                if self._cluster is not None:
                    await self._cluster.farewell()
            finally:
                if moving is not None:
                    moving.cancel()
                    await asyncio.wait([moving])
                self._observer.close()

    async def _round(self) -> None:
        try:
            pods = await self._observer.pods()
            if self._mover is not None:
                await self._mover.follow(pods)
            look = await self._observer.look(pods)
        except PodResourcesError as error:
            self._troubles.raised("affinity", error.cause, str(error))
            return
        except (InputError, OSError) as error:
            self._troubles.raised("affinity", "unreadable", str(error))
            return
        talk = self._observer.talk
        # Not in the loop: whoever makes a container waits for an answer meanwhile.
        zones, members, planned = await asyncio.to_thread(self._planned, look, talk)
        self._plan = planned
        self._names = {member.uid: (member.namespace, member.name) for member in members}
        if self._mover is not None:
            scene = Scene(zones, members, talk)
            self._mover.measure(scene, 3 * self._options.period)
            if self._may_move(look):
                await self._mover.act(scene, planned)
            elif self._cluster is not None and self._cluster.allowed is False:
                await self._mover.give_back()
        self._troubles.cleared("affinity")
        await asyncio.to_thread(self._write, look, zones, members, talk)
        if self._cluster is not None:
            self._tell(self._cluster, look, zones, members, planned)

    def _may_move(self, look: Look) -> bool:
        return look.said is not None and (self._cluster is None or bool(self._cluster.allowed))

    def _tell(
        self,
        cluster: InCluster,
        look: Look,
        zones: tuple[Zone, ...],
        members: tuple[Member, ...],
        planned: Plan,
    ) -> None:
        mover = self._mover
        about = About(
            self._node,
            self._options.mode,
            moving=mover is not None and bool(mover.runtime) and self._may_move(look),
            at=int(time.time()),
            moves=mover.moves if mover else (),
            troubles=self._complaints(),
        )
        placed = (mover.runtime, mover.targets, mover.placed) if mover else ("", {}, {})
        cluster.tell(
            report(about, zones, members, planned),
            entry_of(self._node, self._observer.machine, *placed, self._names),
        )

    def _complaints(self) -> tuple[str, ...]:
        return tuple(
            f"{source}: {message}" for source, (_, message) in sorted(self._troubles.current.items())
        )

    def _planned(
        self, look: Look, talk: Mapping[Pair, int]
    ) -> tuple[tuple[Zone, ...], tuple[Member, ...], Plan]:
        zones = tuple(zones_of(look))
        targets, resting = (self._mover.targets, self._mover.resting()) if self._mover else ({}, {})
        members = tuple(members_of(look, targets, resting, self._options.chosen))
        return zones, members, plan(zones, members, talk, self._options.rules)

    def _write(
        self,
        look: Look,
        zones: tuple[Zone, ...],
        members: tuple[Member, ...],
        talk: Mapping[Pair, int],
    ) -> None:
        targets = self._mover.targets if self._mover else {}
        status = AffinityStatus(
            node=self._node,
            mode=self._options.mode,
            at=int(time.time()),
            runtime=self._mover.runtime if self._mover else "",
            zones=zones,
            members=members,
            talk=tuple(Talk(one, other, rate) for (one, other), rate in sorted(talk.items())),
            rules=self._options.rules,
            moves=self._mover.moves if self._mover else (),
            migrated=dict(sorted(self._mover.migrated.items())) if self._mover else {},
            intents=dict(sorted(intents_of(look, targets).items())),
            nri=self._advice(),
            troubles=self._complaints(),
        )
        file = self._options.folder / status_file.FILE.name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, status_file.encode(status), 0o600)
        except OSError as error:
            self._troubles.raised("affinity", "unwritable", str(error))

    def _advice(self) -> Advice | None:
        """How to get a runtime that listens; somebody who moves pods without one needs none."""
        socket = self._options.nri
        if self._options.mode == "cgroup" or Path(socket).exists():
            return None
        return advise(self._root, socket)

    def families(self) -> Iterator[Family]:
        """For the exporter."""
        planned = self._plan
        labels = ["namespace_a", "pod_a", "namespace_b", "pod_b"]
        talk = sorted(self._observer.talk.items(), key=lambda item: (-item[1], item[0]))[:_MOST_TALK_SHOWN]
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
        counts = self._mover.counts if self._mover else {"moved": 0, "failed": 0}
        moves = [((result,), count) for result, count in sorted(counts.items())]
        yield counter("numa_affinity_moves", "Pods that were moved, or could not be.", ["result"], moves)
        migrated = self._mover.migrated.values() if self._mover else ()
        text = "The longest time that one step of bringing pages to another NUMA node took, of pods that run."
        longest = max((done.stall_microseconds for done in migrated), default=0)
        yield gauge("numa_affinity_migration_stall_seconds", text, [], [((), longest / 1e6)])
        text = "CPU time spent on counting what pods say to each other."
        yield counter("numa_affinity_collector_cpu_seconds", text, [], [((), self._traffic.cpu_seconds)])
        text = "CPU time that counting may take in a second."
        yield gauge("numa_affinity_collector_budget_seconds", text, [], [((), self._options.budget / 100)])
        text = "Looks at who talks that were left out, as counting would have cost more than it may."
        yield counter("numa_affinity_collector_rests", text, [], [((), self._traffic.rests)])
