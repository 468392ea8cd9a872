"""One look at the node for a plan: the NUMA nodes as far as floating pods may use them, and the pods as members.

Pure but for what is handed in: what the kernel counted (`pod_groups.py`), who holds CPUs of his own (the kubelet), and what
people have said of namespaces and pods. Called by `worker.py` once a period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numaware.affinity.chosen import Chosen, Said
from numaware.affinity.plan import Bar, Member, Zone
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine
from numaware.node.affinity.intent import Intent
from numaware.node.affinity.placements import Target
from numaware.node.affinity.pod_groups import PodGroup
from numaware.node.podresources import PodHoldings, held_cpus


class Look(msgspec.Struct, frozen=True):
    """What was seen at one moment."""

    machine: Machine
    pods: tuple[PodGroup, ...]
    held: tuple[PodHoldings, ...]
    free_memory: Mapping[int, int]
    # Thousandths of a CPU that each pod used since the last look.
    loads: Mapping[str, int]
    # None as long as nobody knows; then nobody is moved.
    said: Said | None


def zones_of(look: Look) -> list[Zone]:
    """CPUs that nobody has for himself, and memory that can still be had."""
    usable = look.machine.online - held_cpus(one for pod in look.held for one in pod.containers)
    return [
        Zone(
            numa.id,
            numa.cpus & usable,
            look.free_memory.get(numa.id, 0),
            dict(numa.distances),
        )
        for numa in look.machine.numa
    ]


def intents_of(look: Look, targets: Mapping[str, Target]) -> dict[str, tuple[Intent, ...]]:
    """Those of containers that hold something for themselves, and of pods that were moved."""
    held = {(pod.namespace, pod.name): pod.containers for pod in look.held}
    intents = {}
    for pod in look.pods:
        own = tuple(
            Intent(one.cpus, CpuSet(node for part in one.memory for node in part.nodes), bool(one.cpus))
            for one in held.get((pod.namespace, pod.name), ())
        )
        target = targets.get(pod.uid)
        if any(one.cpus or one.mems for one in own):
            intents[pod.uid] = own
        elif target is not None:
            intents[pod.uid] = (Intent(target.cpus, CpuSet.parse(target.mems)),)
    return intents


def members_of(
    look: Look, targets: Mapping[str, Target], resting: Mapping[str, int], chosen: Chosen
) -> list[Member]:
    """Every pod that runs; those that hold CPUs or memory of their own are where the kubelet put them."""
    held = {(pod.namespace, pod.name): pod for pod in look.held}
    return [
        _member(look, pod, held.get((pod.namespace, pod.name)), targets.get(pod.uid), resting, chosen)
        for pod in look.pods
    ]


def _member(
    look: Look,
    pod: PodGroup,
    held: PodHoldings | None,
    target: Target | None,
    resting: Mapping[str, int],
    chosen: Chosen,
) -> Member:
    containers = held.containers if held is not None else ()
    exclusive = held_cpus(containers)
    barred: Bar | None = None
    if exclusive or any(one.memory for one in containers):
        barred = "pinned"
    elif chosen.bars(look.said or Said(), pod.uid, pod.namespace, pod.name):
        barred = "not-chosen"
    cpus = exclusive or (target.cpus if target is not None else CpuSet())
    return Member(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        cpu=max(pod.requested, look.loads.get(pod.uid, 0)),
        memory=pod.memory,
        zones=_zones(look.machine, cpus),
        devices=_sorted(node for one in containers for entry in one.devices for node in entry.nodes),
        barred=barred,
        resting=resting.get(pod.uid, 0),
    )


def _zones(machine: Machine, cpus: CpuSet) -> tuple[int, ...]:
    return tuple(numa.id for numa in machine.numa if numa.cpus & cpus)


def _sorted(nodes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(nodes)))
