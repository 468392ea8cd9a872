"""The pod a machine is meant for, cut to what an empty node of its kind can give: the proof of a configuration."""

from __future__ import annotations

from numaware.twin.account import free_memory
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod

_MEBI = 1 << 20
# The part of a NUMA node's CPUs and memory that one pod of each purpose takes, as one of so many.
_PARTS = {"ai-training": 1, "inference": 4, "latency": 4, "database": 2, "mixed": 8}
_WITH_DEVICES = ("ai-training", "inference")


def typical_pod(purpose: str, node: Node) -> Pod:
    """A Guaranteed pod with whole cores of one NUMA node, and its GPUs where the purpose is about GPUs."""
    kubelet = node.kubelet
    devices = _devices(purpose, node)
    best = max(
        range(len(kubelet.layout.ids)),
        key=lambda place: (devices.get(place, ("", 0))[1], _free_cpus(node, place), -place),
    )
    per_core = max(1, kubelet.layout.cpus_per_core)
    step = per_core if _free_cpus(node, best) >= per_core else 1
    part = _PARTS[purpose]
    cpus = max(step, _free_cpus(node, best) // part // step * step)
    memory = max(_MEBI, _free_memory(node, best) // 2 // part // _MEBI * _MEBI)
    resource, count = devices.get(best, ("", 0))
    wanted = {
        "cpu": cpus * NANO if kubelet.cpus else NANO // 10,
        "memory": memory * NANO,
        **({resource: (count if purpose == "ai-training" else 1) * NANO} if count else {}),
    }
    limits = tuple(sorted(wanted.items()))
    return Pod(f"typical-{purpose}", uid=purpose, containers=(Container("main", limits, limits),))


def _devices(purpose: str, node: Node) -> dict[int, tuple[str, int]]:
    """By position of the NUMA node, the resource it has most of, and how many."""
    if purpose not in _WITH_DEVICES:
        return {}
    ids = node.kubelet.layout.ids
    most: dict[int, tuple[str, int]] = {}
    for resource in node.kubelet.hardware.resources:
        for place, number in enumerate(ids):
            beside = _free_cpus(node, place) or not node.kubelet.cpus
            count = sum(device.numa == (number,) for device in resource.devices) if beside else 0
            if count > most.get(place, ("", 0))[1]:
                most[place] = (resource.name, count)
    return most


def _free_cpus(node: Node, place: int) -> int:
    cpus = node.kubelet.cpus
    kept = cpus.reserved_cores if cpus else 0
    return (node.kubelet.layout.node_cpus[place] & ~kept).bit_count()


def _free_memory(node: Node, place: int) -> int:
    """Plain memory less what is kept."""
    pages = 0 if node.kubelet.memory else sum(size for _, size in node.kubelet.hardware.numa[place].hugepages)
    return max(0, free_memory(node)[place] - pages)
