"""What one pod of a kind takes of a node, as far as it matters for what is left to others."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from numaware.schedule.room import SHARE_RESOURCE, WHOLE
from numaware.workload.demand import demand
from numaware.workload.pod import Container, Pod, amount, milli, units


class Need(NamedTuple):
    """What one pod of a kind takes, in the units of `NumaRoom`; `milli` is the part of each GPU, WHOLE for all of it.

    `pinned` says that its CPUs and memory are its own, and no others.
    """

    cpus: int
    memory: int
    gpus: int
    milli: int
    pinned: bool = False

    def size(self, *, by_gpus: bool) -> int:
        """What such a pod uses of what is counted, in thousandths of GPUs or CPUs."""
        return self.gpus * self.milli if by_gpus else self.cpus * WHOLE


def need_of(pod: Pod, gpu: str) -> Need:
    """What a pod takes of CPUs, memory and the device resource `gpu`."""
    return _need(pod.containers, pod.init_containers, gpu)


@lru_cache(maxsize=8192)
def _need(containers: tuple[Container, ...], init_containers: tuple[Container, ...], gpu: str) -> Need:
    wanted = demand(Pod("", containers=containers, init_containers=init_containers))
    share = sum(units(amount(container.limits, SHARE_RESOURCE)) for container in containers)
    cpus = sum(milli(amount(container.requests, "cpu")) for container in containers)
    memory = sum(units(amount(container.requests, "memory")) for container in containers)
    gpus = 1 if share else dict(wanted.devices).get(gpu, 0)
    return Need(-(-cpus // 1000), memory, gpus, share or WHOLE, bool(wanted.cpus or wanted.memory))
