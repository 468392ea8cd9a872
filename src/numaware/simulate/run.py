"""One run of the lab: pods come, a scheduler chooses, kubelets judge, controllers make refused pods anew.

The rules of the lab's world:

- A pod that a kubelet refuses is Failed; its owner makes a new one a second later, up to `recreations` times. So a
  scheduler that does not learn from a refusal shows a storm here as it would in a cluster.
- A pod that fits nowhere waits, and is tried again, oldest first, when something was freed; one that still waits at the
  end is unplaced. Pods of a kind that has just failed are not tried again in the same round. A scheduler whose
  knowledge lags behind tries them every five minutes, too, as kube-scheduler does.
- A drained node takes no more pods and its pods are made anew elsewhere; a lost one is gone with its pods, which are
  made anew as well, until it returns empty.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import Words, say
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.cluster import Member
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.pod_kinds import Kind, kind_of
from numaware.simulate.clusters import ClusterSpec, build
from numaware.simulate.measure import Meter, numa_nodes, percent
from numaware.simulate.policies import POLICIES, Setting
from numaware.simulate.result import Result, Run, Sample, Storm, Tile
from numaware.simulate.traces import SECOND, Arrival, FinishEvent, NodeEvent, Trace, arrivals, asked
from numaware.twin.account import fewest_nodes_for
from numaware.workload.pod import Pod

RECREATIONS = 10
_SAMPLES = 200
_FLUSH_EVERY = 300 * SECOND
_MOST_STORMS = 20
# A storm is what a person would call one: the same pods of one owner, refused again and again.
_LEAST_STORM = 3

# Told how many pods have arrived, of how many.
Progress = Callable[[int, int], None]


def run(
    cluster: ClusterSpec,
    trace: Trace,
    policy: str,
    seed: int,
    *,
    recreations: int = RECREATIONS,
    progress: Progress | None = None,
) -> Result:
    """Play the trace on the cluster with one scheduler; equal arguments give an equal result, but for its speed."""
    if policy not in POLICIES:
        raise InputError("--policy", f"{policy!r} is no policy", hint=f"known: {', '.join(POLICIES)}")
    return _Lab(cluster, trace, policy, seed, recreations).play(progress or (lambda _done, _all: None))


class _Pod(NamedTuple):
    """A pod on its way: who owns it, when it came, how long it will stay, how often a kubelet has refused it."""

    pod: Pod
    owner: str
    since: int
    lifetime: int | None
    refused: int = 0


class _Stay(NamedTuple):
    """A pod on a node: on how many NUMA nodes it has something of its own, and how many it needs at least."""

    pending: _Pod
    node: str
    spread: int
    fewest: int


class _Flush(NamedTuple):
    """Time to try those who wait once more."""


_What = Arrival | _Pod | _Stay | NodeEvent | FinishEvent | _Flush


class _Event(NamedTuple):
    """What happens next; at one moment what ends comes before what begins, and first come is first served."""

    time: int
    rank: int
    order: int
    what: _What


_LEAVES, _CHANGES, _COMES = range(3)


class _Lab:
    def __init__(self, spec: ClusterSpec, trace: Trace, policy: str, seed: int, recreations: int) -> None:
        self.spec = spec
        self.trace = trace
        self.name = policy
        self.seed = seed
        self.recreations = recreations
        self.cluster = build(spec)
        room = Meter(self.cluster, ())
        names = [member.name for member in self.cluster]
        self.arrivals = arrivals(trace, seed, room.gpu, room.gpu_room, names)
        typical = [arrival.pod for arrival in self.arrivals]
        self.meter = Meter(self.cluster, typical)
        self.policy = POLICIES[policy](Setting(self.cluster, typical, seed))
        self.events: list[_Event] = []
        self.pushed = 0
        self.waiting: dict[str, _Pod] = {}
        self.running: dict[str, _Stay] = {}
        self.finished: list[_Stay] = []
        self.hindered: dict[str, Words] = {}
        self.refusals: Counter[str] = Counter()
        self.refused_where: Counter[tuple[str, str, str]] = Counter()
        self.waits = self.longest = self.admissions = 0
        self.arrived = self.asked = 0
        self.flushing = False
        self.decisions, self.spent = 0, 0.0
        self.series: list[Sample] = []

    def play(self, progress: Progress) -> Result:
        for arrival in self.arrivals:
            self._at(arrival.time, _COMES, arrival)
        for event in self.trace.node_events:
            self._at(event.time, _CHANGES, event)
        for finish in self.trace.finishes:
            self._at(finish.time, _CHANGES, finish)
        every = max(1, -(-len(self.arrivals) // _SAMPLES))
        stays = not self.trace.finishes and all(arrival.lifetime is None for arrival in self.arrivals)
        snapshot = None
        now = 0
        while self.events:
            now, _, _, what = heapq.heappop(self.events)
            match what:
                case Arrival():
                    self._arrive(what, now)
                    last = self.arrived == len(self.arrivals)
                    if self.arrived % every == 0 or last:
                        self.series.append(self._sample(now))
                        progress(self.arrived, len(self.arrivals))
                    if last and not stays:
                        snapshot = self._snapshot()
                case _Pod():
                    self._try(what, now)
                case _Stay():
                    self._leave(what, now)
                case NodeEvent():
                    self._change(what, now)
                case FinishEvent():
                    self._finish(what, now)
                case _Flush():
                    self._flush(now)
        self.series.append(self._sample(now))
        return self._result(snapshot or self._snapshot())

    def _at(self, moment: int, rank: int, what: _What) -> None:
        heapq.heappush(self.events, _Event(moment, rank, self.pushed, what))
        self.pushed += 1

    # Pods

    def _arrive(self, arrival: Arrival, now: int) -> None:
        self.arrived += 1
        gpu = self.meter.gpu
        self.asked += asked(arrival.pod, gpu) if gpu else dict(pod_requests(arrival.pod)).get("cpu", 0)
        self._try(_Pod(arrival.pod, arrival.owner, now, arrival.lifetime), now)

    def _try(self, pending: _Pod, now: int) -> bool:
        """One decision and, if there is a node, one admission; whether the pod was placed."""
        started = time.perf_counter()
        choice = self.policy.decide(pending.pod, now)
        verdict = self.policy.bind(pending.pod, choice) if choice.node is not None else None
        self.spent += time.perf_counter() - started
        self.decisions += 1
        uid = pending.pod.uid
        self.waiting.pop(uid, None)
        if choice.node is None or verdict is None:
            self.waiting[uid] = pending
            if self.policy.lags and not self.flushing:
                self.flushing = True
                self._at(now + _FLUSH_EVERY, _COMES, _Flush())
            self.hindered[uid] = choice.reasons[0][0] if choice.reasons else Reason("no-nodes")
            return False
        if verdict.admitted:
            self._admitted(pending, self.cluster.by_name[choice.node], now)
            return True
        self.hindered[uid] = verdict.reason
        self.refusals[verdict.reason] += 1
        self.refused_where[pending.owner, choice.node, verdict.reason] += 1
        if pending.refused < self.recreations:
            self._at(now + SECOND, _COMES, pending._replace(refused=pending.refused + 1))
        return False

    def _admitted(self, pending: _Pod, member: Member, now: int) -> None:
        pod = pending.pod
        self.hindered.pop(pod.uid, None)
        self.meter.add(pod, 1)
        spread = numa_nodes(member, pod).bit_count()
        stay = _Stay(
            pending, member.name, spread, fewest_nodes_for(member.node, pod) if spread > 1 else spread
        )
        self.running[pod.uid] = stay
        self.admissions += 1
        self.waits += now - pending.since
        self.longest = max(self.longest, now - pending.since)
        if pending.lifetime is not None:
            self._at(now + pending.lifetime, _LEAVES, stay)

    def _leave(self, stay: _Stay, now: int) -> None:
        """The pod is done, unless it had to move meanwhile."""
        if self.running.get(stay.pending.pod.uid) is stay:
            self.finished.append(stay)
            self._remove(stay)
            self._try_again(now)

    def _finish(self, event: FinishEvent, now: int) -> None:
        for stay in [stay for stay in self.running.values() if _named(stay.pending.owner, event.owner)]:
            self.finished.append(stay)
            self._remove(stay)
        for pending in [one for one in self.waiting.values() if _named(one.owner, event.owner)]:
            del self.waiting[pending.pod.uid]
        # Nor is a refused one made anew by an owner that is done.
        self.events = [
            one
            for one in self.events
            if not (isinstance(one.what, _Pod) and _named(one.what.owner, event.owner))
        ]
        heapq.heapify(self.events)
        self._try_again(now)

    def _remove(self, stay: _Stay) -> None:
        uid = stay.pending.pod.uid
        del self.running[uid]
        self.policy.release(uid)
        self.meter.add(stay.pending.pod, -1)

    def _try_again(self, now: int) -> None:
        """Something was freed: those who wait, oldest first."""
        failed: set[tuple[Kind, object]] = set()
        for pending in list(self.waiting.values()):
            kind = kind_of(pending.pod), pending.pod.scheduling
            if kind not in failed and not self._try(pending, now):
                failed.add(kind)

    def _flush(self, now: int) -> None:
        """Go on as long as it helps, or there are pods to come."""
        before = self.admissions
        self._try_again(now)
        self.flushing = self.admissions > before or self.arrived < len(self.arrivals)
        if self.waiting and self.flushing:
            self._at(now + _FLUSH_EVERY, _COMES, _Flush())

    # Nodes

    def _change(self, event: NodeEvent, now: int) -> None:
        if event.node not in self.cluster.by_name:
            raise InputError(
                self.trace.name, f"there is no node {printable(event.node, 80)!r} to {event.action}"
            )
        for stay in [stay for stay in self.running.values() if stay.node == event.node]:
            self._remove(stay)
            self._at(now + SECOND, _COMES, stay.pending._replace(since=now, refused=0))
        facts = self.cluster.by_name[event.node].facts
        self.policy.describe(msgspec.structs.replace(facts, unschedulable=event.action != "return"))
        self._try_again(now)

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

    def _snapshot(self) -> tuple[Sample, dict[str, float], tuple[Tile, ...]]:
        """What is allocated where, at the moment that counts."""
        return self._sample(0), self.meter.by_device(), self.meter.tiles()

    def _result(self, snapshot: tuple[Sample, dict[str, float], tuple[Tile, ...]]) -> Result:
        sample, devices, tiles = snapshot
        stays = [*self.finished, *self.running.values()]
        owning = [stay for stay in stays if stay.spread]
        aligned = sum(stay.spread <= stay.fewest for stay in owning)
        return Result(
            run=Run(
                policy=self.name,
                seed=self.seed,
                pods_total=len(self.arrivals),
                pods_placed=len(stays),
                kubelet_refusals=self.refusals.total(),
                aligned_percent=percent(aligned, len(owning)) if owning else 100.0,
                cross_numa_pods=sum(stay.spread > 1 for stay in owning),
                cpu_allocated_percent=sample.cpu_percent,
                memory_allocated_percent=sample.memory_percent,
                device_allocated_percent=devices,
                stranded_percent=sample.stranded_percent,
                decisions_per_second=round(self.decisions / self.spent, 1) if self.spent else 0.0,
                unplaced_by_reason=_counted(Counter(map(say, self.hindered.values()))),
            ),
            cluster=self.spec.name,
            trace=self.trace.name,
            nodes=len(self.cluster),
            series=tuple(self.series),
            refusals_by_reason=_counted(self.refusals),
            storms=self._storms(),
            wait_mean_ms=self.waits // self.admissions if self.admissions else 0,
            wait_most_ms=self.longest,
            tiles=tiles,
        )

    def _storms(self) -> tuple[Storm, ...]:
        """The worst first, one for each owner."""
        worst: dict[str, Storm] = {}
        total: Counter[str] = Counter()
        for (owner, node, reason), count in sorted(
            self.refused_where.items(), key=lambda item: (-item[1], item[0])
        ):
            worst.setdefault(owner, Storm(owner, node, reason, 0))
            total[owner] += count
        storms = [msgspec.structs.replace(storm, refusals=total[owner]) for owner, storm in worst.items()]
        storms.sort(key=lambda storm: (-storm.refusals, storm.owner))
        return tuple(storm for storm in storms[:_MOST_STORMS] if storm.refusals >= _LEAST_STORM)


def _named(owner: str, name: str) -> bool:
    return name in (owner, owner.partition("/")[2])


def _counted(counts: Counter[str]) -> dict[str, int]:
    """Most first, then by text."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
