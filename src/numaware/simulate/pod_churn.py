"""The pods that come and go in the console's lab, drawn from a seed: equal seeds make equal lives.

The same kinds of pods are the trace `lab:COUNT` of `numaware simulate` and of the console's Simulate page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numaware.machine.quantity import Quantity
from numaware.simulate.random_source import random_source
from numaware.simulate.traces import SECOND, Arrival, Generator, Shape, Trace
from numaware.workload.pod import Container, Pod, Resources

MOST_PODS = 5000
# Between two pods, on a cluster of thirty machines: most of it is busy, and there is room.
_GAP = 2200


class Job(NamedTuple):
    """What a team runs: amounts, how often among others, and for how many minutes (least, most)."""

    owner: str
    amounts: dict[str, str]
    weight: int
    minutes: tuple[int, int]
    # Requests less than limits: a Burstable pod, which gets nothing of its own.
    shared: bool = False


_GPU = "nvidia.com/gpu"
JOBS = (
    Job("train/llama-ft", {"cpu": "16", "memory": "128Gi", _GPU: "1"}, 3, (5, 20)),
    Job("train/ddp-worker", {"cpu": "24", "memory": "96Gi", _GPU: "2"}, 3, (3, 13)),
    Job("infer/chat-70b", {"cpu": "20", "memory": "160Gi", _GPU: "2"}, 2, (10, 30)),
    Job("infer/chat-7b", {"cpu": "8", "memory": "48Gi", _GPU: "1"}, 4, (3, 15)),
    Job("vision/label", {"cpu": "3", "memory": "8Gi", _GPU: "1"}, 4, (3, 13)),
    Job("vision/train", {"cpu": "12", "memory": "16Gi", _GPU: "2"}, 2, (3, 13)),
    Job("data/etl", {"cpu": "6", "memory": "24Gi"}, 14, (2, 10)),
    Job("data/vmstorage", {"cpu": "10", "memory": "120Gi"}, 5, (7, 27)),
    Job("data/clickhouse", {"cpu": "14", "memory": "48Gi"}, 8, (5, 20)),
    Job("web/gateway", {"cpu": "4", "memory": "8Gi"}, 12, (3, 20)),
    Job("web/checkout", {"cpu": "1500m", "memory": "2Gi"}, 10, (3, 20), shared=True),
    Job("monitoring/prometheus", {"cpu": "2", "memory": "12Gi"}, 4, (7, 30), shared=True),
    Job("ci/runner", {"cpu": "3", "memory": "4Gi"}, 12, (1, 4), shared=True),
)


def pod_of(owner: str, name: str, amounts: dict[str, str], *, shared: bool = False) -> Pod:
    """A pod of one container; a `shared` one asks for less than it may use."""
    namespace = owner.partition("/")[0]
    wanted: Resources = tuple(sorted((key, Quantity.parse(text).nano) for key, text in amounts.items()))
    container = Container(
        "main", requests=wanted, limits=tuple((key, 2 * nano) for key, nano in wanted) if shared else wanted
    )
    return Pod(name, namespace, uid=f"{namespace}/{name}", containers=(container,))


def coming(seed: int, start: int, nodes: int) -> Iterator[Arrival]:
    """Pods without an end, from `start` on, as many as keep `nodes` machines busy."""
    chance = random_source(seed, "living")
    weights = [job.weight for job in JOBS]
    time = float(start)
    number = 0
    while True:
        time += chance.expovariate(1) * _GAP * 30 / nodes
        job = chance.choices(JOBS, weights)[0]
        # Names as a ReplicaSet would give them, told apart by their number.
        name = f"{job.owner.partition('/')[2]}-{number:05}"
        lifetime = chance.randint(*job.minutes) * 60 * SECOND
        yield Arrival(int(time), pod_of(job.owner, name, job.amounts, shared=job.shared), job.owner, lifetime)
        number += 1


def trace_of(pods: int) -> Trace:
    """So many of these pods, for machines of any number."""
    shapes = tuple(
        Shape(
            pod_of(job.owner, job.owner.partition("/")[2], job.amounts, shared=job.shared),
            job.owner,
            job.weight,
        )
        for job in JOBS
    )
    return Trace(
        "living", generators=(Generator(shapes, pods, 0, 2 * SECOND, (180 * SECOND, 1200 * SECOND)),)
    )
