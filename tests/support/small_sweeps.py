"""Small sweeps, and tasks that processes started afresh can import: some end well, some badly."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.quantity import Quantity
from numaware.simulate.clusters import ClusterSpec, NodeSpec
from numaware.simulate.result import Result
from numaware.simulate.run import Progress
from numaware.simulate.sweep import Job, plan
from numaware.simulate.traces import Generator, Shape, Trace
from numaware.twin.config import KubeletConfig
from numaware.twin.inventory import hardware_of
from numaware.workload.pod import NANO, Container, Pod
from support.made_results import result


def guaranteed(name: str, cpus: int, gpus: int) -> Shape:
    amounts = {"cpu": cpus, "memory": 1 << 30} | ({"nvidia.com/gpu": gpus} if gpus else {})
    resources = tuple(sorted((resource, count * NANO) for resource, count in amounts.items()))
    return Shape(Pod(name, containers=(Container("app", resources, resources),)), name)


def places() -> list[tuple[ClusterSpec, Trace]]:
    """Two small clusters and a trace whose pods do not all fit."""
    config = KubeletConfig(
        topology_policy="single-numa-node",
        cpu_policy="static",
        kube_reserved=(("cpu", Quantity.parse("1")),),
        reserved_cpus="0",
    )
    hardware = hardware_of(synthetic.read("2s x 1n x 8c +gpu@0,0,1,1 mem=32Gi"))
    shapes = (guaranteed("small", 2, 0), guaranteed("large", 5, 1), guaranteed("wide", 3, 2))
    trace = Trace("mixed", generators=(Generator(shapes, count=40),))
    return [
        (ClusterSpec(name, tuple(NodeSpec(f"{name}-{at}", hardware, config) for at in range(nodes))), trace)
        for name, nodes in (("four", 4), ("six", 6))
    ]


def invented(job: Job, progress: Progress) -> Result:
    progress(1, 2)
    progress(2, 2)
    return result(job.policy, job.seed, cluster=job.cluster.name, trace=job.trace.name)


def late_first(job: Job, progress: Progress) -> Result:
    """The first job ends only when somebody has put a file into the folder that the cluster is named after."""
    for _ in range(1200 if job.seed == 1 else 0):
        if Path(job.cluster.name, "go").exists():
            break
        time.sleep(0.05)
    return invented(job, progress)


def bad_input(job: Job, progress: Progress) -> Result:
    if job.seed == 2:
        raise InputError("node gpu-07", "the kubelet would not start", hint="reserve a CPU")
    return invented(job, progress)


def bug(job: Job, progress: Progress) -> Result:
    if job.seed == 2:
        raise KeyError("zone-9")
    return invented(job, progress)


def dies(job: Job, progress: Progress) -> Result:
    if job.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return invented(job, progress)


def endless(job: Job, progress: Progress) -> Result:
    Path(job.cluster.name, f"{os.getpid()}").touch()
    time.sleep(600)
    return invented(job, progress)


def three(cluster: str = "none") -> list[Job]:
    return plan([(ClusterSpec(cluster, ()), Trace("empty"))], ["numaware"], [1, 2, 3])
