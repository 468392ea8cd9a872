"""The node's entry in openFuyao's Oenuma: what its NUMA nodes have, and which pods were put where."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.kube.oenumas import NodeEntry, NumaPart, PlacedContainer, PlacedPod
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine
from numaware.node.affinity.placements import Target
from numaware.node.nri.plugin import CpusAndMems, RunningContainer

# All nodes share one object.
MOST_PODS, MOST_CONTAINERS = 100, 20
_CONTAINER_RUNTIMES = ("containerd", "cri-o")

Placed = Mapping[str, tuple[tuple[RunningContainer, CpusAndMems], ...]]


def entry_of(
    node: str,
    machine: Machine,
    runtime: str,
    targets: Mapping[str, Target],
    placed: Placed,
    names: Mapping[str, tuple[str, str]],
) -> NodeEntry:
    """At most so many pods, in the order of their names. `runtime` is how the container runtime calls itself."""
    word = runtime.partition(" ")[0].lower()
    scheme = f"{word}://" if word in _CONTAINER_RUNTIMES else ""
    known = sorted((names[uid], uid) for uid in targets if uid in names)
    return NodeEntry(
        node,
        tuple(
            NumaPart(numa.id, _listed(numa.cpus & machine.online), str(numa.id) if numa.memory_bytes else "")
            for numa in machine.numa
        ),
        tuple(
            PlacedPod(
                targets[uid].node,
                name,
                namespace,
                tuple(
                    PlacedContainer(
                        f"{scheme}{one.id}",
                        one.name,
                        _listed(CpuSet.parse(has.cpus)),
                        _listed(CpuSet.parse(has.mems)),
                    )
                    for one, has in placed.get(uid, ())[:MOST_CONTAINERS]
                ),
            )
            for (namespace, name), uid in known[:MOST_PODS]
        ),
    )


def _listed(numbers: CpuSet) -> str:
    """One by one, as openFuyao writes them."""
    return ",".join(map(str, numbers))
