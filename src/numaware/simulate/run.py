"""One run of the lab: a trace played on a cluster with one scheduler (`loop.py`), and the numbers it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from numaware.diagnose.reason import Reason
from numaware.diagnose.rules.storms import StormDetector
from numaware.diagnose.texts import Words, say
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.simulate.clusters import ClusterSpec, build
from numaware.simulate.loop import Admission, Arrived, Happening, LabLoop, Left, Waits
from numaware.simulate.measure import Meter, numa_nodes, percent, size_of
from numaware.simulate.policies import POLICIES, Setting
from numaware.simulate.result import Result, Run, Sample, Talk, Tile
from numaware.simulate.talk import talk_of, talking
from numaware.simulate.traces import FinishEvent, NodeEvent, Trace, arrivals, asked
from numaware.twin.account import fewest_nodes_for
from numaware.workload.pod import Pod

RECREATIONS = 10
_SAMPLES = 200
_MOST_STORMS = 20

# Told how many pods have arrived, of how many.
Progress = Callable[[int, int], None]


def run(
    cluster: ClusterSpec,
    trace: Trace,
    policy: str,
    seed: int,
    *,
    profile: Profile = DEFAULT_PROFILE,
    recreations: int = RECREATIONS,
    progress: Progress | None = None,
) -> Result:
    """Play the trace on the cluster with one scheduler; equal arguments give an equal result, but for its speed.

    A pod that still waits at the end is unplaced.
    """
    if policy not in POLICIES:
        raise InputError("--policy", f"{policy!r} is no policy", hint=f"known: {', '.join(POLICIES)}")
    check_events(cluster, trace.node_events, trace.name)
    measured = _Measured(cluster, trace, policy, seed, recreations, profile)
    return measured.play(progress or (lambda _done, _all: None))


def check_events(cluster: ClusterSpec, events: Iterable[NodeEvent], source: str) -> None:
    """Events of a file have to be about nodes of the cluster."""
    names = {node.name for node in cluster.nodes}
    for event in events:
        if event.node not in names:
            problem = f"there is no node {printable(event.node, 80)!r} to {event.action}"
            raise InputError(f"{source}:{event.line}" if event.line else source, problem)


class _Spread(NamedTuple):
    """On how many NUMA nodes a pod has something of its own, how many it needs at least, and what size of pod it is."""

    nodes: int
    fewest: int
    size: str


class _Snapshot(NamedTuple):
    """What is kept of one moment."""

    sample: Sample
    devices: dict[str, float]
    tiles: tuple[Tile, ...]
    talk: Talk


class _Measured:
    """A run with its counts, kept up by what happens in the loop."""

    def __init__(
        self, spec: ClusterSpec, trace: Trace, policy: str, seed: int, recreations: int, profile: Profile
    ) -> None:
        self.spec = spec
        self.trace = trace
        self.name = policy
        self.seed = seed
        self.cluster = build(spec)
        room = Meter(self.cluster, ())
        names = [member.name for member in self.cluster]
        self.arrivals = arrivals(trace, seed, room.gpu, room.gpu_room, names)
        typical = [arrival.pod for arrival in self.arrivals]
        self.meter = Meter(self.cluster, typical)
        scheduler = POLICIES[policy](Setting(self.cluster, typical, seed, profile))
        events: list[NodeEvent | FinishEvent] = [*trace.node_events, *trace.finishes]
        self.loop = LabLoop(self.cluster, scheduler, self.arrivals, events, recreations=recreations)
        # Of the pods on nodes, by uid, and of those that are done.
        self.running: dict[str, _Spread] = {}
        self.finished: list[_Spread] = []
        self.hindered: dict[str, Words] = {}
        self.refusals: Counter[str] = Counter()
        self.storms = StormDetector()
        self.waits = self.longest = self.admissions = 0
        self.arrived = self.asked = 0
        self.series: list[Sample] = []

    def play(self, progress: Progress) -> Result:
        total = len(self.arrivals)
        every = max(1, -(-total // _SAMPLES))
        stays = not self.trace.finishes and all(arrival.lifetime is None for arrival in self.arrivals)
        snapshot = None
        while (happened := self.loop.step()) is not None:
            for happening in happened:
                self._count(happening)
            if happened and isinstance(happened[0], Arrived):
                last = self.arrived == total
                if self.arrived % every == 0 or last:
                    self.series.append(self._sample(self.loop.now))
                    progress(self.arrived, total)
                if last and not stays:
                    snapshot = self._snapshot()
        self.series.append(self._sample(self.loop.now))
        return self._result(snapshot or self._snapshot())

    def _count(self, happening: Happening) -> None:
        match happening:
            case Arrived(pod):
                gpu = self.meter.gpu
                self.arrived += 1
                self.asked += asked(pod, gpu) if gpu else dict(pod_requests(pod)).get("cpu", 0)
            case Waits(pending, decision):
                self.hindered[pending.pod.uid] = (
                    decision.reasons[0][0] if decision.reasons else Reason("no-nodes")
                )
            case Admission(verdict=verdict) if verdict.admitted:
                self._admitted(happening)
            case Admission(pending, node, verdict):
                self.hindered[pending.pod.uid] = verdict.reason
                self.refusals[verdict.reason] += 1
                self.storms.refused(pending.owner, node, verdict.reason, self.loop.now)
            case Left(stay, done):
                pod = stay.pending.pod
                spread = self.running.pop(pod.uid)
                if done:
                    self.finished.append(spread)
                self.meter.add(pod, -1)

    def _admitted(self, admission: Admission) -> None:
        pod = admission.pending.pod
        member = self.cluster.by_name[admission.node]
        self.hindered.pop(pod.uid, None)
        self.meter.add(pod, 1)
        nodes = numa_nodes(member, pod).bit_count()
        fewest = fewest_nodes_for(member.node, pod) if nodes > 1 else nodes
        self.running[pod.uid] = _Spread(nodes, fewest, self._size(pod))
        waited = self.loop.now - admission.pending.since
        self.admissions += 1
        self.waits += waited
        self.longest = max(self.longest, waited)

    def _size(self, pod: Pod) -> str:
        return size_of(pod, self.meter.gpu)

    # Numbers

    def _sample(self, now: int) -> Sample:
        meter = self.meter
        return Sample(
            time_ms=now,
            arrived=self.arrived,
            arrived_percent=percent(self.asked, meter.gpu_room or meter.room["cpu"]),
            placed=len(self.finished) + len(self.running),
            running=len(self.running),
            pending=self.arrived - len(self.finished) - len(self.running),
            refusals=self.refusals.total(),
            cpu_percent=meter.cpu,
            memory_percent=meter.memory,
            device_percent=meter.gpus,
            stranded_percent=meter.stranded(),
        )

    def _snapshot(self) -> _Snapshot:
        """What is allocated where, at the moment that counts."""
        return _Snapshot(self._sample(0), self.meter.by_device(), self.meter.tiles(), self._talk())

    def _talk(self) -> Talk:
        plans = [talking(member.node).plan for member in self.cluster if talk_of(member.node.state.pods)]
        return Talk(
            sum(plan.total for plan in plans),
            sum(plan.across_before for plan in plans),
            sum(plan.across_after for plan in plans),
            sum(len(plan.moves) for plan in plans),
        )

    def _result(self, snapshot: _Snapshot) -> Result:
        sample, devices, tiles, talk = snapshot
        loop = self.loop
        stays = [*self.finished, *self.running.values()]
        owning = [stay for stay in stays if stay.nodes]
        aligned = sum(stay.nodes <= stay.fewest for stay in owning)
        return Result(
            run=Run(
                policy=self.name,
                seed=self.seed,
                pods_total=len(self.arrivals),
                pods_placed=len(stays),
                kubelet_refusals=self.refusals.total(),
                aligned_percent=percent(aligned, len(owning)) if owning else 100.0,
                cross_numa_pods=sum(stay.nodes > 1 for stay in owning),
                cpu_allocated_percent=sample.cpu_percent,
                memory_allocated_percent=sample.memory_percent,
                device_allocated_percent=devices,
                stranded_percent=sample.stranded_percent,
                decisions_per_second=round(loop.decisions / loop.spent, 1) if loop.spent else 0.0,
                unplaced_by_reason=_counted(Counter(map(say, self.hindered.values()))),
                placed_by_size=self._by_size(Counter(stay.size for stay in stays)),
            ),
            cluster=self.spec.name,
            trace=self.trace.name,
            nodes=len(self.cluster),
            series=tuple(self.series),
            refusals_by_reason=_counted(self.refusals),
            storms=tuple(self.storms.storms(0)[:_MOST_STORMS]),
            wait_mean_ms=self.waits // self.admissions if self.admissions else 0,
            wait_most_ms=self.longest,
            tiles=tiles,
            talk=talk,
        )

    def _by_size(self, placed: Counter[str]) -> dict[str, tuple[int, int]]:
        """How many pods of each size were placed, and how many came; the smallest first."""
        came = Counter(self._size(arrival.pod) for arrival in self.arrivals)
        return {size: (placed[size], came[size]) for size in sorted(came, key=_by_gpus)}


def _by_gpus(size: str) -> tuple[int, str]:
    """Shares before whole GPUs, and those by number."""
    return (int(size), size) if size.isdecimal() else (0, size)


def _counted(counts: Counter[str]) -> dict[str, int]:
    """Most first, then by text."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
