"""Traces: which pods come when, how long they stay, and what happens to nodes meanwhile.

A `Trace` is a recipe; `timeline` makes the events of one seed from it. Times are milliseconds of the lab's own clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple

import msgspec

from numaware.errors import InputError
from numaware.schedule.room import SHARE_RESOURCE, WHOLE
from numaware.simulate.random_source import random_source
from numaware.workload.pod import Pod, amount, units

SECOND = 1000
# Pods of one trace, so that no file keeps a machine busy for days.
MOST_PODS = 1_000_000

NodeAction = Literal["drain", "lose", "return"]


class TimedPod(msgspec.Struct, frozen=True):
    """A pod that comes at a time and ends `lifetime` after it was admitted, or never. `owner` makes it anew when refused.

    A pod `on_every_node` stands for one on each, as a DaemonSet makes them.
    """

    pod: Pod
    owner: str
    time: int = 0
    lifetime: int | None = None
    on_every_node: bool = False


class Shape(msgspec.Struct, frozen=True):
    """A pod that a generator makes, and how often among others."""

    pod: Pod
    owner: str
    weight: int = 1


class Generator(msgspec.Struct, frozen=True):
    """Pods of several shapes: `count` of them from `start` on, `gap` apart on average, each staying for a time.

    Gaps are drawn as for independent arrivals, lifetimes evenly between the two bounds.
    """

    shapes: tuple[Shape, ...]
    count: int
    start: int = 0
    gap: int = SECOND
    lifetime: tuple[int, int] | None = None


class NodeEvent(msgspec.Struct, frozen=True):
    """Something that happens to a node: its pods have to leave (`drain`), it vanishes (`lose`), it is back (`return`).

    `line` is where a file says so, 0 where none does.
    """

    time: int
    action: NodeAction
    node: str
    line: int = 0


class FinishEvent(msgspec.Struct, frozen=True):
    """All pods of an owner end, such as `Job/train` or `train`."""

    time: int
    owner: str


class Trace(msgspec.Struct, frozen=True):
    """All of it under a name.

    With `arrive` pods are drawn at random from `pods` until the GPUs they ask for reach that many thousandths of the
    cluster's; they come a second apart and never leave. `limit` ends the trace after so many pods.
    """

    name: str
    pods: tuple[TimedPod, ...] = ()
    generators: tuple[Generator, ...] = ()
    node_events: tuple[NodeEvent, ...] = ()
    finishes: tuple[FinishEvent, ...] = ()
    arrive: int | None = None
    limit: int | None = None


class Arrival(NamedTuple):
    """A pod of the timeline."""

    time: int
    pod: Pod
    owner: str
    lifetime: int | None


def joined(first: Trace, second: Trace) -> Trace:
    """Both traces at once, under the name of the second."""
    if second.arrive is not None and (first.pods or first.generators):
        raise InputError(
            "--arrive", "draws pods from the trace alone", hint=f"but {first.name} brings pods of its own"
        )
    return msgspec.structs.replace(
        second,
        pods=(*first.pods, *second.pods),
        generators=(*first.generators, *second.generators),
        node_events=(*first.node_events, *second.node_events),
        finishes=(*first.finishes, *second.finishes),
    )


def arrivals(trace: Trace, seed: int, gpu: str, capacity: int, nodes: Sequence[str] = ()) -> list[Arrival]:
    """The pods of one seed in the order they come; `capacity` is the cluster's in thousandths of `gpu`."""
    if trace.arrive is not None:
        drawn = _drawn(trace, random_source(seed, "arrivals"), gpu, capacity * trace.arrive // WHOLE)
        coming = list(drawn)
    else:
        coming = [
            Arrival(one.time, pod, one.owner, one.lifetime)
            for one in trace.pods
            for pod in (_on_each(one.pod, nodes) if one.on_every_node else (one.pod,))
        ]
        for number, generator in enumerate(trace.generators):
            coming += _generated(generator, number, random_source(seed, f"generator {number}"))
        coming.sort(key=lambda arrival: arrival.time)
    return coming if trace.limit is None else coming[: trace.limit]


def asked(pod: Pod, gpu: str) -> int:
    """Thousandths of GPUs that a pod asks for."""
    whole = sum(units(amount(container.limits, gpu)) for container in pod.containers)
    share = sum(units(amount(container.limits, SHARE_RESOURCE)) for container in pod.containers)
    return WHOLE * whole + share


def _drawn(trace: Trace, chance: Random, gpu: str, wanted: int) -> Iterator[Arrival]:
    """Every pod of the trace once in random order, then again in another, until enough is asked for."""
    total = number = 0
    sizes = [asked(one.pod, gpu) for one in trace.pods]
    if not sum(sizes):
        return
    order = list(range(len(trace.pods)))
    while True:
        chance.shuffle(order)
        for index in order:
            if total >= wanted or number >= MOST_PODS:
                return
            one = trace.pods[index]
            total += sizes[index]
            pod = renamed(one.pod, f"{one.pod.name}-{number:06}")
            yield Arrival(number * SECOND, pod, one.owner, None)
            number += 1


def _generated(generator: Generator, number: int, chance: Random) -> Iterator[Arrival]:
    time = float(generator.start)
    weights = [shape.weight for shape in generator.shapes]
    for index in range(generator.count):
        shape = chance.choices(generator.shapes, weights)[0]
        lifetime = None if generator.lifetime is None else chance.randint(*generator.lifetime)
        pod = renamed(shape.pod, f"{shape.pod.name}-{number}-{index:06}")
        yield Arrival(int(time), pod, shape.owner, lifetime)
        time += chance.expovariate(1) * generator.gap


def _on_each(pod: Pod, nodes: Sequence[str]) -> Iterator[Pod]:
    for name in nodes:
        rules = msgspec.structs.replace(pod.scheduling.node, node_name=name)
        there = msgspec.structs.replace(pod.scheduling, node=rules)
        yield msgspec.structs.replace(renamed(pod, f"{pod.name}-{name}"), scheduling=there)


def renamed(pod: Pod, name: str) -> Pod:
    """The same pod under another name; in the lab a pod's uid is made from its name."""
    return msgspec.structs.replace(pod, name=name, uid=f"{pod.namespace}/{name}")
