"""What the twin's laws are tried on: machines, kubelet configurations, and pods that come and go.

Everything is small, so that nodes run full and the odd paths are taken: a few CPUs and GiB per NUMA node, devices
with no, one or two nodes, some of them unhealthy, nodes without CPUs, ids with gaps.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import reject
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.twin.config import KubeletConfig, MemoryReservation, Options
from numaware.twin.errors import StartError
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware, PluginDevice, PluginResource
from numaware.twin.node import Node
from numaware.twin.rules import rules_for
from numaware.workload.pod import NANO, Container, Pod
from support.twin_nodes import GATES, GI, GPU, HUGE, NIC, quantities

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
NEWEST = "v1.35.0"
VERSIONS = (
    NEWEST,
    NEWEST,
    "v1.37.1",
    "v1.37.1",
    "v1.36.4",
    "v1.33.0",
    "v1.28.0",
    "v1.27.16",
    "v1.22.17",
    "v1.20.15",
)
CPU_OPTIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("full-pcpus-only",),
    ("distribute-cpus-across-numa",),
    ("full-pcpus-only", "distribute-cpus-across-numa"),
    ("align-by-socket",),
    ("distribute-cpus-across-cores",),
    ("strict-cpu-reservation",),
    ("prefer-align-cpus-by-uncorecache",),
)


class Step(NamedTuple):
    """A pod arrives, or the pod of an earlier step leaves."""

    pod: Pod | None = None
    leaves: int = 0


@st.composite
def hardware(draw: st.DrawFn) -> Hardware:
    count = draw(st.integers(1, 4))
    ids = draw(st.just(list(range(count))) | st.just([0, 3, 4, 9][:count]))
    # NUMA nodes and sockets: one each, two nodes in a socket, or two sockets in a node.
    socket_of = draw(st.sampled_from([lambda p, _: p, lambda p, _: p // 2, lambda p, core: 2 * p + core % 2]))
    threads = draw(st.integers(1, 2))
    pages = draw(st.booleans())
    nodes, cpu = [], 0
    for position, node in enumerate(ids):
        cores = draw(st.integers(0 if position else 1, 4))
        places = tuple(
            CpuPlace(
                cpu + number, (cpu + number) // threads, socket_of(position, number // threads), position
            )
            for number in range(cores * threads)
        )
        cpu += cores * threads
        nodes.append(
            NumaHardware(
                node,
                places,
                draw(st.integers(6, 16)) * GI,
                ((HUGE, draw(st.integers(0, 4)) * GI),) if pages else (),
                tuple(10 if other == position else draw(st.integers(11, 30)) for other in range(count)),
            )
        )
    resources = [
        PluginResource(name, draw(devices(name, ids)), draw(st.booleans()))
        for name in draw(st.sets(st.sampled_from([GPU, NIC])))
    ]
    return Hardware(tuple(nodes), tuple(resources))


@st.composite
def devices(draw: st.DrawFn, name: str, ids: list[int]) -> tuple[PluginDevice, ...]:
    one = st.sampled_from(ids).map(lambda node: (node,))
    where = (
        one | one | st.just(()) | st.sets(st.sampled_from(ids), max_size=2).map(lambda s: tuple(sorted(s)))
    )
    healthy = st.integers(0, 9).map(bool)
    return tuple(
        PluginDevice(f"{name}-{number}", draw(where), draw(healthy))
        for number in range(draw(st.integers(1, 6)))
    )


@st.composite
def nodes(
    draw: st.DrawFn, policies: tuple[str, ...] = POLICIES, versions: tuple[str, ...] = VERSIONS
) -> Node:
    """An empty node whose kubelet starts."""
    machine = draw(hardware())
    version = draw(st.sampled_from(versions))
    new = rules_for(version).odd_uncore
    topology_options: Options = ()
    contiguous = [node.id for node in machine.numa] == list(range(len(machine.numa)))
    if new and contiguous and draw(st.booleans()):
        topology_options = (("prefer-closest-numa-nodes", "true"),)
    memory = version != "v1.20.15" and draw(st.booleans())
    config = KubeletConfig(
        version=version,
        topology_policy=draw(st.sampled_from(policies)),
        topology_scope=draw(st.sampled_from(["container", "pod"])),
        topology_options=topology_options,
        cpu_policy=draw(st.sampled_from(["static", "static", "static", "none"])),
        memory_policy="Static" if memory else "None",
        kube_reserved=quantities({"cpu": "1", "memory": "1Gi"} if memory else {"cpu": "1"}),
        reserved_memory=(MemoryReservation(machine.numa[0].id, quantities({"memory": "1Gi"})),)
        if memory
        else (),
        feature_gates=GATES,
    )
    if config.cpu_policy == "static" and new:
        names = draw(st.sampled_from(CPU_OPTIONS))
        config = replace(config, cpu_options=tuple((name, "true") for name in sorted(names)))
    try:
        return Node.fresh(machine, config)
    except StartError:
        # An option that this machine or policy does not go with.
        reject()


@st.composite
def containers(draw: st.DrawFn, name: str, kinds: tuple[str, ...], *, restartable: bool = False) -> Container:
    """Requests equal limits; CPUs are whole most of the time."""
    cpu = draw(st.sampled_from([1, 2, 2, 3, 4, 6]) | st.sampled_from([0.5, 1.5]))
    amounts = {"cpu": int(cpu * NANO), "memory": draw(st.integers(1, 9)) * GI * NANO}
    for kind in kinds:
        size = draw(st.integers(0, 3))
        if size:
            amounts[kind] = size * (GI if kind == HUGE else 1) * NANO
    resources = tuple(sorted(amounts.items()))
    return Container(name, resources, resources, restartable)


@st.composite
def pods(draw: st.DrawFn, uid: str, kinds: tuple[str, ...]) -> Pod:
    """Guaranteed pods of up to two init and two app containers, and now and then one without CPU and memory."""
    if draw(st.integers(0, 7)) == 0:
        few = tuple((kind, NANO) for kind in kinds if kind != HUGE)
        return Pod(name=uid, uid=uid, containers=(Container("app", few, few),))
    init = tuple(
        draw(containers(f"init-{number}", kinds, restartable=draw(st.booleans())))
        for number in range(draw(st.sampled_from([0, 0, 0, 1, 2])))
    )
    apps = tuple(
        draw(containers(f"app-{number}", kinds)) for number in range(draw(st.sampled_from([1, 1, 2])))
    )
    return Pod(name=uid, uid=uid, containers=apps, init_containers=init)


def kinds_of(node: Node) -> tuple[str, ...]:
    """What a pod can ask this node for beside CPU and memory."""
    machine = node.kubelet.hardware
    pages = (HUGE,) if machine.numa[0].hugepages and node.kubelet.memory else ()
    return (*(resource.name for resource in machine.resources), *pages)


@st.composite
def histories(draw: st.DrawFn, node: Node, most: int = 6) -> list[Step]:
    """Pods that come and go on a node."""
    steps: list[Step] = []
    for number in range(draw(st.integers(1, most))):
        if number and draw(st.integers(0, 3)) == 0:
            steps.append(Step(leaves=draw(st.integers(0, number - 1))))
        else:
            steps.append(Step(draw(pods(f"pod-{number}", kinds_of(node)))))
    return steps
