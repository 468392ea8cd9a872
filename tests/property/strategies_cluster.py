"""Small clusters of mixed machines, and pods that come and go on them: enough to make every rule of the engine bite."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.room import SHARE_RESOURCE
from numaware.twin.node import Node
from numaware.workload.disks import Disk
from numaware.workload.pod import NANO, Container, Pod
from numaware.workload.scheduling import (
    VOLCANO_POLICY,
    HostPort,
    NodeRules,
    NodeTerm,
    Owner,
    PodRules,
    PodTerm,
    PreferredNodes,
    Requirement,
    Scheduling,
    Selector,
    SpreadRule,
    Toleration,
)
from property.strategies_twin import kinds_of, nodes, pods
from support.twin_nodes import GPU, HUGE

Made = list[tuple[NodeFacts, Node]]

FAST = Requirement("disk", "In", ("fast",))
MINE = Selector((Requirement("app", "In", ("a",)),))
TAINT = Taint("dedicated", "x", "NoSchedule")
# What pods may have to say about where they go; most say nothing.
WISHES = (
    Scheduling(),
    Scheduling(),
    Scheduling(labels=(("app", "a"),)),
    Scheduling(node=NodeRules(selector=(("disk", "fast"),))),
    Scheduling(node=NodeRules(tolerations=(Toleration("dedicated", exists=True),))),
    Scheduling(node=NodeRules(preferred=(PreferredNodes(7, NodeTerm((FAST,))),))),
    Scheduling(labels=(("app", "a"),), pods=PodRules(apart=(PodTerm("host", MINE, ("default",)),))),
    Scheduling(labels=(("app", "a"),), spread=(SpreadRule("disk", 1, hard=True, selector=MINE),)),
    Scheduling(labels=(("app", "a"),), spread=(SpreadRule("disk", 2, hard=False, selector=MINE),)),
    Scheduling(labels=(("app", "a"),), owners=(Owner("ReplicaSet", "web", controller=True),)),
    Scheduling(images=("app:v1",)),
    Scheduling(claims=("alone",), disks=(Disk("gce-pd", "disk", read_only=True),)),
    Scheduling(host_ports=(HostPort("TCP", "0.0.0.0", 80),)),  # noqa: S104 - nothing is bound to it
    Scheduling(annotations=((VOLCANO_POLICY, "restricted"),)),
)


class Move(NamedTuple):
    """A pod of one of the templates arrives, or one that is there leaves (by its turn)."""

    template: int = 0
    leaves: int | None = None


@st.composite
def clusters(draw: st.DrawFn, most: int = 6) -> Made:
    """Several nodes of one, two or three kinds."""
    kinds = [draw(nodes()) for _ in range(draw(st.integers(1, 3)))]
    return [
        (draw(facts(f"n{number}", node)), node)
        for number, node in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=most)))
    ]


@st.composite
def facts(draw: st.DrawFn, name: str, node: Node) -> NodeFacts:
    hardware = node.kubelet.hardware
    healthy = {
        name: inventory.healthy.bit_count() for name, inventory in node.kubelet.devices.inventories.items()
    }
    amounts = {
        "cpu": 1000 * sum(len(numa.cpus) for numa in hardware.numa) - draw(st.sampled_from([0, 1000])),
        "memory": sum(numa.memory_bytes for numa in hardware.numa),
        HUGE: sum(dict(numa.hugepages).get(HUGE, 0) for numa in hardware.numa),
        "pods": draw(st.sampled_from([3, 8])),
        SHARE_RESOURCE: 1000 * healthy.get(GPU, 0),
        **healthy,
    }
    return NodeFacts(
        name,
        labels=(("disk", draw(st.sampled_from(["fast", "slow"]))), ("host", name)),
        taints=draw(st.sampled_from([(), (), (), (), (TAINT,)])),
        unschedulable=draw(st.sampled_from([False] * 7 + [True])),
        allocatable=tuple(sorted((key, amount) for key, amount in amounts.items() if amount)),
        topology_policy=node.kubelet.config.topology_policy,
        cpu_policy=node.kubelet.config.cpu_policy,
    )


@st.composite
def templates(draw: st.DrawFn, made: Made) -> list[Pod]:
    """A few kinds of pods that ask for what some node has; `uid` is left to who makes pods of them."""
    there = sorted({kind for _, node in made for kind in kinds_of(node)})
    kinds = st.sampled_from([(), *((kind,) for kind in there), tuple(there)])
    found = []
    for number in range(draw(st.integers(1, 3))):
        if GPU in there and draw(st.integers(0, 3)) == 0:
            milli = draw(st.sampled_from([250, 500, 600]))
            share = ((SHARE_RESOURCE, milli * NANO),)
            pod = Pod("share", containers=(Container("app", share, share),))
        else:
            pod = draw(pods(f"t{number}", draw(kinds)))
        found.append(replace(pod, scheduling=draw(st.sampled_from(WISHES))))
    return found


@st.composite
def moves(draw: st.DrawFn, templates: int, most: int = 16) -> list[Move]:
    leaves = st.sampled_from([None, None, None, 0, 1, 5])
    move = st.builds(Move, st.integers(0, templates - 1), leaves)
    return draw(st.lists(move, min_size=4, max_size=most))
