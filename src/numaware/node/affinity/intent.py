"""What every process of every pod should be allowed, and what the kernel lets it have: the two are compared.

Pods that were moved are meant to be where they were put, containers with CPUs or memory of their own on just those, and all
others off the CPUs that somebody has for himself. `look.py` says what is meant, and `numaware affinity verify` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.source import Source
from numaware.node.affinity.pod_groups import PodGroup

# What only keeps a pod's namespaces; nobody moves it.
_SANDBOX = "pause"
Wrong = Literal["astray", "intruding", "memory"]


class Intent(msgspec.Struct, frozen=True):
    """What a container's processes should have. Without CPUs, all that nobody has for himself; without memory nodes, any."""

    cpus: CpuSet = CpuSet()
    mems: CpuSet = CpuSet()
    exclusive: bool = False


# Pod uid -> what its containers should have, which processes do not say whose they are of. Who is not here floats.
Intents = Mapping[str, tuple[Intent, ...]]


class Mismatch(msgspec.Struct, frozen=True):
    """A process with other CPUs or memory nodes than it should have; `wanted` is empty for an intruder."""

    uid: str
    pid: int
    wrong: Wrong
    allowed: CpuSet
    wanted: CpuSet


class Verified(msgspec.Struct, frozen=True):
    """How many processes were read, and those that are not where they should be."""

    processes: int
    mismatches: tuple[Mismatch, ...]


def verify(source: Source, pods: Iterable[PodGroup], intents: Intents) -> Verified:
    """Every process of every pod, as the kernel has it."""
    exclusive = {
        uid: CpuSet.union(one.cpus for one in wanted if one.exclusive) for uid, wanted in intents.items()
    }
    processes = 0
    found: list[Mismatch] = []
    for pod in pods:
        others = CpuSet.union(cpus for uid, cpus in exclusive.items() if uid != pod.uid)
        own = exclusive.get(pod.uid, CpuSet())
        for pid in pod.processes:
            allowed = _allowed(source, pid)
            if allowed is None:
                continue
            processes += 1
            found += _wrong(pod.uid, pid, allowed, intents.get(pod.uid, ()), others, own)
    return Verified(processes, tuple(found))


def _wrong(
    uid: str, pid: int, allowed: Intent, wanted: tuple[Intent, ...], others: CpuSet, own: CpuSet
) -> Iterator[Mismatch]:
    """A process is right where it is as one of its pod's containers should be."""
    if allowed.cpus & others:
        yield Mismatch(uid, pid, "intruding", allowed.cpus & others, CpuSet())
    if not wanted:
        return
    fitting = [one for one in wanted if (allowed.cpus <= one.cpus if one.cpus else not allowed.cpus & own)]
    if not fitting:
        yield Mismatch(uid, pid, "astray", allowed.cpus, CpuSet.union(one.cpus for one in wanted))
    elif not any(not one.mems or allowed.mems <= one.mems for one in fitting):
        yield Mismatch(uid, pid, "memory", allowed.mems, CpuSet.union(one.mems for one in fitting))


def _allowed(source: Source, pid: int) -> Intent | None:
    """None for a process that has ended meanwhile, and for the one that only keeps a pod's namespaces."""
    lines = (source.raw(f"proc/{pid}/status") or b"").decode("utf-8", "replace").splitlines()
    told = {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    if told.get("Name") == _SANDBOX or "Cpus_allowed_list" not in told:
        return None
    return Intent(CpuSet.parse(told["Cpus_allowed_list"]), CpuSet.parse(told.get("Mems_allowed_list", "")))
