"""No wake-up is lost: whatever happens to a cluster, no pod waits that a queue that tries everything would have placed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.kube.nodes import LiveNode
from numaware.schedule.node_facts import Taint
from numaware.workload.pod import Pod
from numaware.workload.scheduling import (
    HostPort,
    NodeRules,
    PodRules,
    PodTerm,
    Requirement,
    Scheduling,
    Selector,
    SpreadRule,
    Toleration,
)
from support.live_pods import complete, live, live_node
from support.scheduler_scene import Scene
from support.small_clusters import gpu_node
from support.twin_nodes import pod

A = Selector((Requirement("app", "In", ("a",)),))
IS_A = (("app", "a"),)
OF_TEAM = Selector((Requirement("team", "In", ("x",)),))
# What keeps pods off nodes, each kind of reason at least once.
WISHES = (
    Scheduling(),
    Scheduling(labels=IS_A),
    Scheduling(node=NodeRules(selector=(("disk", "fast"),))),
    Scheduling(node=NodeRules(tolerations=(Toleration("dedicated", exists=True),))),
    Scheduling(labels=IS_A, pods=PodRules(apart=(PodTerm("host", A, ("default",)),))),
    Scheduling(pods=PodRules(near=(PodTerm("zone", A, ("default",)),))),
    Scheduling(pods=PodRules(apart=(PodTerm("zone", A, (), OF_TEAM),))),
    Scheduling(labels=IS_A, spread=(SpreadRule("zone", 1, hard=True, selector=A),)),
    Scheduling(host_ports=(HostPort("TCP", "0.0.0.0", 80),)),  # noqa: S104 - nothing is bound to it
    Scheduling(gates=("quota",)),
)
NAMES = ("n0", "n1")
Kind = Literal["come", "foreign", "go", "leave", "node", "no node", "open", "namespace", "report"]
# As often as it takes for pods to get stuck, and for somebody to make room.
KINDS: tuple[Kind, ...] = (
    *("come",) * 6,
    *("go",) * 6,
    *("node",) * 4,
    *("foreign",) * 2,
    *("leave",) * 2,
    *("no node", "open", "namespace", "report"),
)


class Step(NamedTuple):
    """Something that happens; the numbers choose to whom."""

    kind: Kind
    one: int
    other: int
    cpus: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(KINDS),
        st.integers(0, 29),
        st.integers(0, 29),
        st.sampled_from([1, 3, 4]),
    ),
    min_size=10,
    max_size=40,
)


def described(name: str, step: Step) -> LiveNode:
    return replace(
        live_node(name, gpu_node("single-numa-node", cpus=4)),
        labels=(
            ("disk", "fast" if step.other % 3 else "slow"),
            ("host", name),
            ("zone", f"z{step.other % 2}"),
        ),
        taints=(Taint("dedicated", "x", "NoSchedule"),) if step.other % 5 == 4 else (),
        unschedulable=step.other % 7 == 6,
    )


def wanted(uid: str, step: Step) -> Pod:
    wishes = replace(WISHES[step.one % len(WISHES)], priority=10 * (step.other % 3))
    return replace(pod(uid, step.cpus), scheduling=wishes)


class World:
    """A scene to which steps happen; pods are numbered as they come."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.pods: dict[str, Pod] = {}
        for number, name in enumerate(NAMES):
            self.scene.cache.put_node(described(name, Step("node", 0, number + 1, 1)))
            self.scene.cache.put_report(complete(name, gpu_node("single-numa-node", cpus=4)))
        self.scene.cache.know_namespaces()

    def happen(self, number: int, step: Step) -> None:
        cache, scheduler = self.scene.cache, self.scene.scheduler
        uid, name = f"p{number}", NAMES[step.one % len(NAMES)]
        some = sorted(self.pods)[step.one % len(self.pods)] if self.pods else ""
        match step.kind:
            case "come":
                self.pods[uid] = wanted(uid, step)
                self.scene.arrive(live(self.pods[uid]))
            case "foreign":
                self.pods[uid] = wanted(uid, step)
                scheduler.nodes_changed(cache.put_pod(live(self.pods[uid], node=name, scheduler="other")))
            case "go" if some:
                del self.pods[some]
                names = cache.drop_pod(some)
                scheduler.pod_changed(some, None)
                scheduler.nodes_changed(names)
            case "leave" if some and (node := cache.place_of(some)):
                leaving = live(self.pods[some], node=node, deletion=datetime(2026, 1, 1, tzinfo=UTC))
                names = cache.put_pod(leaving)
                scheduler.pod_changed(some, leaving)
                scheduler.nodes_changed(names)
            case "open" if some and not cache.place_of(some):
                self.pods[some] = replace(self.pods[some], scheduling=Scheduling())
                self.scene.arrive(live(self.pods[some]))
            case "node":
                scheduler.nodes_changed(cache.put_node(described(name, step)))
            case "no node":
                scheduler.nodes_changed(cache.drop_node(name))
            case "namespace":
                labels = (("team", "x"),) if step.other % 2 else None
                scheduler.nodes_changed(cache.put_namespace("default", labels))
            case "report" if name in cache.engine.cluster.by_name:
                twin = cache.engine.cluster.by_name[name].node
                scheduler.nodes_changed(cache.put_report(complete(name, twin, number + 2)))
            case _:
                pass

    def left_behind(self, *, backing_off: bool = False) -> list[str]:
        """Pods that wait though a node would take them at this moment, and not because others were before them."""
        engine = self.scene.engine
        idle = ("stuck", "later") if backing_off else ("stuck",)
        waiting = [one for one in self.scene.scheduler.queue.waiting.values() if one.state in idle]
        return [one.pod.uid for one in waiting if engine.decide(one.pod).node is not None]


@settings(max_examples=150)
@given(STEPS)
def test_no_pod_waits_that_a_queue_that_tries_everything_would_have_placed(steps: list[Step]) -> None:
    world = World()

    async def story(scene: Scene) -> None:
        for number, step in enumerate(steps):
            world.happen(number, step)
            await scene.settle()
            assert world.left_behind() == [], f"after {number}: {step}"
        scene.now += 11
        scene.scheduler._news.set()
        await scene.settle()
        assert world.left_behind(backing_off=True) == []

    world.scene.play(story)
