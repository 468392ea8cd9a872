"""The load that schedulers are tried with: nodes of three kinds, and pods of many shapes that all find a place.

The same seed makes the same pods. There is room for all of them on NUMA nodes of their own, with enough to spare that no
order of arrival closes the last gap; `test_load.py` holds it to that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from numaware.machine import synthetic
from numaware.machine.quantity import Quantity
from numaware.simulate.clusters import NodeSpec
from numaware.twin.config import Amounts, KubeletConfig, MemoryReservation
from numaware.twin.hardware import Hardware
from numaware.twin.inventory import hardware_of

GPU = "nvidia.com/gpu"
NODES, PODS = 500, 5_000


def _amounts(**amounts: str) -> Amounts:
    return tuple((name, Quantity.parse(text)) for name, text in sorted(amounts.items()))


class Kind(NamedTuple):
    """A kind of node, and how many there are in every ten."""

    name: str
    machine: str
    config: KubeletConfig
    of_ten: int

    def hardware(self) -> Hardware:
        return hardware_of(synthetic.read(self.machine))


KINDS = (
    # Two sockets of 14 CPUs with three GPUs, one of them alone on its side.
    Kind(
        "p100",
        "2x14 +gpu@0,1,1 mem=96Gi",
        KubeletConfig(
            topology_policy="single-numa-node",
            cpu_policy="static",
            kube_reserved=_amounts(cpu="2", memory="2Gi"),
        ),
        4,
    ),
    # Two sockets of 16 CPUs, whose memory is looked after as well.
    Kind(
        "plain",
        "2x16 mem=64Gi",
        KubeletConfig(
            topology_policy="restricted",
            cpu_policy="static",
            memory_policy="Static",
            kube_reserved=_amounts(cpu="2", memory="2Gi"),
            reserved_memory=(MemoryReservation(0, _amounts(memory="2Gi")),),
        ),
        4,
    ),
    # Eight GPUs and 128 CPUs; pods are aligned as a whole.
    Kind(
        "gpu8",
        "2s x 32c x 2t +gpu@0,0,0,0,1,1,1,1 mem=512Gi",
        KubeletConfig(
            topology_policy="restricted",
            topology_scope="pod",
            cpu_policy="static",
            kube_reserved=_amounts(cpu="2", memory="4Gi"),
        ),
        2,
    ),
)


class Shape(NamedTuple):
    """Limits of each container, and how many pods in a hundred are like this."""

    name: str
    containers: tuple[Mapping[str, str], ...]
    of_hundred: int


def _limits(cpu: str, memory: str, gpus: int = 0) -> Mapping[str, str]:
    return {"cpu": cpu, "memory": memory, **({GPU: str(gpus)} if gpus else {})}


SHAPES = (
    Shape("shared", (_limits("500m", "512Mi"),), 12),
    Shape("one", (_limits("1", "2Gi"),), 6),
    Shape("two", (_limits("2", "4Gi"),), 10),
    Shape("three", (_limits("3", "4Gi"),), 12),
    Shape("pair", (_limits("3", "4Gi"), _limits("1", "1Gi")), 9),
    Shape("five", (_limits("5", "8Gi"),), 12),
    Shape("seven", (_limits("7", "12Gi"),), 15),
    Shape("nine", (_limits("9", "16Gi"),), 10),
    Shape("infer", (_limits("2", "6Gi", 1),), 9),
    Shape("tune", (_limits("5", "16Gi", 2),), 4),
    Shape("train", (_limits("16", "64Gi", 4),), 1),
)


def nodes(count: int = NODES) -> Iterator[NodeSpec]:
    """The nodes, of all kinds in turn."""
    wheel = [kind for kind in KINDS for _ in range(kind.of_ten)]
    hardware = {kind.name: kind.hardware() for kind in KINDS}
    for number in range(count):
        kind = wheel[number * 7 % len(wheel)]
        yield NodeSpec(
            f"{kind.name}-{number:04}", hardware[kind.name], kind.config, labels=(("kind", kind.name),)
        )


def pods(
    count: int = PODS, *, seed: int = 1, scheduler: str = "default-scheduler", prefix: str = "p"
) -> Iterator[dict[str, Any]]:
    """The pods as objects to be created; every shape as often as it says, in an order that the seed decides."""
    chance = random.Random(seed)  # noqa: S311 - the same pods every time
    wheel = [shape for shape in SHAPES for _ in range(shape.of_hundred)]
    shapes = [wheel[number % len(wheel)] for number in range(count)]
    chance.shuffle(shapes)
    for number, shape in enumerate(shapes):
        yield pod(shape, f"{prefix}-{number:05}", scheduler)


def pod(shape: Shape, name: str, scheduler: str = "default-scheduler") -> dict[str, Any]:
    """One pod of a shape."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"shape": shape.name}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": f"c{index}", "image": "example.com/none", "resources": {"limits": dict(limits)}}
                for index, limits in enumerate(shape.containers)
            ],
        },
    }
