"""Small clusters and traces for tests of the lab."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.simulate.clusters import ClusterSpec, NodeSpec
from numaware.simulate.result import Result
from numaware.simulate.traces import SECOND, TimedPod, Trace
from numaware.workload.pod import Pod
from support.twin_nodes import GI, GPU, config, container, machine, pod_of

SHARE = "numaware.io/gpu-milli"


def cluster(
    count: int = 2,
    policy: str = "restricted",
    *,
    cpus: int = 8,
    gpus: int = 0,
    scope: str = "container",
    memory: bool = False,
) -> ClusterSpec:
    """Nodes `n0`, `n1`, ... of two NUMA nodes; CPU 0 is reserved, GPUs are dealt to the NUMA nodes in turn."""
    devices = {GPU: {f"gpu-{index}": (index % 2,) for index in range(gpus)}} if gpus else None
    hardware = machine(2, cpus, devices=devices)
    kubelet = config(policy, scope=scope, memory=memory)
    return ClusterSpec("small", tuple(NodeSpec(f"n{index}", hardware, kubelet) for index in range(count)))


def guaranteed(name: str, cpus: int = 0, memory: int = GI, **more: int) -> Pod:
    """A Guaranteed pod; `gpu=1` and `share=300` are more."""
    names = {"gpu": GPU, "share": SHARE}
    amounts = {"cpu": cpus, "memory": memory} if cpus else {"memory": memory}
    amounts |= {names[key]: amount for key, amount in more.items()}
    return msgspec.structs.replace(pod_of(name, container("app", amounts)), uid=f"default/{name}")


def trace(*pods: Pod, gap: int = SECOND, lifetime: int | None = None, **fields: object) -> Trace:
    """The pods a `gap` apart."""
    timed = tuple(TimedPod(pod, pod.name, index * gap, lifetime) for index, pod in enumerate(pods))
    return msgspec.structs.replace(Trace("made up", timed), **fields)


def timeless(result: Result) -> bytes:
    """All of a result but what depends on the clock on the wall."""
    run = msgspec.structs.replace(result.run, decisions_per_second=0.0)
    return msgspec.json.encode(msgspec.structs.replace(result, run=run))


def csv(header: str, *rows: str) -> bytes:
    return "\n".join((header, *rows, "")).encode()


def amounts(pod: Pod) -> Mapping[str, int]:
    return dict(pod.containers[0].requests)
