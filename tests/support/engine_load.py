"""The stream of decisions that benchmarks/test_engine.py measures. Run as a program it measures one and prints JSON."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from numaware.machine import synthetic
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.gc_tuning import settle
from numaware.schedule.node_facts import NodeFacts
from numaware.simulate import openb
from numaware.simulate.clusters import build
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod, amount, units
from support.shared_data import shared
from support.twin_nodes import GI, quantities

GPU = "nvidia.com/gpu"
# Releases in a hundred decisions.
RELEASES = 30
# How full the cluster is when measuring begins, in hundredths of its CPUs.
FULL = 40


class Load(NamedTuple):
    """Equal machines with the GPUs spread evenly over the NUMA nodes, and how many decisions are measured."""

    name: str
    nodes: int
    machine: str
    gpus: int
    decisions: int


LOADS = {
    load.name: load
    for load in (
        Load("5,000 nodes x 2 NUMA", 5_000, "2s x 1n x 16c x 2t", 8, 20_000),
        Load("5,000 nodes x 8 NUMA", 5_000, "2s x 4n x 8c x 2t", 16, 10_000),
        Load("50,000 nodes x 2 NUMA", 50_000, "2s x 1n x 16c x 2t", 8, 20_000),
        # For docs/scale.md.
        *(
            Load(f"a fleet of {nodes:,} nodes x {numa} NUMA", nodes, machine, gpus, 10_000)
            for numa, machine, gpus, sizes in (
                (2, "2s x 1n x 16c x 2t", 8, (1_000, 10_000, 100_000)),
                (8, "2s x 4n x 8c x 2t", 16, (1_000, 10_000)),
            )
            for nodes in sizes
        ),
    )
}
# The nodes of a real GPU cluster, hardly two of them in one state, and all pods of its trace: none leaves.
MIXED = "OpenB, 1,523 mixed nodes"
# CPUs, GiB, GPUs; all of them fit one NUMA node of either machine.
SHAPES = (
    (1, 2, 0),
    (2, 4, 0),
    (3, 6, 0),
    (4, 16, 0),
    (8, 8, 0),
    (12, 24, 0),
    (2, 4, 1),
    (4, 8, 1),
    (8, 32, 1),
    (6, 12, 2),
)


def pod(number: int, cpus: int, gib: int, gpus: int) -> Pod:
    amounts = {"cpu": cpus, "memory": gib * GI, GPU: gpus}
    resources = tuple(sorted((name, count * NANO) for name, count in amounts.items() if count))
    return Pod("p", uid=str(number), containers=(Container("main", resources, resources),))


def cluster(load: Load) -> Cluster:
    """Every kubelet: restricted, static CPUs and memory."""
    machine = synthetic.read(load.machine)
    zones = len(machine.numa)
    gpus = plugin_resource(GPU, {f"g{n:02}": (n * zones // load.gpus,) for n in range(load.gpus)})
    config = KubeletConfig(
        topology_policy="restricted",
        cpu_policy="static",
        kube_reserved=quantities({"cpu": "2", "memory": "2Gi"}),
        memory_policy="Static",
        reserved_memory=(MemoryReservation(0, quantities({"memory": "2Gi"})),),
    )
    node = Node.fresh(hardware_of(machine, [gpus]), config)
    memory = sum(numa.memory_bytes for numa in node.kubelet.hardware.numa) - 2 * GI
    allocatable = (
        ("cpu", (len(machine.cpus) - 2) * 1000),
        ("memory", memory),
        (GPU, load.gpus),
        ("pods", 110),
    )
    return Cluster((NodeFacts(f"n{n:05}", allocatable=allocatable), node) for n in range(load.nodes))


class Stream:
    """Pods of mixed shapes arrive; after some of them one that is there leaves."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.random = random.Random(1)  # noqa: S311 - the same stream every time
        self.placed: list[str] = []
        self.count = 0
        self.refused = 0

    def arriving(self) -> Pod:
        """The next pod; a scheduler has it before it decides."""
        self.count += 1
        return pod(self.count, *self.random.choice(SHAPES))

    def leave(self, releases: int) -> None:
        """Now and then one that is there leaves."""
        if self.placed and self.random.randrange(100) < releases:
            leaving = self.random.randrange(len(self.placed))
            self.placed[leaving], self.placed[-1] = self.placed[-1], self.placed[leaving]
            self.engine.cluster.release(self.placed.pop())

    def decide(self, arriving: Pod) -> bool:
        """One decision, carried out; whether there was a place."""
        decision = self.engine.decide(arriving)
        if decision.node is None:
            self.refused += 1
            return False
        # As the scheduler does: what is decided counts as placed, and the kubelet judges later.
        self.engine.reserve(decision)
        self.placed.append(arriving.uid)
        return True


def measure(load: Load) -> dict[str, float]:
    """Decisions a second of CPU time once the cluster is filled, how many were refused, and the process's peak in MB."""
    made = cluster(load)
    stream = Stream(Engine(made))
    wanted = len(made) * dict(made.members[0].facts.allocatable)["cpu"] // 1000 * FULL // 100
    while wanted > 0:
        arriving = stream.arriving()
        if stream.decide(arriving):
            wanted -= units(amount(arriving.containers[0].requests, "cpu"))
    return measured(stream, [stream.arriving() for _ in range(load.decisions)], RELEASES)


def measure_mixed() -> dict[str, float]:
    """The same for a cluster of different machines, from the first pod on; kubelets as above."""
    traces = ("data", "traces")
    kubelets = openb.kubelet("restricted")
    nodes = openb.nodes(shared(*traces, "openb_node_list_all_node.csv").read_bytes(), "nodes", kubelets)
    pods = openb.pods(shared(*traces, "openb_pod_list_default.csv").read_bytes(), "pods", whole_cpus=True)
    return measured(Stream(Engine(build(nodes))), [timed.pod for timed in pods.pods], 0)


def measured(stream: Stream, coming: list[Pod], releases: int) -> dict[str, float]:
    stream.refused = 0
    settle()
    began = time.process_time()
    for arriving in coming:
        stream.leave(releases)
        stream.decide(arriving)
    seconds = time.process_time() - began
    # The process's own peak: getrusage would count that of the one it was forked from.
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return {
        "perSecond": len(coming) / seconds,
        "refused": stream.refused,
        "peakMb": int(peak[1]) / 1024 if peak else 0,
        "pods": len(stream.placed),
    }


if __name__ == "__main__":
    found = measure_mixed() if sys.argv[1] == MIXED else measure(LOADS[sys.argv[1]])
    print(json.dumps(found))  # noqa: T201 - what its caller asks for
