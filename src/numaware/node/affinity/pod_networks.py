"""In which network namespace each pod is: that of its processes. Pods on the host's network are all in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from numaware.node.affinity.pod_groups import PodGroup
from numaware.node.traffic.source import PodNetwork


def networks_of(root: str, pods: Iterable[PodGroup]) -> list[PodNetwork]:
    """Pods whose processes have all ended meanwhile are left out."""
    base = Path(root)
    # The first process is the host's; who may not look at it is on the host's network himself, or sees no host.
    host = _number(base / "proc/1/ns/net") or _number(base / "proc/self/ns/net")
    networks = []
    for pod in pods:
        for process in pod.processes:
            path = base / "proc" / str(process) / "ns/net"
            number = _number(path)
            if number is not None:
                groups = [_number(base / group) for group in pod.containers]
                known = tuple(group for group in groups if group is not None)
                networks.append(PodNetwork(pod.uid, number, str(path), number == host, known, pod.processes))
                break
    seen = Counter(network.namespace for network in networks)
    return [msgspec.structs.replace(one, shared=one.shared or seen[one.namespace] > 1) for one in networks]


def _number(path: Path) -> int | None:
    """The kernel's number of what is there; for a namespace and for a control group that is what they are known by."""
    try:
        return path.stat().st_ino
    except OSError:
        return None
