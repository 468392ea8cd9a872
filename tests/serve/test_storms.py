"""One definition of a storm: scheduler, lab and console, on a live cluster or on the lab, see the same ones."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from numaware.diagnose.rules.storms import Storm
from numaware.schedule.storm import StormGuard
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.console.live_cluster import LiveCluster
from numaware.serve.console.views.refusals import BUCKET, Refusals
from numaware.serve.console.world import Event
from numaware.serve.prediction_audit import PredictionAudit
from numaware.simulate.clusters import build
from numaware.simulate.loop import Admission, LabLoop
from numaware.simulate.policies import POLICIES, Setting
from numaware.simulate.run import run
from numaware.simulate.traces import SECOND, TimedPod, Trace, arrivals
from support.cache_world import Clock
from support.lab_worlds import cluster, guaranteed
from support.live_pods import live
from support.small_clusters import cluster_of, gpu_node, owned
from support.twin_nodes import pod

OWNER = "StatefulSet default/trainer"
REASON = "TopologyAffinityError"


class Refusal(NamedTuple):
    time: int
    node: str


def lab(*seconds: int, nodes: int = 1) -> tuple[list[Refusal], tuple[Storm, ...]]:
    """The refusals of pods that come at these times and fit no NUMA node, and the storms of the lab's own result."""
    spec = cluster(nodes, "single-numa-node")
    pods = (TimedPod(guaranteed(f"p{at}", 10), OWNER, at * SECOND) for at in seconds)
    trace = Trace("refused", tuple(pods))
    twins = build(spec)
    policy = POLICIES["random"](Setting(twins, (), 1))
    loop = LabLoop(twins, policy, arrivals(trace, 1, "", 0), recreations=0)
    refusals = [Refusal(loop.now, one.node) for one in loop.advance(10**9) if isinstance(one, Admission)]
    assert len(refusals) == len(seconds)
    return refusals, run(spec, trace, "random", 1, recreations=0).storms


def scheduler(refusals: list[Refusal], nodes: int) -> list[Storm]:
    """What the scheduler tells the owner of, by the pods it sees fail."""
    clock = Clock()
    audit = PredictionAudit(cluster_of(*[gpu_node()] * nodes), StormGuard(), clock)
    told = []
    for number, refusal in enumerate(refusals):
        clock.now = refusal.time / 1000
        template = owned(pod("p", 4), "StatefulSet", "trainer")
        failed = replace(
            live(replace(template, uid=f"u{number}"), node=refusal.node), phase="Failed", reason=REASON
        )
        judged = audit.seen(failed)
        assert judged is not None
        told += [judged.storm] if judged.storm else []
    return told


class _Lately:
    """As much of a world as counts of refusals need."""

    def __init__(self, events: list[Event], now: int) -> None:
        self.events = events
        self.now = now


def console(events: list[Event], now: int) -> list[Storm]:
    """The storms that the console tells of, however long they have been over."""
    told = Refusals(_Lately(events, now))  # type: ignore[arg-type] # it looks at nothing else
    told.refresh()
    return [told.worst] if told.worst else []


def on_the_wall(refusals: list[Refusal]) -> list[Event]:
    return [
        Event(number, refusal.time, "refused", f"default/p{number}", refusal.node, OWNER, REASON)
        for number, refusal in enumerate(refusals, 1)
    ]


def from_the_watch(refusals: list[Refusal]) -> list[Event]:
    """What a console on a live cluster puts down of pods that it sees fail."""
    cache = ClusterCache.__new__(ClusterCache)
    world = LiveCluster("prod", cache, lambda: 0.0, 0)
    world.begin()
    for number, refusal in enumerate(refusals):
        world.advance(refusal.time)
        template = owned(pod("p", 4), "StatefulSet", "trainer")
        failed = replace(
            live(replace(template, uid=f"u{number}"), node=refusal.node), phase="Failed", reason=REASON
        )
        world.pod_changed(failed.uid, failed)
    return list(world.events)


def essence(storms: list[Storm] | tuple[Storm, ...]) -> list[tuple[object, ...]]:
    return [(storm.owner, storm.nodes, storm.count, storm.since, storm.last) for storm in storms]


@pytest.mark.parametrize(
    ("seconds", "nodes", "storms"),
    [
        # Three within ten seconds, on one node and on several.
        ((0, 4, 9), 1, 1),
        ((0, 1, 2), 3, 1),
        # Ever so many, but slowly.
        ((0, 20, 40, 60, 80, 100), 1, 0),
        ((0, 8, 16, 24, 32, 40, 48), 1, 0),
        ((0, 1), 1, 0),
    ],
)
def test_the_same_refusals_are_the_same_storms_everywhere(
    seconds: tuple[int, ...], nodes: int, storms: int
) -> None:
    refusals, of_the_lab = lab(*seconds, nodes=nodes)
    now = refusals[-1].time + BUCKET // 2
    expected = essence(of_the_lab)
    assert len(expected) == storms
    assert essence(scheduler(refusals, nodes)) == expected
    assert essence(console(on_the_wall(refusals), now)) == expected
    assert essence(console(from_the_watch(refusals), now)) == expected
