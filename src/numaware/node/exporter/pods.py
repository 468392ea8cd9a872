"""Metrics of pods: which NUMA nodes their CPUs are on, and where their memory really lies.

A pod that holds nothing of its own has no place, and is listed by its memory only. More pods than `most` are left out,
whole, and counted: a node with thousands of them must not fill a Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import Machine
from numaware.node.exporter.cgroups import Memory, pod_groups, pod_memory, pod_names
from numaware.node.exporter.families import Family, Sample, gauge
from numaware.node.podresources import Allocatable, PodHoldings, held_cpus

_COUNTED = ("anon", "file")
_CPUS = {
    "exclusive": "CPUs that containers have for themselves.",
    "shared": "CPUs that nobody has for himself.",
    "allocatable": "CPUs that the kubelet could hand out for exclusive use.",
    "reserved": "CPUs that the kubelet keeps for the system.",
}


def pod_metrics(
    source: Source,
    machine: Machine,
    held: tuple[PodHoldings, ...] | None,
    allocatable: Allocatable | None,
    most: int,
) -> Iterator[Family]:
    """`held` is None where the kubelet gave no answer: then nothing is said of placement."""
    groups = pod_groups(source, 4 * most)
    names = pod_names(source) if groups else {}
    memory = {
        names[uid]: counted
        for uid, group in sorted(groups.items())
        if uid in names and (counted := pod_memory(source, group)) is not None
    }
    listed = [
        pod for pod in held or () if any(one.cpus or one.memory or one.devices for one in pod.containers)
    ]
    everyone = sorted({(pod.namespace, pod.name) for pod in listed} | memory.keys())
    shown = set(everyone[:most])
    text = "Pods without metrics because there are more than the exporter may show."
    yield gauge("numa_exporter_pods_left_out", text, [], [((), len(everyone) - len(shown))])
    yield from _cpus(machine, held, allocatable)
    yield from _placement(machine, [pod for pod in listed if (pod.namespace, pod.name) in shown])
    yield from _memory(machine, listed, {key: memory[key] for key in memory if key in shown})


def _cpus(
    machine: Machine, held: tuple[PodHoldings, ...] | None, allocatable: Allocatable | None
) -> Iterator[Family]:
    """CPUs of each NUMA node by what the kubelet does with them."""
    counts: dict[str, list[Sample]] = {name: [] for name in _CPUS}
    owned = held_cpus(one for pod in held or () for one in pod.containers)
    for numa in machine.numa:
        values = (str(numa.id),)
        if held is not None:
            counts["exclusive"].append((values, len(numa.cpus & owned)))
            counts["shared"].append((values, len(numa.cpus - owned)))
        if allocatable is not None and allocatable.cpus:
            counts["allocatable"].append((values, len(numa.cpus & allocatable.cpus)))
            counts["reserved"].append((values, len(numa.cpus - allocatable.cpus)))
    for name, text in _CPUS.items():
        yield gauge(f"numa_node_cpus_{name}", text, ["numa"], counts[name])


def _placement(machine: Machine, pods: list[PodHoldings]) -> Iterator[Family]:
    cpus: list[Sample] = []
    spread: list[Sample] = []
    masks = [(numa.id, numa.cpus.mask) for numa in machine.numa]
    for pod in pods:
        nodes: set[int] = set()
        for container in pod.containers:
            own = container.cpus.mask
            for node, mask in masks if own else ():
                count = (own & mask).bit_count()
                if count:
                    nodes.add(node)
                    cpus.append(((str(node), pod.namespace, pod.name, container.name), count))
            nodes.update(node for block in container.memory for node in block.nodes)
            nodes.update(node for entry in container.devices for node in entry.nodes)
        if nodes:
            spread.append(((pod.namespace, pod.name), len(nodes)))
    text = "CPUs of the NUMA node that the container has for itself."
    yield gauge("numa_pod_cpus", text, ["numa", "namespace", "pod", "container"], cpus)
    text = "NUMA nodes that the pod has CPUs, memory or devices of."
    yield gauge("numa_pod_spread", text, ["namespace", "pod"], spread)


def _memory(
    machine: Machine, listed: list[PodHoldings], memory: Mapping[tuple[str, str], Memory]
) -> Iterator[Family]:
    sizes: list[Sample] = []
    remote: list[Sample] = []
    owned = {(pod.namespace, pod.name): held_cpus(pod.containers) for pod in listed}
    for (namespace, name), kinds in sorted(memory.items()):
        for kind, nodes in sorted(kinds.items()):
            # Most pods have nothing on most nodes, and a series for each of those nothings would be most series.
            sizes += [
                ((str(node), namespace, name, kind), size) for node, size in sorted(nodes.items()) if size
            ]
        own = owned.get((namespace, name), CpuSet()).mask
        home = {numa.id for numa in machine.numa if numa.cpus.mask & own}
        counted = [(node, size) for kind in _COUNTED for node, size in kinds.get(kind, {}).items()]
        total = sum(size for _, size in counted)
        if home and total:
            away = sum(size for node, size in counted if node not in home)
            remote.append(((namespace, name), away / total))
    text = "Memory of the pod that lies on the NUMA node, by type."
    yield gauge("numa_pod_memory_bytes", text, ["numa", "namespace", "pod", "type"], sizes)
    text = "Share of the memory of a pod that lies on NUMA nodes where it has no CPUs; pods with CPUs of their own only."
    yield gauge("numa_pod_remote_memory_ratio", text, ["namespace", "pod"], remote)
