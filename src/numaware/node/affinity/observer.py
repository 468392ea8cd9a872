"""What is seen of the node period by period: pods, what they use, and who talks to whom.

Reads control groups, counts bytes in network namespaces and asks the kubelet who holds what; one `Look` comes of it, and
the talk, smoothed. `worker.py` asks it once a period.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from numaware.affinity.chosen import Said
from numaware.affinity.traffic import Flows, Pair, Smoothing, after, talking
from numaware.machine import sysfs
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import open_tree
from numaware.node.affinity.look import Look
from numaware.node.affinity.pod_groups import PodGroup, read_pods
from numaware.node.affinity.pod_networks import networks_of
from numaware.node.exporter import kernel
from numaware.node.podresources import PodResources
from numaware.node.traffic.source import Counted
from numaware.node.traffic.sources import Sources
from numaware.node.troubles import Troubles


class Observer:
    """Looks at one node. `said` gives what people say of its pods; `traffic` counts what they say to each other."""

    def __init__(
        self,
        root: str,
        service: PodResources,
        troubles: Troubles,
        smoothing: Smoothing,
        most_pods: int,
        said: Callable[[], Said | None],
        traffic: Sources,
    ) -> None:
        self.machine = sysfs.read(open_tree(root))
        self._root = root
        self._service = service
        self._troubles = troubles
        self._smoothing = smoothing
        self._most_pods = most_pods
        self._said = said
        self._traffic = traffic
        self._flows: Flows = {}
        self._used: dict[str, tuple[float, int]] = {}
        self._collected_at: float | None = None

    @property
    def talk(self) -> dict[Pair, int]:
        """Who talks to whom, in bytes a second."""
        return talking(self._flows)

    async def pods(self) -> tuple[PodGroup, ...]:
        """Those that run, from the kernel alone."""
        source = Source(open_tree(self._root))
        return tuple(await asyncio.to_thread(read_pods, source, self._most_pods))

    async def look(self, pods: tuple[PodGroup, ...]) -> Look:
        """Raises what reading the node or asking the kubelet raises: half a picture is none."""
        held = await self._service.pods()
        counted = await asyncio.to_thread(self._count, pods)
        now = time.monotonic()
        if counted is not None:
            if self._collected_at is not None:
                passed = int((now - self._collected_at) * 1000)
                self._flows = after(self._flows, counted.bytes, passed, self._smoothing)
            self._collected_at = now
            self._complain(counted)
        source = Source(open_tree(self._root))
        free = {
            numa.id: kernel.memory(source, numa.id).get(kernel.AVAILABLE, 0) for numa in self.machine.numa
        }
        return Look(self.machine, pods, held, free, self._loads(pods, now), self._said())

    def close(self) -> None:
        self._traffic.close()

    def _count(self, pods: tuple[PodGroup, ...]) -> Counted | None:
        return self._traffic.collect(networks_of(self._root, pods), time.monotonic())

    def _complain(self, counted: Counted) -> None:
        if counted.unread:
            place, problem = min(counted.unread.items())
            self._troubles.raised("traffic", "unread", f"{place}: {problem}")
        elif counted.lost:
            self._troubles.raised("traffic", "lost", f"{counted.lost[0]}: more was said than could be read")
        else:
            self._troubles.cleared("traffic")

    def _loads(self, pods: tuple[PodGroup, ...], now: float) -> dict[str, int]:
        loads = {}
        for pod in pods:
            before = self._used.get(pod.uid)
            if before is not None and now > before[0]:
                loads[pod.uid] = max(0, int((pod.used - before[1]) / (now - before[0]) / 1e6))
        self._used = {pod.uid: (now, pod.used) for pod in pods}
        return loads
