"""What the kernel's control groups tell of each pod: its processes, network namespace, CPU time, weight and memory.

Enough to plan without asking anybody: a pod's group has its uid in its name, and its share of CPU time says what it
requests. Version 1 has a tree for each controller, version 2 one for all.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.machine.sysfs.source import Source
from numaware.node.exporter.cgroups import pod_groups, pod_memory, pod_names

_MOST_PROCESSES = 4096
# Of CPU shares: 1024 for a whole CPU, and 2 for nothing at all.
_WHOLE, _NOTHING = 1024, 2
_V1 = "sys/fs/cgroup/memory/"


class PodGroup(msgspec.Struct, frozen=True):
    """One pod as the kernel sees it. `requested` is in thousandths of a CPU, `used` the CPU time so far in nanoseconds.

    `containers` are the paths of the groups of its containers, below the file system's root.
    """

    uid: str
    namespace: str
    name: str
    processes: tuple[int, ...]
    containers: tuple[str, ...]
    requested: int
    used: int
    memory: dict[int, int]


def read_pods(source: Source, most: int) -> list[PodGroup]:
    """Pods that run something, by uid; at most so many."""
    names = pod_names(source)
    pods = []
    for uid, group in sorted(pod_groups(source, most).items()):
        members = [group, *_below(source, group)]
        processes = [pid for member in members for pid in _processes(source, member)]
        if not processes:
            continue
        namespace, name = names.get(uid, ("", ""))
        kinds = pod_memory(source, group) or {}
        memory: dict[int, int] = {}
        for kind in ("anon", "file"):
            for node, size in kinds.get(kind, {}).items():
                memory[node] = memory.get(node, 0) + size
        pods.append(
            PodGroup(
                uid=uid,
                namespace=namespace,
                name=name,
                processes=tuple(sorted(processes[:_MOST_PROCESSES])),
                containers=tuple(members[1:]),
                requested=_requested(source, group),
                used=_used(source, group),
                memory=memory,
            )
        )
    return pods


def controller_path(group: str, controller: str) -> str:
    """Where another controller keeps the group: in version 1 in a tree of its own."""
    return group.replace(_V1, f"sys/fs/cgroup/{controller}/", 1) if group.startswith(_V1) else group


def _below(source: Source, group: str, depth: int = 0) -> Iterator[str]:
    for name in source.names(group):
        # Files have a controller's name before a dot; groups of containers are folders without one, or `.scope`s.
        path = f"{group}/{name}"
        if depth < 2 and ("." not in name or name.endswith((".scope", ".slice"))) and source.names(path):
            yield path
            yield from _below(source, path, depth + 1)


def _processes(source: Source, group: str) -> list[int]:
    data = source.raw(f"{group}/cgroup.procs") or b""
    return [int(pid) for pid in data.split()[:_MOST_PROCESSES] if pid.isdigit() and len(pid) < 10]


def _requested(source: Source, group: str) -> int:
    shares = source.number(f"{controller_path(group, 'cpu')}/cpu.shares")
    if shares is None:
        weight = source.number(f"{group}/cpu.weight")
        if weight is None:
            return 0
        # As container runtimes turn shares into weights, backwards.
        shares = _NOTHING + (weight - 1) * 262142 // 9999
    return 0 if shares <= _NOTHING else shares * 1000 // _WHOLE


def _used(source: Source, group: str) -> int:
    time = source.number(f"{controller_path(group, 'cpuacct')}/cpuacct.usage")
    if time is not None:
        return time
    for line in (source.raw(f"{group}/cpu.stat") or b"").splitlines():
        name, _, value = line.partition(b" ")
        if name == b"usage_usec" and value.isdigit():
            return int(value) * 1000
    return 0
