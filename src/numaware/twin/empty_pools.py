"""Whether a pod with resources of its own leaves nothing of them to the containers that share them.

Mirrors `validatePodScopeResources` of the CPU and Memory Managers (v1.36 and later, gate PodLevelResourceManagers). Asked for
hints, where it makes a pod impossible, and once more for the allocation, where it has its own words.
"""

from __future__ import annotations

from numaware.workload.demand import Demand


def lacking_cpus(wanted: Demand) -> str:
    """What is wrong with the pod's CPUs, empty where nothing is."""
    total, taken, shared = wanted.cpus, 0, False
    for container in wanted.containers:
        if not container.ends:
            taken += container.cpus
            shared = shared or not container.cpus
        elif not container.cpus and taken >= total:
            return "pod has shared init containers but no cpus available for them"
    if shared and taken >= total:
        return (
            "sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
        )
    return ""


def lacking_memory(wanted: Demand) -> tuple[str, str]:
    """What is wrong with the pod's memory, and of which kind; the kubelet names any of those that are short.

    A container shares memory if it has none of any kind for itself.
    """
    taken = dict.fromkeys(dict(wanted.memory), 0)
    shared = False
    for container in wanted.containers:
        if not container.ends:
            shared = shared or not container.memory
            for kind, size in container.memory:
                taken[kind] = taken.get(kind, 0) + size
        elif not container.memory:
            for kind, total in wanted.memory:
                if taken[kind] >= total:
                    return f"pod has shared init containers but no {kind} available for them", kind
    for kind, total in wanted.memory:
        if shared and taken[kind] >= total:
            return (
                f"sum of exclusive container {kind} requests equals pod budget, "
                "leaving no memory for shared containers"
            ), kind
    return "", ""
